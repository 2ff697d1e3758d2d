"""All benchmarks by name."""

from capacity_requests import REQUESTS
from cold_start import COLD_START
from decisions import DECISIONS
from estimates import ESTIMATES
from large import LARGE
from loops import LOOPS
from measure import Benchmark
from mixes import MIXES
from notices import NOTICES
from replays import REPLAYS
from saved_state import SAVED_STATE
from slow_groups import SLOW_GROUPS

BENCHMARKS: dict[str, Benchmark] = {
    **ESTIMATES,
    **LOOPS,
    **MIXES,
    **NOTICES,
    **DECISIONS,
    **LARGE,
    **SLOW_GROUPS,
    **COLD_START,
    **SAVED_STATE,
    **REPLAYS,
    **REQUESTS,
}
