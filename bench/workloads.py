"""All benchmarks by name."""

from capacity_requests import REQUESTS
from cold_start import COLD_START
from estimates import ESTIMATES
from large import LARGE
from loops import LOOPS
from measure import Benchmark
from replays import REPLAYS

BENCHMARKS: dict[str, Benchmark] = {**ESTIMATES, **LOOPS, **LARGE, **COLD_START, **REPLAYS, **REQUESTS}
