"""Kind ``provreq``: as ``runonce``, with requests for the capacity of groups of pods."""

from collections.abc import Mapping
from typing import Any

from runonce.compare import check as check_loops

_CORE = ("conditionCounts", "requestCount")
_DETAILS = ("conditions", "conditionDetails")


def check(case: Mapping[str, Any]) -> list[str]:
    """What differs from the loops observed, loop by loop."""
    return check_loops(case, _CORE, _DETAILS)
