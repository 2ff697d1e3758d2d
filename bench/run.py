"""Runs benchmarks: ``run.py [NAME…] [--runs N] [--share S] [--output json]``.

Each runs in a process of its own, with fresh input for every run. Times are of the processor (of the wall, where
something waits), with the garbage collector off, as in the Go benchmarks; median with minimum and maximum. The peak is
the resident memory of the process, input included. A result that is not the expected one fails, however fast.
``--share`` makes every workload smaller, to see whether results are right.

Exit code 1: a wrong result. 2: an unknown name.
"""

import argparse
import gc
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, TypedDict

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from measure import Benchmark, reference
from workloads import BENCHMARKS


class Seconds(TypedDict):
    median: float
    min: float
    max: float


class Row(TypedDict):
    """``times`` is how many times as fast as the Go figure the median is, ``notes`` what else the last run measured.

    ``reference`` is what a fixed piece of work took, just before and just after, in seconds on average: where it
    differs between two rows, the machine did, too.
    """

    name: str
    seconds: Seconds
    peak_mib: float
    result: dict[str, int]
    ok: bool
    workload: str
    start: str
    go: str | None
    times: float | None
    wanted: float | None
    limit: float | None
    beyond: tuple[str, float] | None
    limit_mib: float | None
    meets: bool | None
    notes: dict[str, float]
    reference: float


def measure(name: str, benchmark: Benchmark, runs: int, share: float) -> Row:
    timings, results, fine, notes = list[float](), list[dict[str, int]](), True, dict[str, float]()
    before = reference()
    clock = time.perf_counter if benchmark.by_wall else time.process_time
    for _ in range(runs):
        prepared = benchmark.prepare(share)
        gc.collect()
        gc.disable()
        started = clock()
        result = prepared.run()
        timings.append(clock() - started)
        gc.enable()
        results.append(dict(result))
        fine, notes = fine and result == prepared.expected, dict(prepared.notes())
        del prepared
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    median = statistics.median(timings)
    times = benchmark.go[1] / median if benchmark.go and share == 1 else None
    return {
        "name": name,
        "seconds": {"median": median, "min": min(timings), "max": max(timings)},
        "peak_mib": round(peak, 1),
        "result": results[0],
        "ok": fine,
        "workload": benchmark.workload,
        "start": benchmark.start,
        "go": f"{benchmark.go[0]}: {benchmark.go[1]} s" if benchmark.go else None,
        "times": round(times, 1) if times is not None else None,
        "wanted": benchmark.wanted,
        "limit": benchmark.limit,
        "beyond": benchmark.beyond,
        "limit_mib": benchmark.peak_limit_mib,
        "meets": None,
        "notes": notes,
        "reference": round((before + reference()) / 2, 3),
    }


def judge(rows: list[Row]) -> None:
    """Say of whole workloads whether they meet their targets."""
    medians = {row["name"]: row["seconds"]["median"] for row in rows}
    for row in rows:
        row["meets"] = _meets(row, medians)


def _meets(row: Row, medians: Mapping[str, float]) -> bool | None:
    """None where there is no target, or it is about another benchmark that did not run."""
    median, checks = medians[row["name"]], list[bool]()
    if row["times"] is not None and row["wanted"] is not None:
        checks.append(row["times"] >= row["wanted"])
    if row["limit"] is not None:
        checks.append(median <= row["limit"])
    if row["limit_mib"] is not None:
        checks.append(row["peak_mib"] <= row["limit_mib"])
    if row["beyond"] is not None:
        other, seconds = row["beyond"]
        if other not in medians:
            return None
        checks.append(median <= medians[other] + seconds)
    return all(checks) if checks else None


def _in_own_process(name: str, chosen: argparse.Namespace) -> Row:
    command = [sys.executable, __file__, name, "--runs", str(chosen.runs), "--share", str(chosen.share), "--here"]
    found = subprocess.run([*command, "--output", "json"], stdout=subprocess.PIPE, check=False)
    if found.returncode > 1 or not found.stdout:
        raise SystemExit(f"{name} broke off with exit code {found.returncode}")
    rows: list[Row] = json.loads(found.stdout)
    return rows[0]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="of the size of each workload")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    parser.add_argument("--here", action="store_true", help="in this process, for a profiler")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.names if not _named(name)]
    if unknown:
        print(f"no benchmark of the name {unknown[0]}; known: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    names = list(dict.fromkeys(found for name in chosen.names or BENCHMARKS for found in _named(name)))
    if chosen.here:
        rows = [measure(name, BENCHMARKS[name], chosen.runs, chosen.share) for name in names]
    else:
        rows = [_in_own_process(name, chosen) for name in names]
    if chosen.share == 1:
        judge(rows)
    if chosen.output == "json":
        print(json.dumps(rows, indent=2))
    else:
        Console().print(_figures(rows), _results(rows))
    return 0 if all(row["ok"] for row in rows) else 1


def _named(name: str) -> list[str]:
    """Return the benchmark of this name, or all whose names begin with it: ``idle-loop`` has many sizes."""
    return [name] if name in BENCHMARKS else [known for known in BENCHMARKS if known.startswith(f"{name}-")]


def _figures(rows: list[Row]) -> Table:
    """Short columns only, so that they stand beside each other on 80 characters."""
    table = Table(title="nodewright benchmarks; times in milliseconds", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("benchmark", no_wrap=True)
    for heading in ("median", "min", "max", "MiB", "× Go", "wanted"):
        table.add_column(heading, no_wrap=True, justify="right")
    for row in rows:
        seconds = row["seconds"]
        times = [f"{seconds[key] * 1000:,.1f}" for key in ("median", "min", "max")]
        table.add_row(row["name"], *times, f"{row['peak_mib']:,.0f}", _times(row["times"]), _wanted(row))
    return table


def _results(rows: list[Row]) -> Table:
    """Return the results of each."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("benchmark", no_wrap=True)
    table.add_column("workload, from: result")
    for row in rows:
        result = ", ".join(f"{key} {value:,}" for key, value in [*row["result"].items(), *row["notes"].items()])
        mark = "" if row["ok"] else "WRONG: "
        table.add_row(row["name"], f"{row['workload']}, from {row['start']}: {mark}{result}")
    return table


def _times(times: Any) -> str:
    return f"{times:,.0f}" if times is not None else ""


def _wanted(row: Row) -> str:
    mark = "" if row["meets"] is None else (" ✓" if row["meets"] else " ✗")
    limits = (
        (row["wanted"], "{:,.0f} ×"),
        (row["limit"], "{:g} s"),
        (row["limit_mib"], "{:g} MiB"),
    )
    said = [text.format(limit) for limit, text in limits if limit is not None]
    if row["beyond"] is not None:
        said.append(f"+{row['beyond'][1]:g} s")
    return ", ".join(said) + mark


if __name__ == "__main__":
    sys.exit(main())
