"""What scale-down did in a simulation, in words and as JSON."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from nodewright.adapters.simulated.journal import What
from nodewright.adapters.simulated.result import SimulationResult
from nodewright.cli.screen import count
from nodewright.model.removal import RemovalEnded, RemovalResult


def scale_down_in_words(result: SimulationResult) -> str:
    """``4 nodes removed (3 empty, 1 underutilized), 5 pods evicted; 1 given back: FailedToEvictPods``."""
    removed = [over for over in result.removals if over.result == RemovalResult.OK]
    reasons = ", ".join(f"{number} {reason}" for reason, number in _reasons(removed).items())
    said = f"{count(len(removed), 'node')} removed{f' ({reasons})' if reasons else ''}, "
    said += f"{count(_evictions(result), 'pod')} evicted"
    failed = Counter(str(over.result) for over in result.removals if over.result != RemovalResult.OK)
    listed = ", ".join(f"{number} {what}" for what, number in sorted(failed.items()))
    return f"{said}; given back: {listed}" if listed else said


def scale_down_json(result: SimulationResult) -> dict[str, Any]:
    """As part of ``--output json``."""
    removed = [over for over in result.removals if over.result == RemovalResult.OK]
    return {
        "removed": dict(_reasons(removed)),
        "evicted": _evictions(result),
        "removals": list(_each(result)),
    }


def _each(result: SimulationResult) -> Iterator[dict[str, Any]]:
    for over in result.removals:
        yield {
            "node": over.removal.node,
            "group": str(over.removal.group),
            "reason": str(over.removal.reason),
            "started": over.started,
            "ended": over.at,
            "result": str(over.result),
            "message": over.message,
            "evicted": list(over.evicted),
        }


def _reasons(removed: list[RemovalEnded]) -> Counter[str]:
    return Counter(str(over.removal.reason) for over in removed)


def _evictions(result: SimulationResult) -> int:
    return sum(fact.what == What.POD_EVICTED for fact in result.journal)
