"""Begin moves: decide when to search for moves that pay, and plan the growth of those that begin."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import NamedTuple

from nodewright.clusterstate.memory import LONGEST_REST, MoveDestinations, MoveMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import IncreaseSize
from nodewright.model.disruption import DisruptionReason
from nodewright.model.group import GroupRef
from nodewright.model.move import Addition, Move, RejectedMove
from nodewright.model.reason import UnremovableCode
from nodewright.model.settings import ConsolidationSettings
from nodewright.planner.consolidation import FoundMoves, Proposal, find_moves
from nodewright.planner.context import PlanningContext
from nodewright.planner.moves import DRAIN_SECONDS
from nodewright.planner.returns import NO_RETURN, find_return
from nodewright.planner.scale_down.eligibility import disabled_nodes, find_candidates
from nodewright.planner.scale_down.limits import DisruptionLimits
from nodewright.planner.scale_down.selection import reason_for_node_pause
from nodewright.planner.scale_up.options import skip_reason

# Seconds after the provision time of their group in which new nodes may still come before the move is abandoned.
_LATE_SECONDS = 300.0
# Seconds between two searches for moves. Each further search in vain doubles them, up to LONGEST_REST. After LONGEST_REST the
# search is made again even if its input (``_fingerprint``) is the same.
SEARCH_SECONDS = 60.0


class NewMoves(NamedTuple):
    """The moves that begin now, the memory with them, and the growth that they need.

    ``rejected``: if none begins, the best move that the search just found and did not begin (None: it found none).
    """

    memory: MoveMemory
    moves: tuple[Move, ...] = ()
    increases: tuple[IncreaseSize, ...] = ()
    rejected: RejectedMove | None = None


def propose_moves(
    context: PlanningContext,
    held: MoveMemory,
    settings: ConsolidationSettings,
    unneeded: Collection[str],
    random: Random,
) -> NewMoves:
    """Return the moves that begin now.

    Begin none while another one is under way, while nodes come or go, or if the last search was too short a time ago.
    ``unneeded``: the nodes that scale-down removes by itself, at its own time.
    """
    state = context.state
    is_busy = held.under_way or state.observation.removing or any(context.coming.values())
    if is_busy or state.now < _calm_until(held):
        return NewMoves(held)
    seeks = settings.consolidation_policy in ("balanced", "when-cheaper")
    paused = _held_for_now(context, held)
    resting = {key: pause.why for key, pause in held.returns.items() if pause.until > state.now}
    limits = DisruptionLimits(state)
    settled = paused | _held_by_budgets(state, limits, DisruptionReason.REPLACED)
    staying = paused | resting | _held_by_budgets(state, limits, DisruptionReason.PREFERRED) if seeks else {}
    most_nodes = limits.most_together(DisruptionReason.REPLACED)
    searched = _fingerprint(context, (settled.keys(), staying.keys()), most_nodes)
    if searched == held.vain and state.now < held.again_at:
        return NewMoves(held)
    found = FoundMoves()
    if any(group.seen.hourly_price for group in state.groups.values()):
        found = find_moves(context, settings, random, most_nodes=most_nodes, settled=settled, unneeded=unneeded)
    proposals, back = found.proposals, NO_RETURN
    if not proposals and seeks:
        going = dict.fromkeys(unneeded, "scale-down removes it")
        turns = held.unreturned
        only_priced = context.settings.returns_need_prices
        back = find_return(context, settings.consolidate_after, staying | going, random, turns, only_priced=only_priced)
        held = replace(held, unreturned=back.unreturned)
        proposals = (back.proposal,) if back.proposal is not None else ()
    if proposals:
        return begin_moves(replace(held, searched_at=state.now, vain=0, vain_times=0), proposals, state)
    pauses = (*held.pauses.values(), *held.returns.values())
    ends = (pause.until for pause in pauses if pause.until > state.now)
    again_at = state.now if back.has_more else min(state.now + LONGEST_REST, found.held_until, *ends)
    vain_times = held.vain_times + (found.was_searched or back.has_more)
    memory = replace(held, searched_at=state.now, vain=searched, vain_times=vain_times, again_at=again_at)
    return NewMoves(memory, rejected=found.rejected)


def find_held(context: PlanningContext, held: MoveMemory) -> dict[str, str]:
    """Return the nodes that are not given up for cheaper nodes now because of a pause, a delay or a budget, and why."""
    limits = DisruptionLimits(context.state)
    return _held_for_now(context, held) | _held_by_budgets(context.state, limits, DisruptionReason.REPLACED)


def begin_moves(held: MoveMemory, proposals: Iterable[Proposal], state: ClusterState) -> NewMoves:
    """Return the moves of these proposals."""
    under_way, places, increases = dict(held.under_way), dict(held.places), list[IncreaseSize]()
    for proposal in proposals:
        move = _begun(proposal, state)
        under_way[move.id] = move
        places[move.id] = MoveDestinations(existing=proposal.places, new_nodes=proposal.new_nodes)
        increases += _increases(move, proposal, state)
    moves = tuple(move for name, move in under_way.items() if name not in held.under_way)
    return NewMoves(replace(held, under_way=under_way, places=places), moves, tuple(increases))


def next_search(held: MoveMemory, now: float) -> float:
    """Return when to look again whether to search for moves, if nothing changes until then (epoch seconds)."""
    calm_until = _calm_until(held)
    return max(calm_until, held.again_at) if held.vain and now >= calm_until else calm_until


def _calm_until(held: MoveMemory) -> float:
    """Return the earliest time of the next search, even if its input changes (epoch seconds)."""
    return held.searched_at + min(LONGEST_REST, SEARCH_SECONDS * 2.0 ** max(0, min(held.vain_times, 8) - 1))


def _fingerprint(context: PlanningContext, held: Iterable[Iterable[str]], most_nodes: int | None) -> int:
    """Return a hash of the input of a search for moves. Annotations of pods and the results of filters are left out.

    ``held``: what is held for now, for each kind of move. ``most_nodes``: how many nodes may go together.
    """
    state, snapshot = context.state, context.snapshot
    growing = [
        (
            ref,
            group.seen.target,
            group.seen.group,
            group.seen.hourly_price,
            group.seen.consolidates,
            skip_reason(context, ref) is None,
        )
        for ref, group in state.groups.items()
    ]
    budgets = [(budget.key, budget.status.disruptions_allowed) for budget in state.observation.workloads.budgets]
    disabled = snapshot.column("scale_down_disabled", disabled_nodes)
    rows = snapshot.alive.tobytes(), snapshot.free.tobytes(), disabled.tobytes()
    ready = tuple(group.readiness.ready for group in state.groups.values())
    return hash(
        (
            *rows,
            ready,
            repr(growing),
            tuple(budgets),
            tuple(frozenset(names) for names in held),
            state.left_out,
            most_nodes,
            state.observation.priorities,
        )
    )


def _held_by_budgets(state: ClusterState, limits: DisruptionLimits, reason: DisruptionReason) -> dict[str, str]:
    """Return why each node held by a disruption budget is not given up now for the reason: nothing is bought for such nodes."""
    if not state.observation.disruption.disruption:
        return {}
    obstacles = {name: limits.find_obstacle(name, reason) for name in state.group_of_node}
    return {name: obstacle.message for name, obstacle in obstacles.items() if obstacle is not None}


def _held_for_now(context: PlanningContext, held: MoveMemory) -> dict[str, str]:
    """Return why each node with a pause or in a delay is not given up now, for any reason."""
    paused = {name: pause.why for name, pause in held.pauses.items() if pause.until > context.state.now}
    return paused | _held_by_pauses(context) | _held_by_delays(context)


def _held_by_pauses(context: PlanningContext) -> dict[str, str]:
    """Return why each paused node is not removed now: its group is quarantined, its pods flap, or its removal failed."""
    state, memory = context.state, context.state.memory.scale_down
    pauses = memory.quarantined_until or memory.flapping or memory.removal_failures
    if not (pauses and context.settings.policy.pauses_after_removals):
        return {}
    reasons = {name: reason_for_node_pause(state, name) for name in state.group_of_node}
    return {name: reason.message for name, reason in reasons.items() if reason is not None}


def _held_by_delays(context: PlanningContext) -> dict[str, str]:
    """Return why each node of a group that grew or shrank lately stays (``--scale-down-delay-type-local``)."""
    state, settings = context.state, context.settings.scale_down
    if not settings.scale_down_delay_type_local:
        return {}
    passed_over = find_candidates(state, state.group_of_node, settings).passed_over
    return {name: reason.message for name, reason in passed_over.items() if reason.code == UnremovableCode.IN_COOLDOWN}


def _begun(proposal: Proposal, state: ClusterState) -> Move:
    counts = dict[GroupRef, int]()
    for node in proposal.new_nodes:
        counts[node.group] = counts.get(node.group, 0) + 1
    added = tuple(Addition(group=ref, nodes=count) for ref, count in sorted(counts.items()))
    waits = [state.groups[ref].seen.options.max_node_provision_seconds + _LATE_SECONDS for ref in counts]
    reason = proposal.reason or (DisruptionReason.REPLACED if added else DisruptionReason.UNDERUSED)
    return Move(
        id=f"{reason}-{proposal.sources[0]}-{state.now:.0f}",
        reason=reason,
        sources=proposal.sources,
        added=added,
        started=state.now,
        deadline=state.now + max(waits, default=DRAIN_SECONDS),
        savings=proposal.savings,
        disruption=proposal.disruption,
        score=proposal.score,
    )


def _increases(move: Move, proposal: Proposal, state: ClusterState) -> Iterator[IncreaseSize]:
    for one in move.added:
        current = state.groups[one.group].seen.target or 0
        moved = [pod.key for node in proposal.new_nodes if node.group == one.group for pod in node.pods]
        yield IncreaseSize(
            group=one.group,
            expected_target=current,
            target=current + one.nodes,
            pod_count=len(moved),
            move=move.id,
        )
