"""Scale-down planning: find unneeded nodes, decide which are removed now, and when to decide again."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nodewright.clusterstate.deletions import DELETION_SECONDS
from nodewright.clusterstate.memory import Recheck, ScaleDownMemory
from nodewright.clusterstate.scale_down_activity import MOVES_WINDOW
from nodewright.clusterstate.state import ClusterState
from nodewright.estimator.new_nodes import IsOver
from nodewright.model.group import GroupRef
from nodewright.model.node import TO_BE_DELETED_TAINT
from nodewright.model.plan import ScaleDownReport
from nodewright.model.policy import Policy
from nodewright.model.reason import ScaleDownResult, Unremovable, UnremovableCode
from nodewright.model.settings import ScaleDownSettings
from nodewright.planner.context import PlanningContext, deadline
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
from nodewright.snapshot.node_pods import PodDestinations

# A new engine assumes that everything last happened this many seconds before its start.
_BEFORE_START = 3600.0
# Reasons that hold only because other nodes came first: the next loop may decide otherwise at once.
_OTHERS_FIRST = frozenset({UnremovableCode.NOT_EXAMINED, UnremovableCode.AWAITS_TURN})


@dataclass(frozen=True, kw_only=True)
class CandidateAnalysis:
    """The stages of one loop: candidates, those with low utilization, and those whose pods fit elsewhere."""

    candidates: Candidates
    eligible: Eligibility
    balance: SimilarGroupBalance | None
    found: SimulatedRemovals


def forget_unneeded(state: ClusterState, settings: ScaleDownSettings) -> ScaleDownMemory:
    """Forget all unneeded-since times: in an unhealthy cluster no node may be scaled down."""
    if not settings.scale_down_enabled:
        return state.memory.scale_down
    memory = state.memory.scale_down
    return replace(memory, unneeded_since={}, updated_at=memory.updated_at or state.now)


def plan_scale_down(
    context: PlanningContext, targets: Mapping[GroupRef, int], grown: Iterable[GroupRef], wait: str
) -> tuple[ScaleDownReport, ScaleDownMemory]:
    """Find unneeded nodes and decide which are removed now; none while there is a reason to ``wait``.

    ``targets`` are the new target sizes of groups that this loop writes to. ``grown`` are groups that grow for pods.
    """
    state, settings, held = context.state, context.settings, context.state.memory.scale_down
    names = state.observation.snapshot.common_names(context.snapshot)
    before = restored_unneeded_since(
        held, context.snapshot, names, settings.scale_down.node_deletion_candidate_ttl, state.now
    )
    memory = replace(held, unneeded_since=before, grown_at={**held.grown_at, **dict.fromkeys(grown, state.now)})
    state = replace(_with_targets(state, targets, settings.policy), memory=replace(state.memory, scale_down=memory))
    context = replace(context, state=state)
    analysis = _analyze_candidates(context, names)
    until, why = cooldown_until(memory, settings.scale_down)
    wait = wait or (why if until > state.now else "")
    after = replace(
        held,
        unneeded_since={
            **_times_of_held_groups(before, context),
            **{node.name: before.get(node.name, state.now) for node in analysis.found.removable},
        },
        rechecks=_rechecks(context, analysis.found),
        hints=analysis.found.hints,
        interval=update_interval(context),
        updated_at=state.now,
    )
    report, hints = _report(context, analysis, after, wait)
    after = replace(after, hints=after.hints.updated(hints)) if hints else after
    report = replace(report, cooldown_until=until)
    return replace(report, next_change=next_change(state, report, after, settings.scale_down)), after


def _times_of_held_groups(since: Mapping[str, float], context: PlanningContext) -> dict[str, float]:
    """Return the unneeded-since times of nodes in groups to which a former engine may still be writing.

    These nodes cannot be evaluated yet, but keep their times. A node that is not in the snapshot loses its time: it became
    unready within its startup time and counts as an upcoming machine.
    """
    shut, group_of, snapshot = context.state.memory.writes_in_flight, context.state.group_of_node, context.snapshot
    held = (name for name in since if group_of.get(name) in shut) if shut else ()
    return {name: since[name] for name in held if snapshot.find_row(name) is not None}


def _report(
    context: PlanningContext, analysis: CandidateAnalysis, after: ScaleDownMemory, wait: str
) -> tuple[ScaleDownReport, PodDestinations]:
    """Return the report with the removals that start now, and the places of pods from the confirming simulation.

    ``after`` is the memory for the next loop. ``wait`` is why no removal may start (empty: it may).
    """
    since, found, ratios = after.unneeded_since, analysis.found, analysis.eligible.utilization
    if wait:
        selection = _all_waiting(since, wait)
    else:
        selection = select_removals(context, found, since, ratios, analysis.balance, _simulate_again(context, found))
    most = context.settings.scale_down.max_bulk_soft_taint_count
    taint, untaint = choose_soft_taints(context.state, since.keys() | context.marked, context.snapshot, most)
    report = ScaleDownReport(
        result=_result(selection, analysis, bool(wait)),
        removals=selection.removals,
        unneeded=since,
        unremovable={**analysis.eligible.unremovable, **found.unremovable, **selection.stay},
        passed_over={**analysis.candidates.passed_over, **found.skipped, **selection.waiting},
        utilization=ratios,
        soft_taint=taint,
        soft_untaint=untaint,
        partial="; ".join(filter(None, (found.partial, selection.partial))),
    )
    return report, selection.hints


def _with_targets(state: ClusterState, targets: Mapping[GroupRef, int], policy: Policy) -> ClusterState:
    """Return the state with the target sizes that this loop leaves.

    CA reads the targets again. Outside profile "ca" the smaller of the old and the new target counts, because the cloud may
    still refuse an increase.
    """
    groups = dict(state.groups)
    for ref, target in targets.items():
        group = groups[ref]
        kept = min(target, group.seen.target or 0) if policy.uses_smaller_size else target
        groups[ref] = replace(group, seen=replace(group.seen, target=kept))
    return replace(state, groups=groups) if targets else state


def _analyze_candidates(context: PlanningContext, names: Sequence[str]) -> CandidateAnalysis:
    """Find candidates, measure their utilization, and simulate the removal of those with low utilization."""
    state, settings = context.state, context.settings
    in_moves = context.in_moves
    candidates = find_candidates(state, [name for name in names if name not in in_moves], settings.scale_down)
    if in_moves:
        candidates = replace(candidates, passed_over={**candidates.passed_over, **in_moves})
    eligible = find_eligible(context, candidates.names)
    balance = None
    if settings.policy.balances_removals:
        balance = SimilarGroupBalance(context, (state.group_of_node[name] for name in eligible.names))
    ordered = sort_candidates(eligible.names, context, balance)
    found = simulate_removals(context, ordered, state.memory.scale_down.hints, _time_limit(context))
    return CandidateAnalysis(candidates=candidates, eligible=eligible, balance=balance, found=found)


def _simulate_again(context: PlanningContext, found: SimulatedRemovals) -> SimulateAgain:
    """Return a function that simulates the removal of some nodes while all others stay.

    All its calls together have as much time as the first simulation had.
    """
    is_over = _time_limit(context)
    return lambda names: simulate_removals(context, names, found.hints, is_over)


def _time_limit(context: PlanningContext) -> IsOver:
    return deadline(context.state.elapsed, context.settings.scale_down.scale_down_simulation_timeout)


def _all_waiting(since: Iterable[str], why: str) -> RemovalSelection:
    return RemovalSelection(waiting=dict.fromkeys(since, Unremovable(code=UnremovableCode.IN_COOLDOWN, message=why)))


def _result(selection: RemovalSelection, analysis: CandidateAnalysis, waits: bool) -> ScaleDownResult:
    if waits:
        return ScaleDownResult.IN_COOLDOWN
    if not analysis.candidates.count:
        return ScaleDownResult.NO_CANDIDATES
    return ScaleDownResult.STARTED if selection.removals else ScaleDownResult.NO_NODE_DELETED


def _rechecks(context: PlanningContext, found: SimulatedRemovals) -> Mapping[str, Recheck]:
    """Return when nodes that a simulation found to be needed are simulated again, and why they are needed."""
    now, later = context.state.now, context.settings.scale_down.unremovable_node_recheck_timeout
    memory = context.state.memory.scale_down
    held = {name: known for name, known in memory.rechecks.items() if known.at > now and name in context.snapshot}
    return held | {name: Recheck(now + later, reason) for name, reason in found.unremovable.items()}


def cooldown_until(memory: ScaleDownMemory, settings: ScaleDownSettings) -> tuple[float, str]:
    """Return until when no removal starts in the whole cluster, and why.

    The time is in epoch seconds; at that very moment a removal may start.
    """
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
    """Return the earliest moment after which time alone may change what scale-down decides.

    The moment is now or later, in epoch seconds; inf: only a change in the cluster matters. ``memory`` is what this
    plan leaves to the next loop.
    """
    moments = [
        *_moments_to_pass(state, report),
        *(_just_before(moment) for moment in _moments_of_expiry(state, report, memory, settings)),
    ]
    if any(reason.code in _OTHERS_FIRST for reason in report.passed_over.values()):
        moments.append(state.now)
    if len(report.soft_taint) + len(report.soft_untaint) >= settings.max_bulk_soft_taint_count > 0:
        moments.append(state.now)
    return min((moment for moment in moments if moment >= state.now), default=math.inf)


def _just_before(moment: float) -> float:
    """Return the largest float below ``moment``: the wake-up compares with ``>``, but this deadline is inclusive."""
    return math.nextafter(moment, -math.inf)


def _moments_to_pass(state: ClusterState, report: ScaleDownReport) -> Iterator[float]:
    """Yield times that must have passed before a condition holds: unneeded for long enough, terminating for too long."""
    for name, since in report.unneeded.items():
        if needed := needed_seconds(state, name):
            yield since + needed
    snapshot = state.observation.snapshot
    rows = {row for held, rows in snapshot.placements() if held.terminating for row in rows}
    overdue = (overdue_after(pod) for row in rows for pod in snapshot.pods(row))
    yield from (at for at in overdue if at is not None)


def _moments_of_expiry(
    state: ClusterState, report: ScaleDownReport, memory: ScaleDownMemory, settings: ScaleDownSettings
) -> Iterator[float]:
    """Yield times at which a condition ends: cool-downs, recheck times, quarantines, deletion taints."""
    yield report.cooldown_until
    yield from (known.at for known in memory.rechecks.values())
    yield from memory.quarantined_until.values()
    yield from (held.until for held in memory.flapping.values())
    yield from (held.until for held in memory.removal_failures.values())
    yield from (move.at + MOVES_WINDOW for moves in memory.moved_pods.values() for move in moves)
    if settings.scale_down_delay_type_local:
        yield from (at + settings.scale_down_delay_after_add for at in memory.grown_at.values())
        yield from (at + settings.scale_down_delay_after_delete for at in memory.shrunk_at.values())
        yield from (at + settings.scale_down_delay_after_failure for at in memory.failed_at.values())
    # Thousands of nodes share few reason objects: looking at the distinct ones first is cheap.
    given = report.unremovable.values()
    reasons = dict(zip(map(id, given), given, strict=True))
    if any(reason.code is UnremovableCode.BEING_DELETED for reason in reasons.values()):
        marked = (name for name, reason in report.unremovable.items() if reason.code is UnremovableCode.BEING_DELETED)
        yield from _taint_expiries(state, marked)


def _taint_expiries(state: ClusterState, names: Iterable[str]) -> Iterator[float]:
    """Yield when the deletion taints of these nodes are so old that the nodes are considered again."""
    snapshot = state.observation.snapshot
    marked = (tainted_at(snapshot.node(snapshot.row(name)), TO_BE_DELETED_TAINT) for name in names)
    yield from (at + DELETION_SECONDS for at in marked if at is not None)
