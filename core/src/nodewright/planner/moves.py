"""Moves: replace nodes by others. New nodes come first; nodes are drained only when all pods have places on ready nodes.

Each loop checks every move under way. Its groups grow once, when the move begins; a new process continues from the saved
state. If the pods of its sources find no places, the move is abandoned: the sources stay, and scale-down removes the new
nodes like other unneeded nodes.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace as changed

from nodewright.clusterstate.memory import MoveDestinations, MoveMemory
from nodewright.clusterstate.node_samples import is_stable
from nodewright.clusterstate.state import ClusterState
from nodewright.model.disruption import DisruptionReason
from nodewright.model.duration import format_duration
from nodewright.model.group import GroupRef
from nodewright.model.move import LONGEST_PAUSE, Move, MovePause, MoveStage
from nodewright.model.node import Node
from nodewright.model.reason import BlockingCode, Unremovable, UnremovableCode
from nodewright.model.removal import NodeRemoval, RemovalReason
from nodewright.planner.consolidation.sources import DO_NOT_DISRUPT
from nodewright.planner.context import PlanningContext
from nodewright.planner.scale_down.eligibility import SCALE_DOWN_DISABLED, SHARED, find_candidates
from nodewright.planner.scale_down.limits import DisruptionLimits
from nodewright.planner.scale_down.node_removal import RemovalSimulator, SimulatedRemovals, destination_rows
from nodewright.planner.scale_down.pdb import DisruptionBudgets
from nodewright.planner.scale_down.selection import SimulateAgain, select_removals, with_places
from nodewright.planner.scale_down.simulation import DrainSimulation
from nodewright.planner.scale_down.unneeded import is_ready_node
from nodewright.snapshot.column import Mask
from nodewright.snapshot.node_pods import NodePods, PodDestinations, find_node_pods

# Seconds without a source removed, although all pods have places, after which the move is abandoned.
DRAIN_SECONDS = 3600.0
# Seconds for which a source of an abandoned move stays; twice as long after each further one.
_FIRST_PAUSE = 1800.0
# The same after a move to a preferred group, which holds back only moves of this kind.
_FIRST_RETURN_PAUSE = 3600.0
# Seconds for which nodes that replaced others are not replaced.
_SETTLED_SECONDS = 10800.0
_RENEWALS = {
    DisruptionReason.EXPIRED: RemovalReason.EXPIRED,
    DisruptionReason.DRIFTED: RemovalReason.DRIFTED,
    DisruptionReason.PREFERRED: RemovalReason.PREFERRED,
}


class _Ready(NamedTuple):
    """A move whose pods all have places.

    ``found`` has the removals of the sources that may go. ``simulate`` simulates some of them again.
    """

    move: Move
    found: SimulatedRemovals
    simulate: SimulateAgain


@dataclass(frozen=True, kw_only=True)
class MovesUnderWay:
    """The moves after this loop has checked them. ``ready`` are those whose pods all have places, by their ids.

    ``in_moves`` says for each source and each new node why scale-down does not remove it. ``marked`` are the sources
    whose removal has not begun: they carry the soft taint.
    """

    memory: MoveMemory
    moves: tuple[Move, ...] = ()
    ready: Mapping[str, _Ready] = field(default_factory=dict)
    in_moves: Mapping[str, Unremovable] = field(default_factory=dict)
    marked: frozenset[str] = frozenset()


def follow_moves(context: PlanningContext) -> MovesUnderWay:
    """Return how far each move under way has come. ``context``: the cluster with pending pods that fit, and upcoming nodes."""
    state, held = context.state, context.state.memory.moves
    pauses, returns = dict(_live_pauses(held, state)), dict(_live_returns(held, state))
    if not held.under_way:
        return MovesUnderWay(memory=replace(held, pauses=pauses, returns=returns))
    moves, ready = list[Move](), dict[str, _Ready]()
    in_moves, marked = dict[str, Unremovable](), set[str]()
    for begun in held.under_way.values():
        before = _without_failed(begun, state)
        fresh = {node.name: node for node in _fresh_nodes(before, state)}
        found = _follow(context, before, held.places.get(before.id), fresh.values())
        move = found.move if isinstance(found, _Ready) else found
        moves.append(move)
        if move.stage == MoveStage.ABANDONED:
            why = f"move {move.id} was abandoned: {move.why}"
            if move.reason == DisruptionReason.PREFERRED:
                returns |= {
                    key: _paused(returns.get(key), why, state.now, _FIRST_RETURN_PAUSE)
                    for key in _unreturned(begun, state)
                }
            else:
                pauses |= {name: _paused(pauses.get(name), why, state.now) for name in move.left}
        for name in set(begun.sources).difference(before.sources):
            why = f"move {move.id} went on without it: its removal failed"
            pauses[name] = _paused(pauses.get(name), why, state.now)
        if isinstance(found, _Ready):
            ready[move.id] = found
            until = state.now + _SETTLED_SECONDS
            pauses |= {
                name: MovePause(until=until, why="it replaced other nodes") for name in fresh if name not in pauses
            }
        if not move.stage.is_over:
            text = f"it is part of move {move.id} ({move.stage})"
            reason = Unremovable(code=UnremovableCode.IN_MOVE, message=text)
            in_moves |= dict.fromkeys((*move.left, *fresh), reason)
            present = (name for name in move.left if name in context.snapshot)
            marked.update(name for name in present if name not in state.observation.removing)
    live = {move.id: move for move in moves if not move.stage.is_over}
    places = {name: kept for name, kept in held.places.items() if name in live}
    return MovesUnderWay(
        memory=replace(held, under_way=live, pauses=pauses, returns=returns, places=places),
        moves=tuple(moves),
        ready=ready,
        in_moves=in_moves,
        marked=frozenset(marked),
    )


def plan_removals(context: PlanningContext, found: MovesUnderWay, *, is_cooling: bool) -> tuple[NodeRemoval, ...]:
    """Return the sources that are removed now: those of the first ready move for which budgets allow a removal.

    ``is_cooling``: scale-down waits, as after growth. Moves that bought nodes, and renewals, go on then: old and new nodes are
    both paid for until they end, and the growth may be their own.
    """
    for move, simulated, simulate in found.ready.values():
        goes_on = bool(move.added) or move.reason in _RENEWALS
        if is_cooling and not goes_on:
            continue
        going = simulated if goes_on else _without_cooling(context, simulated)
        since = {node.name: -math.inf for node in going.removable}
        # The profile ca does not simulate removals again before they go, so their places are these.
        placed = replace(going, removable=[with_places(node) for node in going.removable])
        removals = select_removals(context, placed, since, {}, None, simulate).removals
        if removals:
            return tuple(changed(one, reason=_reason(move, one), unneeded_since=0.0) for one in removals)
    return ()


def _without_cooling(context: PlanningContext, found: SimulatedRemovals) -> SimulatedRemovals:
    """Return the removals without those in groups that grew or shrank lately (``--scale-down-delay-type-local``)."""
    settings = context.settings.scale_down
    if not settings.scale_down_delay_type_local:
        return found
    may_go = set(find_candidates(context.state, [node.name for node in found.removable], settings).names)
    return replace(found, removable=[node for node in found.removable if node.name in may_go])


def _reason(move: Move, removal: NodeRemoval) -> RemovalReason:
    if move.reason in _RENEWALS:
        return _RENEWALS[move.reason]
    return RemovalReason.REPLACED if removal.drains and move.added else removal.reason


def _follow(
    context: PlanningContext, move: Move, places: MoveDestinations | None, fresh: Collection[Node]
) -> Move | _Ready:
    """Return the move with its new stage; with the removals of its sources if all their pods have places."""
    state = context.state
    gone = tuple(name for name in move.sources if name not in state.observation.snapshot)
    if len(gone) > len(move.removed):
        move = changed(move, removed=gone, deadline=state.now + DRAIN_SECONDS)
    if not move.left:
        return changed(move, stage=MoveStage.DONE)
    waiting = [name for name in move.left if name not in state.observation.removing and not _is_deleted(state, name)]
    is_draining = bool(move.removed) or len(waiting) < len(move.left)
    if not waiting:
        return _leaving(move, state)
    if move.stage in (MoveStage.READY, MoveStage.DRAINING) and _is_held(state, move, waiting):
        move = changed(move, deadline=max(move.deadline, state.now + DRAIN_SECONDS / 2))
    why = _obstacle(context, move, waiting)
    if why:
        return changed(move, stage=MoveStage.ABANDONED, why=why)
    simulated = _simulated(context, move, waiting, _hints(context, waiting, places, fresh))
    if isinstance(simulated, _Ready):
        move = simulated.move
        if move.stage in (MoveStage.PROPOSED, MoveStage.LAUNCHING):
            move = changed(move, deadline=state.now + DRAIN_SECONDS)
        return simulated._replace(move=changed(move, stage=MoveStage.DRAINING if is_draining else MoveStage.READY))
    may_come = any(state.groups[one.group].upcoming for one in move.added if one.group in state.groups)
    if not is_draining and (may_come or any(not is_stable(node, state.now) for node in fresh)):
        return changed(move, stage=MoveStage.LAUNCHING)
    return changed(move, stage=MoveStage.ABANDONED, why=f"{simulated}{_failures(move, state)}")


def _leaving(move: Move, state: ClusterState) -> Move:
    """Return the new stage of a move all of whose sources are being removed."""
    if state.now > move.deadline and not any(name in state.observation.removing for name in move.left):
        return changed(move, stage=MoveStage.ABANDONED, why="nodes of deleted machines are still there")
    return changed(move, stage=MoveStage.DRAINING)


def _is_deleted(state: ClusterState, name: str) -> bool:
    """Return whether the node's machine is gone or being deleted, as after a call whose answer was lost."""
    group = state.group_of_node.get(name)
    return group is not None and name in state.groups[group].readiness.deleted


def _simulated(context: PlanningContext, move: Move, waiting: Sequence[str], hints: PodDestinations) -> _Ready | str:
    """Return the removals of the sources that may go, or why some pods find no places.

    Sources that a PodDisruptionBudget holds wait until the move's deadline.
    """
    state, open_rows = context.state, _open_rows(context)
    found = _simulate(context, open_rows, move.reason, hints, waiting)
    blocked = found.unremovable
    if blocked and all(reason.pod_code == BlockingCode.NOT_ENOUGH_PDB for reason in blocked.values()):
        workloads, policy = state.observation.workloads, context.settings.policy
        any_time = DisruptionBudgets.waited_for(workloads, policy)
        blocked = _simulate(context, open_rows, move.reason, hints, waiting, any_time).unremovable
    if not blocked:
        return _Ready(move, found, partial(_simulate, context, open_rows, move.reason, found.hints))
    name, reason = next(iter(blocked.items()))
    return f"node {name}: {reason.message}"


def _is_held(state: ClusterState, move: Move, waiting: Iterable[str]) -> bool:
    """Return whether a pause or the operator's disruption budgets keep all sources that wait."""
    limits = DisruptionLimits(state)
    known = [name for name in waiting if name in state.group_of_node]
    return bool(state.paused) or all(limits.find_obstacle(name, move.reason) is not None for name in known)


def _obstacle(context: PlanningContext, move: Move, waiting: Iterable[str]) -> str:
    """Return why the move cannot go on, leaving its pods aside; empty: nothing prevents it."""
    state, snapshot = context.state, context.state.observation.snapshot
    passed_over = find_candidates(state, waiting, context.settings.scale_down).passed_over
    for name in waiting:
        if name not in context.snapshot:
            why = "interrupted: the cloud takes its machine" if name in state.interrupted else "starting"
            return f"node {name} is {why}"
        node = snapshot.node(snapshot.row(name))
        pinned = [key for key in (SCALE_DOWN_DISABLED, DO_NOT_DISRUPT) if node.metadata.annotations.get(key) == "true"]
        if pinned:
            return f"node {name} is annotated {pinned[0]}"
        obstacle = SHARED if state.shares_machine(node) else passed_over.get(name)
        if obstacle is not None and obstacle.code != UnremovableCode.IN_COOLDOWN:
            return f"node {name}: {obstacle.message}"
        if _has_failed(move, name, state):
            return f"node {name} could not be removed: {state.memory.scale_down.removal_failures[name].message}"
    if state.now > move.deadline:
        waited = format_duration(round(state.now - move.started))
        return f"it was not carried out within {waited}{_failures(move, state)}"
    return ""


def _without_failed(move: Move, state: ClusterState) -> Move:
    """Return the move without the sources whose removal failed, unless none would be left."""
    kept = tuple(name for name in move.sources if not _has_failed(move, name, state))
    return changed(move, sources=kept) if kept and any(name not in move.removed for name in kept) else move


def _has_failed(move: Move, name: str, state: ClusterState) -> bool:
    """Return whether the removal of a source failed since the move began."""
    held = state.memory.scale_down.removal_failures.get(name)
    return held is not None and held.at >= move.started


def _failures(move: Move, state: ClusterState) -> str:
    """Return what failed in the groups of the new nodes since the move began."""
    for one in move.added:
        held = state.memory.backoffs.get(one.group)
        if held is not None and held.last_failure >= move.started:
            return f"; group {one.group} failed: {held.message or held.code}"
    return ""


def _open_rows(context: PlanningContext) -> Mask:
    """Return the rows to which pods may go: those of ready nodes that are not sources of a move."""
    state, snapshot = context.state, context.snapshot
    found = destination_rows(snapshot, state)
    shut = [name for move in state.memory.moves.under_way.values() for name in move.sources]
    shut += [name for name in state.group_of_node if not is_ready_node(state, name)]
    found[[snapshot.row(name) for name in shut if name in snapshot]] = False
    return found


def _simulate(
    context: PlanningContext,
    open_rows: Mask,
    reason: DisruptionReason,
    hints: PodDestinations,
    names: Iterable[str],
    budgets: DisruptionBudgets | None = None,
) -> SimulatedRemovals:
    """Drain nodes one after the other in a copy of the cluster, onto nodes of the open rows."""
    state, settings = context.state, context.settings
    simulation = DrainSimulation(context.snapshot.fork(), open_rows, hints, state.now)
    simulator = RemovalSimulator(simulation, state, settings.drain, settings.policy, budgets)
    found = SimulatedRemovals(reason=reason)
    for name in names:
        status = simulator.try_removal(name, [name])
        if isinstance(status, Unremovable):
            found.unremovable[name] = status
        else:
            found.removable.append(status)
    found.hints = simulator.finish()
    return found


def _hints(
    context: PlanningContext, names: Iterable[str], places: MoveDestinations | None, fresh: Iterable[Node]
) -> PodDestinations:
    """Return the planned node of each pod. New nodes stand for planned nodes in the order of their creation."""
    if places is None:
        return PodDestinations()
    by_pod, free = dict(places.existing), sorted(fresh, key=lambda node: (node.created, node.name))
    for planned in places.new_nodes:
        node = next((one for one in free if context.state.group_of_node.get(one.name) == planned.group), None)
        if node is not None:
            free.remove(node)
            by_pod |= {pod.key: node.name for pod in planned.pods}
    found: dict[NodePods, list[str]] = {}
    for held in find_node_pods(context.snapshot, [context.snapshot.row(name) for name in names]):
        found[held] = [by_pod.get(key, "") for key in held.keys]
    return PodDestinations(found)


def _fresh_nodes(move: Move, state: ClusterState) -> Iterator[Node]:
    """Yield the new nodes of a move: of each group that it grew the oldest new nodes, as many as it asked for.

    Younger nodes were bought for pods.
    """
    wanted = Counter[GroupRef]()
    for one in move.added:
        wanted[one.group] += one.nodes
    came = [node for node in state.observation.snapshot.live_nodes() if node.created >= move.started] if wanted else []
    for node in sorted(came, key=lambda node: (node.created, node.name)):
        ref = state.group_of_node.get(node.name)
        if ref is not None and wanted[ref]:
            wanted[ref] -= 1
            yield node


def _live_pauses(held: MoveMemory, state: ClusterState) -> Iterator[tuple[str, MovePause]]:
    """Yield the pauses of existing nodes. A pause is kept for as long again after its end, so that the next is longer."""
    for name, pause in held.pauses.items():
        if name in state.observation.snapshot and state.now < pause.until + _length(pause.times):
            yield name, pause


def _live_returns(held: MoveMemory, state: ClusterState) -> Iterator[tuple[str, MovePause]]:
    """Yield the pauses of returns, kept as those of nodes. That of a group ends when a machine of it comes, as for pods.

    A machine counts if it came so late that it cannot be from the growth that failed.
    """
    groups = {str(ref): ref for ref in state.groups} if held.returns else {}
    newest = dict[GroupRef, float]()
    for node in state.observation.snapshot.live_nodes() if held.returns else ():
        ref = state.group_of_node.get(node.name)
        if ref is not None:
            newest[ref] = max(newest.get(ref, 0.0), node.created)
    for key, pause in held.returns.items():
        length, ref = _length(pause.times, _FIRST_RETURN_PAUSE), groups.get(key)
        if state.now >= pause.until + length or (ref is None and key not in state.observation.snapshot):
            continue
        if ref is not None:
            waited = state.groups[ref].seen.options.max_node_provision_seconds
            if newest.get(ref, 0.0) > pause.until - length + waited:
                continue
        yield key, pause


def _unreturned(move: Move, state: ClusterState) -> list[str]:
    """Return what is to blame for an abandoned return: the groups that failed or are late, else its sources."""
    refs, backoffs = [one.group for one in move.added], state.memory.backoffs
    failed = [ref for ref in refs if ref in backoffs and backoffs[ref].last_failure >= move.started]
    has_waited = move.stage in (MoveStage.PROPOSED, MoveStage.LAUNCHING) and state.now > move.deadline
    return [str(ref) for ref in failed or (refs if has_waited else ())] or list(move.left)


def _paused(before: MovePause | None, why: str, now: float, first: float = _FIRST_PAUSE) -> MovePause:
    times = before.times + 1 if before is not None else 1
    return MovePause(until=now + _length(times, first), times=times, why=why)


def _length(times: int, first: float = _FIRST_PAUSE) -> float:
    return min(LONGEST_PAUSE, first * 2.0 ** max(0, times - 1))
