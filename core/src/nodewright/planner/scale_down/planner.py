"""Scale-down as a whole: what could go, since when, and what goes now (behaviour/down.md A1, A3).

Whether removals wait because something happened of late (behaviour/down.md A1).

When time alone changes what scale-down plans, so that loops in between can be left out (design.md §8)."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nodewright.clusterstate.deletions import DELETION_SECONDS
from nodewright.clusterstate.memory import ScaleDownMemory
from nodewright.clusterstate.scale_down_activity import MOVES_WINDOW
from nodewright.clusterstate.state import ClusterState
from nodewright.estimator.limits import IsOver
from nodewright.model.group import GroupRef
from nodewright.model.node import TO_BE_DELETED_TAINT
from nodewright.model.reason import ScaleDownResult, Unremovable, UnremovableCode
from nodewright.model.settings import ScaleDownSettings, Settings
from nodewright.planner.plan import ScaleDownReport
from nodewright.planner.scale_down.drainability import overdue_after
from nodewright.planner.scale_down.eligibility import (
    Candidates,
    Eligibility,
    SimilarGroupBalance,
    find_candidates,
    find_eligible,
    sort_candidates,
)
from nodewright.planner.scale_down.node_removal import SimulatedRemovals, simulate_removals, update_interval
from nodewright.planner.scale_down.selection import RemovalSelection, SimulateAgain, select_removals
from nodewright.planner.scale_down.unneeded import (
    choose_soft_taints,
    needed_seconds,
    restored_unneeded_since,
    tainted_at,
)
from nodewright.planner.scale_up.context import ScaleUpContext, deadline

# A new engine takes it that everything last happened so many seconds before it began.
_BEFORE_START = 3600.0
_OTHERS_FIRST = frozenset({UnremovableCode.NOT_EXAMINED, UnremovableCode.AWAITS_TURN})


@dataclass(frozen=True, kw_only=True)
class CandidateAnalysis:
    """What a look at all nodes showed: which are candidates, which of them are used little, which could go."""

    candidates: Candidates
    eligible: Eligibility
    balance: SimilarGroupBalance | None
    found: SimulatedRemovals


def forget_unneeded(state: ClusterState, settings: Settings) -> ScaleDownReport:
    """What a loop leaves that finds the cluster unfit: whatever was unneeded is needed until it is seen anew."""
    if not settings.scale_down.scale_down_enabled:
        return ScaleDownReport()
    memory = state.memory.scale_down
    return ScaleDownReport(memory=replace(memory, unneeded_since={}, updated_at=memory.updated_at or state.now))


def plan_scale_down(
    context: ScaleUpContext, targets: Mapping[GroupRef, int], grown: Iterable[GroupRef], wait: str
) -> ScaleDownReport:
    """What could go and what goes; nothing does while there is something to ``wait`` for.

    ``targets`` are those of groups that are written to in this loop, as they will be; ``grown`` are groups that grow
    for pods.
    """
    state, settings, held = context.state, context.settings, context.state.memory.scale_down
    names = state.observation.snapshot.common_names(context.snapshot)
    before = restored_unneeded_since(held, context.snapshot, names, settings, state.now)
    memory = replace(held, unneeded_since=before, grown_at={**held.grown_at, **dict.fromkeys(grown, state.now)})
    state = replace(_resized(state, targets, settings), memory=replace(state.memory, scale_down=memory))
    context = replace(context, state=state)
    survey = _analyze_candidates(context, names)
    until, why = cooldown_until(memory, settings.scale_down)
    wait = wait or (why if until > state.now else "")
    after = replace(
        held,
        unneeded_since={
            **_of_held_groups(before, state),
            **{node.name: before.get(node.name, state.now) for node in survey.found.removable},
        },
        recheck_at=_recheck_at(context, survey.found),
        hints=survey.found.hints,
        interval=update_interval(memory, settings, state.now),
        updated_at=state.now,
    )
    report = replace(_report(context, survey, after, wait), cooldown_until=until)
    after = report.memory or after
    return replace(report, next_change=next_change(state, report, after, settings.scale_down))


def _of_held_groups(since: Mapping[str, float], state: ClusterState) -> dict[str, float]:
    """The times of nodes that cannot be judged until a former engine's write is over: they run on."""
    shut = state.memory.writes_in_flight
    return {name: at for name, at in since.items() if state.group_of_node.get(name) in shut} if shut else {}


def _report(context: ScaleUpContext, survey: CandidateAnalysis, after: ScaleDownMemory, wait: str) -> ScaleDownReport:
    """What is done now; ``after`` is what is remembered of it, ``wait`` why no removal may begin (empty: it may)."""
    since, found, ratios = after.unneeded_since, survey.found, survey.eligible.utilization
    if wait:
        choice = _wait(since, wait)
    else:
        choice = select_removals(context, found, since, ratios, survey.balance, _second_look(context, found))
    most = context.settings.scale_down.max_bulk_soft_taint_count
    mark, unmark = choose_soft_taints(context.state, since.keys(), context.snapshot, most)
    return ScaleDownReport(
        result=_result(choice, survey, bool(wait)),
        removals=choice.removals,
        unneeded=since,
        unremovable={**survey.eligible.unremovable, **found.unremovable, **choice.stay},
        passed_over={**survey.candidates.passed_over, **found.skipped, **choice.waiting},
        utilization=ratios,
        mark=mark,
        unmark=unmark,
        partial="; ".join(filter(None, (found.partial, choice.partial))),
        memory=replace(after, hints=after.hints.updated(choice.hints)) if choice.hints else after,
    )


def _resized(state: ClusterState, targets: Mapping[GroupRef, int], settings: Settings) -> ClusterState:
    """The state with the targets that this loop leaves. CA reads them anew; here what is only asked for may be refused,
    so that the smaller size counts.
    """
    groups = dict(state.groups)
    for ref, target in targets.items():
        group = groups[ref]
        kept = target if settings.is_ca else min(target, group.seen.target or 0)
        groups[ref] = replace(group, seen=replace(group.seen, target=kept))
    return replace(state, groups=groups) if targets else state


def _analyze_candidates(context: ScaleUpContext, names: Sequence[str]) -> CandidateAnalysis:
    """Look at all nodes, as far as there is need."""
    state, settings = context.state, context.settings
    candidates = find_candidates(state, names, settings)
    eligible = find_eligible(context.snapshot, candidates.names, state, settings)
    balance = None
    if settings.balances_removals:
        balance = SimilarGroupBalance(context, (state.group_of_node[name] for name in eligible.names))
    ordered = sort_candidates(eligible.names, context, balance)
    found = simulate_removals(
        context.snapshot, ordered, state.memory.scale_down.hints, state, settings, _time_limit(context)
    )
    return CandidateAnalysis(candidates=candidates, eligible=eligible, balance=balance, found=found)


def _second_look(context: ScaleUpContext, found: SimulatedRemovals) -> SimulateAgain:
    """Tries to empty nodes while all others stay; all tries together have as much time as the first look had."""
    is_over = _time_limit(context)
    return lambda names: simulate_removals(
        context.snapshot, names, found.hints, context.state, context.settings, is_over
    )


def _time_limit(context: ScaleUpContext) -> IsOver:
    return deadline(context.state.elapsed, context.settings.scale_down.scale_down_simulation_timeout)


def _wait(since: Iterable[str], why: str) -> RemovalSelection:
    return RemovalSelection(waiting=dict.fromkeys(since, Unremovable(code=UnremovableCode.IN_COOLDOWN, message=why)))


def _result(choice: RemovalSelection, survey: CandidateAnalysis, waits: bool) -> ScaleDownResult:
    if waits:
        return ScaleDownResult.IN_COOLDOWN
    if not survey.candidates.count:
        return ScaleDownResult.NO_CANDIDATES
    return ScaleDownResult.STARTED if choice.removals else ScaleDownResult.NO_NODE_DELETED


def _recheck_at(context: ScaleUpContext, found: SimulatedRemovals) -> Mapping[str, float]:
    """When nodes that a simulation showed to be needed are looked at again."""
    now, later = context.state.now, context.settings.scale_down.unremovable_node_recheck_timeout
    memory = context.state.memory.scale_down
    held = {name: at for name, at in memory.recheck_at.items() if at > now and name in context.snapshot}
    return held | dict.fromkeys(found.unremovable, now + later)


def cooldown_until(memory: ScaleDownMemory, settings: ScaleDownSettings) -> tuple[float, str]:
    """Until when (epoch seconds) no removal begins, in the whole cluster, and why; at that moment it may."""
    if settings.scale_down_delay_type_local:
        return 0.0, ""
    begin = memory.engine_started - _BEFORE_START
    grown = max(begin, *memory.grown_at.values(), memory.room_found_at)
    waits = (
        (grown + settings.scale_down_delay_after_add, "nodes were added"),
        (max(begin, memory.marking_failed_at) + settings.scale_down_delay_after_failure, "a removal failed to begin"),
        (max(begin, memory.removal_started_at) + settings.scale_down_delay_after_delete, "a removal began"),
    )
    until, why = max(waits)
    return until, f"{why} too short a time ago"


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
    yield from (held.until for held in memory.removal_failures.values())
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
