"""When time alone changes what scale-down plans, so that loops in between can be left out (design.md §8)."""

import math
from collections.abc import Iterable, Iterator

from nodewright.clusterstate.activity import MOVES_WINDOW
from nodewright.clusterstate.quarantine import DELETION_SECONDS
from nodewright.clusterstate.state import ClusterState, ScaleDownMemory
from nodewright.model.node import TO_BE_DELETED_TAINT
from nodewright.model.reason import UnremovableCode
from nodewright.model.settings import ScaleDownSettings
from nodewright.planner.plan import ScaleDownReport
from nodewright.planner.scale_down.drain_rules import overdue_after
from nodewright.planner.scale_down.taints import tainted_at
from nodewright.planner.scale_down.unneeded import needed_seconds

_OTHERS_FIRST = frozenset({UnremovableCode.NOT_EXAMINED, UnremovableCode.AWAITS_TURN})


def next_change(
    state: ClusterState, report: ScaleDownReport, memory: ScaleDownMemory, settings: ScaleDownSettings
) -> float:
    """The earliest moment (epoch seconds), now or later, after which something may be decided otherwise.

    ``memory`` is what this plan leaves to the next one.
    """
    moments = [
        *_passed_at(state, report),
        *(_reached_at(moment) for moment in _ends(state, report, memory, settings)),
    ]
    if any(reason.code in _OTHERS_FIRST for reason in report.passed_over.values()):
        moments.append(state.now)
    if len(report.mark) + len(report.unmark) >= settings.max_bulk_soft_taint_count > 0:
        moments.append(state.now)
    return min((moment for moment in moments if moment >= state.now), default=math.inf)


def _reached_at(moment: float) -> float:
    """A loop exactly at the moment is in time: whoever waits until time is beyond something must wait for less."""
    return math.nextafter(moment, -math.inf)


def _passed_at(state: ClusterState, report: ScaleDownReport) -> Iterator[float]:
    """Moments beyond which something holds: nodes unneeded for long enough, pods that will never end."""
    for name, since in report.unneeded.items():
        if needed := needed_seconds(state, name):
            yield since + needed
    snapshot = state.observation.snapshot
    rows = {row for held, rows in snapshot.placements() if held.terminating for row in rows}
    overdue = (overdue_after(pod) for row in rows for pod in snapshot.pods(row))
    yield from (at for at in overdue if at is not None)


def _ends(
    state: ClusterState, report: ScaleDownReport, memory: ScaleDownMemory, settings: ScaleDownSettings
) -> Iterator[float]:
    """Moments from which on something holds no longer: cool-downs, rechecks, quarantines, marks of deletion."""
    yield report.cooldown_until
    yield from memory.recheck_at.values()
    yield from memory.quarantined_until.values()
    yield from (held.until for held in memory.flapping.values())
    yield from (held.until for held in memory.setbacks.values())
    yield from (move.at + MOVES_WINDOW for moves in memory.moves.values() for move in moves)
    if settings.scale_down_delay_type_local:
        yield from (at + settings.scale_down_delay_after_add for at in memory.grown_at.values())
        yield from (at + settings.scale_down_delay_after_delete for at in memory.shrunk_at.values())
        yield from (at + settings.scale_down_delay_after_failure for at in memory.failed_at.values())
    # Thousands of nodes share few reasons: most loops see at once that none is such.
    given = report.unremovable.values()
    reasons = dict(zip(map(id, given), given, strict=True))
    if any(reason.code is UnremovableCode.BEING_DELETED for reason in reasons.values()):
        marked = (name for name, reason in report.unremovable.items() if reason.code is UnremovableCode.BEING_DELETED)
        yield from _marks_end(state, marked)


def _marks_end(state: ClusterState, names: Iterable[str]) -> Iterator[float]:
    snapshot = state.observation.snapshot
    marked = (tainted_at(snapshot.node(snapshot.row(name)), TO_BE_DELETED_TAINT) for name in names)
    yield from (at + DELETION_SECONDS for at in marked if at is not None)
