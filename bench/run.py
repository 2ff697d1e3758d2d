"""Runs benchmarks: ``run.py [NAME…] [--runs N] [--output json]``.

Times are of whole calls, median with minimum and maximum; a result that is not the expected one fails, however fast.
Exit code 1: a wrong result. 2: an unknown name.
"""

import argparse
import json
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import TypedDict

from rich.console import Console
from rich.table import Table

from workloads import BENCHMARKS, Benchmark, Result


class Seconds(TypedDict):
    median: float
    min: float
    max: float


class Row(TypedDict):
    name: str
    seconds: Seconds
    peak_mib: float
    result: Result
    ok: bool


def measure(name: str, benchmark: Benchmark, runs: int) -> Row:
    """Time fresh inputs; memory is measured in a run of its own, which tracing slows down."""
    timings, results = zip(*(_timed(benchmark.prepare()) for _ in range(runs)), strict=True)
    tracemalloc.start()
    run = benchmark.prepare()
    tracemalloc.reset_peak()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "name": name,
        "seconds": {"median": statistics.median(timings), "min": min(timings), "max": max(timings)},
        "peak_mib": round(peak / 2**20, 1),
        "result": results[0],
        "ok": all(result == benchmark.expected for result in results),
    }


def _timed(run: Callable[[], Result]) -> tuple[float, Result]:
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--output", choices=["table", "json"], default="table")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark of the name {unknown[0]}; known: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    rows = [measure(name, BENCHMARKS[name], chosen.runs) for name in chosen.names or BENCHMARKS]
    if chosen.output == "json":
        print(json.dumps(rows, indent=2))
    else:
        Console().print(_table(rows))
    return 0 if all(row["ok"] for row in rows) else 1


def _table(rows: list[Row]) -> Table:
    table = Table(title="nodewright benchmarks; times in milliseconds")
    table.add_column("benchmark", no_wrap=True)
    for heading in ("median", "min", "max", "peak"):
        table.add_column(heading, no_wrap=True, justify="right")
    table.add_column("workload: result")
    for row in rows:
        seconds = row["seconds"]
        times = [f"{seconds[key] * 1000:,.1f}" for key in ("median", "min", "max")]
        result = ", ".join(f"{key} {value:,}" for key, value in row["result"].items())
        mark = result if row["ok"] else f"WRONG: {result}"
        workload = BENCHMARKS[row["name"]].workload
        table.add_row(row["name"], *times, f"{row['peak_mib']} MiB", f"{workload}: {mark}")
    return table


if __name__ == "__main__":
    sys.exit(main())
