"""Time a sweep of many short runs on one process and on two: how far from linear it is.

Run it with ``.venv/bin/python bench/sweep.py``, on a machine with two cores that has nothing else to do. Both are the command
as users run it, one after another, several times. It prints the seconds by the clock and of processor time, and the
efficiency: seconds with one process over twice the seconds with two. The bound is 0.9. Other processes on the machine
spoil the seconds by the clock; the load is printed, too.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

_SCENARIO = """
name: short
duration: 10m
providers:
  fake:
    groups:
      - {name: small, max_size: 10, cpu: 4, memory: 16Gi, provision_delay: {lognormal: [60s, 0.4]}, price_per_hour: 0.2}
deployments:
  - {name: web, replicas: 8, pod: {cpu: 1500m, memory: 2Gi}}
"""


class Taken(NamedTuple):
    """Seconds by the clock, and of processor time of all processes."""

    clock: float
    processor: float


def measure(folder: Path, jobs: int) -> Taken:
    results = folder / f"results-{jobs}-{time.monotonic_ns()}"
    words = ["sweep", str(folder / "sweep.yaml"), "--results", str(results), "--jobs", str(jobs), "--no-reports"]
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "nodewright", *words], check=True, capture_output=True)
    clock, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Taken(clock, used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=3)
    given = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "short.yaml").write_text(_SCENARIO)
        (folder / "sweep.yaml").write_text(f"{{scenarios: [short.yaml], seeds: {given.runs}}}")
        print("processes   clock  processor  (s)")
        found = []
        for _ in range(given.pairs):
            one, two = measure(folder, 1), measure(folder, 2)
            found.append((one, two))
            for jobs, taken in ((1, one), (2, two)):
                print(f"{jobs:>9}{taken.clock:>8.1f}{taken.processor:>11.1f}")
    efficiency = median(one.clock / (2 * two.clock) for one, two in found)
    overhead = median(two.processor / one.processor - 1 for one, two in found)
    print(
        f"efficiency {efficiency:.2f}; {overhead:+.1%} processor time; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
