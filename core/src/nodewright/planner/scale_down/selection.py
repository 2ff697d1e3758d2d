"""Select which removable nodes are removed now.

Nodes wait until they were unneeded for long enough, and for a while after recent removals failed or were undone by growth.
Minimum sizes, zero-or-max groups and parallelism limit the rest.

Outside profile "ca" the selected nodes are then confirmed. The candidates were simulated as a chain, each as if those
before it were gone. Only some of them go now, and pods on nodes that stay may conflict with the moving pods (zone
anti-affinity, topology spread). Therefore the removal of the selected nodes is simulated again while all others stay.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec.structs import replace as changed

from nodewright.clusterstate.accelerators import DeviceCounter
from nodewright.clusterstate.scale_down_activity import MOVES_WINDOW
from nodewright.clusterstate.state import ClusterState
from nodewright.model.cluster import Job
from nodewright.model.disruption import DisruptionReason
from nodewright.model.group import GroupRef
from nodewright.model.limits import make_resource_limits
from nodewright.model.meta import OwnerReference
from nodewright.model.node import Node
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.removal import NodeRemoval, RemovalReason
from nodewright.planner.context import PlanningContext
from nodewright.planner.scale_down.eligibility import SimilarGroupBalance
from nodewright.planner.scale_down.limits import DisruptionLimits, MinimumLimits, fit_into_budgets, keep_complete_groups
from nodewright.planner.scale_down.node_removal import RemovableNode, SimulatedRemovals, destination_rows
from nodewright.planner.scale_down.pod_index import PodSubset
from nodewright.planner.scale_down.unneeded import is_ready_node, reason_not_old_enough
from nodewright.predicates import feasible
from nodewright.snapshot.column import Mask
from nodewright.snapshot.context import Workloads
from nodewright.snapshot.node_pods import PodDestinations
from nodewright.snapshot.pod_class import PodClass

_NO_TURN = Unremovable(
    code=UnremovableCode.AWAITS_TURN, message="as many nodes as may be removed at a time come before it"
)
_NO_DRAIN = Unremovable(
    code=UnremovableCode.SWITCHED_OFF, message="no node with pods to move is removed while --max-drain-parallelism is 0"
)
# Reasons to remove nodes with pods; a node without pods is removed because it is empty instead.
_OF_ROOM = (DisruptionReason.UNDERUSED, DisruptionReason.REPLACED)
# Simulates the removal of the named nodes, in order, while all others stay.
SimulateAgain = Callable[[Sequence[str]], SimulatedRemovals]


@dataclass(kw_only=True)
class RemovalSelection:
    """``removals`` start now. ``stay`` says why other nodes stay, and ``waiting`` which nodes wait for their turn.

    ``hints`` are the places of pods from the confirming simulation. ``partial`` says what was left out for lack of time.
    """

    removals: tuple[NodeRemoval, ...] = ()
    stay: dict[str, Unremovable] = field(default_factory=dict)
    waiting: dict[str, Unremovable] = field(default_factory=dict)
    hints: PodDestinations = field(default_factory=PodDestinations)
    partial: str = ""


@dataclass(kw_only=True)
class ConfirmedRemovals:
    """``nodes`` may go, with their pods as they are now; ``batches`` say how many go together. The others ``stay``.

    ``hints`` are the places of the moving pods. Nodes in ``late`` were not simulated for lack of time.
    """

    batches: dict[str, int]
    nodes: dict[str, RemovableNode]
    stay: dict[str, Unremovable] = field(default_factory=dict)
    late: dict[str, Unremovable] = field(default_factory=dict)
    hints: PodDestinations = field(default_factory=PodDestinations)

    @property
    def partial(self) -> str:
        """Return what was left out for lack of time; empty if everything was confirmed."""
        return f"time was up: {len(self.late)} nodes were not looked at once more" if self.late else ""


def select_removals(
    context: PlanningContext,
    found: SimulatedRemovals,
    since: Mapping[str, float],
    utilization: Mapping[str, float],
    balance: SimilarGroupBalance | None,
    simulate: SimulateAgain,
) -> RemovalSelection:
    """Select the nodes that are removed now, and say why the others are not.

    ``found`` are the removable nodes, ``since`` the times since when nodes are unneeded (epoch seconds).
    """
    state, selection = context.state, RemovalSelection()
    by_name = {node.name: node for node in found.removable}
    names, selection.stay = _split_ready(
        context, [by_name[name] for name in _in_removal_order(found.removable, balance)], since, found.reason
    )
    batches = fit_into_budgets(
        state,
        [name for name in names if not by_name[name].moving],
        [name for name in names if by_name[name].moving],
        context.settings.scale_down,
        context.settings.policy,
    )
    drains = context.settings.scale_down.max_drain_parallelism > 0
    waiting = (by_name[name] for name in names if name not in batches)
    selection.waiting = {node.name: _NO_TURN if drains or not node.moving else _NO_DRAIN for node in waiting}
    confirmed = _confirm(context, batches, found, simulate)
    selection.hints, selection.partial = confirmed.hints, confirmed.partial
    selection.stay |= confirmed.stay
    selection.waiting |= confirmed.late
    ids = {ref: _instance_ids(state, ref) for ref in {state.group_of_node[name] for name in confirmed.batches}}
    selection.removals = tuple(
        _removal(state, confirmed.nodes[name], batch, since[name], utilization.get(name, 0.0), ids)
        for name, batch in confirmed.batches.items()
    )
    return selection


def _split_ready(
    context: PlanningContext, found: Sequence[RemovableNode], since: Mapping[str, float], reason: DisruptionReason
) -> tuple[list[str], dict[str, Unremovable]]:
    """Return the nodes that may go except for parallelism, and why the others stay."""
    minimum_limits, disruption = _minimum_limits(context), DisruptionLimits(context.state)
    reasons: dict[str, Unremovable | None] = {}
    for node in found:
        why = DisruptionReason.EMPTY if not node.moving and reason in _OF_ROOM else reason
        reasons[node.name] = _reason_to_stay(context, node, since[node.name], minimum_limits, disruption, why)
    stay = {name: reason for name, reason in reasons.items() if reason is not None}
    names, incomplete = keep_complete_groups(
        context.state, [name for name, reason in reasons.items() if reason is None]
    )
    awaited = {node.name: node.awaited[0].key for node in found if node.awaited and node.name in names}
    stay |= incomplete | {name: _on_completion(pod) for name, pod in awaited.items()}
    return [name for name in names if name not in awaited], stay


def _confirm(
    context: PlanningContext, batches: Mapping[str, int], found: SimulatedRemovals, simulate: SimulateAgain
) -> ConfirmedRemovals:
    """Return the removals that go, with the order and the places of their pods.

    CA does not confirm, and plans no places.
    """
    by_name = {node.name: node for node in found.removable}
    if not context.settings.policy.confirms_removals:
        return ConfirmedRemovals(batches=dict(batches), nodes=by_name)
    confirmed = confirm_removals(context.state, batches, by_name, simulate)
    nodes = {name: confirmed.nodes[name] for name in confirmed.batches}
    confirmed.nodes = {name: with_places(node) for name, node in order_by_fewest_places(context, nodes).items()}
    return confirmed


def _in_removal_order(found: Sequence[RemovableNode], balance: SimilarGroupBalance | None) -> list[str]:
    """Return empty nodes first, then nodes whose pods may all go at the same time, then the others."""
    ranks = [
        [node.name for node in found if not node.moving],
        [node.name for node in found if node.moving and not node.in_sequence],
        [node.name for node in found if node.moving and node.in_sequence],
    ]
    return [name for names in ranks for name in (balance.ordered(names) if balance is not None else names)]


def _minimum_limits(context: PlanningContext) -> MinimumLimits:
    """Return the minimums.

    CA counts upcoming nodes and nodes on their way out, so that for a while less than the minimum may remain.
    """
    counts_leaving, limits = context.settings.policy.counts_leaving_nodes, make_resource_limits(context.settings.limits)
    counted = context.snapshot if counts_leaving else context.state.observation.snapshot
    return MinimumLimits(
        context.state, counted, limits, DeviceCounter(context.state.observation), counts_leaving=counts_leaving
    )


def _reason_to_stay(
    context: PlanningContext,
    found: RemovableNode,
    since: float,
    minimum_limits: MinimumLimits,
    disruption: DisruptionLimits,
    reason: DisruptionReason,
) -> Unremovable | None:
    """Return why a removable node stays for now; a node that may go counts as removed."""
    state = context.state
    wait = reason_not_old_enough(state, found.name, since) or reason_for_pause(context, found)
    wait = wait or disruption.find_obstacle(found.name, reason)
    wait = wait or minimum_limits.take(state.group_of_node[found.name], _node(state, found.name))
    if wait is None:
        disruption.take(found.name)
    return wait


def _on_completion(pod: str) -> Unremovable:
    text = f"pod {pod} is annotated to be waited for, and still runs"
    return Unremovable(code=UnremovableCode.ON_COMPLETION, pod=pod, message=text)


def _instance_ids(state: ClusterState, ref: GroupRef) -> dict[str, str]:
    """Return lower-case id → id of a group's machines: some clouds spell one id in two ways."""
    return {instance.id.lower(): instance.id for instance in reversed(state.groups[ref].seen.instances or ())}


def _removal(
    state: ClusterState,
    found: RemovableNode,
    batch: int,
    since: float,
    utilization: float,
    ids: Mapping[GroupRef, Mapping[str, str]],
) -> NodeRemoval:
    ref, provider_id = state.group_of_node[found.name], _node(state, found.name).spec.provider_id
    reason = RemovalReason.UNDERUTILIZED if found.moving else RemovalReason.EMPTY
    return NodeRemoval(
        node=found.name,
        group=ref,
        instance_id=ids[ref].get(provider_id.lower(), provider_id),
        reason=reason if is_ready_node(state, found.name) else RemovalReason.UNREADY,
        pods=tuple(found.moving.index.keys(found.moving.numbers)),
        owners=tuple([kind.owner for kind in found.moving.kinds]),
        places=found.places,
        batch=batch,
        utilization=utilization,
        unneeded_since=since,
    )


def with_places(node: RemovableNode) -> RemovableNode:
    """Return the node with the places of its pods."""
    places = node.moving.index.places
    return replace(node, places=tuple([places[number] for number in node.moving.numbers]))


def _node(state: ClusterState, name: str) -> Node:
    snapshot = state.observation.snapshot
    return snapshot.node(snapshot.row(name))


def confirm_removals(
    state: ClusterState, batches: Mapping[str, int], found: Mapping[str, RemovableNode], simulate: SimulateAgain
) -> ConfirmedRemovals:
    """Return the selected nodes that can go while everything else stays.

    When time is up, the nodes confirmed by then go. If there are none, simulation goes on past the deadline: the next
    loop would begin with the same nodes and come no further.
    """
    left = ConfirmedRemovals(batches=dict(batches), nodes={name: found[name] for name in batches})
    if len(batches) == len(found) or not any(node.moving for node in left.nodes.values()):
        return left
    while left.batches:
        again = simulate(list(left.batches))
        nodes, failed = {node.name: node for node in again.removable}, again.unremovable
        left.stay |= {name: _reason(why) for name, why in failed.items()}
        late = again.skipped if nodes or not failed else {}
        left.late |= late
        _drop(left, [*failed, *late], state)
        if not failed and nodes.keys() == left.batches.keys():
            left.nodes, left.hints = nodes, again.hints
            break
    return left


def _drop(left: ConfirmedRemovals, failed: Sequence[str], state: ClusterState) -> None:
    """Drop nodes that failed; a zero-or-max group is dropped as a whole."""
    whole = {state.group_of_node[name] for name in failed if left.batches[name] > 1}
    for name in list(left.batches):
        ref = state.group_of_node[name]
        if name in failed or ref in whole:
            text = f"group {ref} goes as a whole, and not all of its nodes can now"
            if name not in left.late:
                left.stay.setdefault(name, Unremovable(code=UnremovableCode.ATOMIC_FAILED, message=text))
            del left.batches[name]


def _reason(why: Unremovable) -> Unremovable:
    return changed(why, message=f"{why.message}, as long as other removable nodes stay")


def order_by_fewest_places(context: PlanningContext, names: Mapping[str, RemovableNode]) -> dict[str, RemovableNode]:
    """Order the moving pods of each node by the number of nodes on which they fit, fewest first.

    kube-scheduler may put a pod that fits on many nodes on the only node of another pod, unless that other pod came
    first. CA evicts pods as they come.
    """
    if all(_is_uniform(node.moving) for node in names.values()):
        return dict(names)
    snapshot, staying, known = context.snapshot, _staying(context, names), dict[PodClass, int]()

    def count(pod_class: PodClass) -> int:
        if pod_class not in known:
            known[pod_class] = int((feasible(snapshot, pod_class) & staying).sum())
        return known[pod_class]

    def sort_candidates(node: RemovableNode) -> RemovableNode:
        if _is_uniform(node.moving):
            return node
        subset, kinds = node.moving, node.moving.index.kinds
        numbers = sorted(subset.numbers, key=lambda number: count(kinds[number].pod_class))
        return replace(node, moving=PodSubset(subset.index, numbers, subset.distinct_kinds))

    return {name: sort_candidates(node) for name, node in names.items()}


def _is_uniform(subset: PodSubset) -> bool:
    return len({kind.pod_class for kind in subset.distinct_kinds}) < 2


def _staying(context: PlanningContext, names: Mapping[str, RemovableNode]) -> Mask:
    """Return the rows of nodes to which the pods may go: present, schedulable, and not removed now."""
    snapshot = context.snapshot
    found = destination_rows(snapshot, context.state)
    found[[snapshot.row(name) for name in names]] = False
    return found & snapshot.schedulable


def reason_for_pause(context: PlanningContext, found: RemovableNode) -> Unremovable | None:
    """Return why a removable node should not go now because of recent events; None if it may.

    These are the reasons of ``reason_for_node_pause``, and pods that were moved too often.
    """
    if not context.settings.policy.pauses_after_removals:
        return None
    return reason_for_node_pause(context.state, found.name) or _moved_too_often(
        context.state, found.moving, context.settings.scale_down.max_pod_moves_per_hour
    )


def reason_for_node_pause(state: ClusterState, name: str) -> Unremovable | None:
    """Return why a node should not go now because of recent events at it or its group; None if it may.

    The group is quarantined, or it grew again soon after it shrank, or the last removal of the node failed. CA has no such
    pauses.
    """
    ref, memory, now = state.group_of_node[name], state.memory.scale_down, state.now
    quarantined, flapping = memory.quarantined_until.get(ref, 0.0), memory.flapping.get(ref)
    if quarantined > now:
        text = (
            f"no node of group {ref} is removed for another {quarantined - now:.0f} s, because machines disappeared that no "
            "controller had asked to delete; find out what deletes them (zone rebalancing, a schedule, a second autoscaler)"
        )
        return Unremovable(code=UnremovableCode.QUARANTINED, message=text)
    if flapping is not None and flapping.until > now:
        text = (
            f"group {ref} grew again soon after it had shrunk, {flapping.turns} times running, the last time "
            f"{now - flapping.last:.0f} s ago; it keeps its nodes for another {flapping.until - now:.0f} s"
        )
        return Unremovable(code=UnremovableCode.FLAPPING, message=text)
    return _failed_recently(state, name)


def _failed_recently(state: ClusterState, name: str) -> Unremovable | None:
    """Return the reason if the last removal of the node failed and the pause after it is not over; else None."""
    held = state.memory.scale_down.removal_failures.get(name)
    if held is None or held.until <= state.now:
        return None
    times = f", {held.times} times running" if held.times > 1 else ""
    text = (
        f"the last attempt to remove it failed{times} ({held.message}); "
        f"the next one may begin in {held.until - state.now:.0f} s"
    )
    return Unremovable(code=UnremovableCode.FAILED_LATELY, message=text)


def _moved_too_often(state: ClusterState, moving: PodSubset, most: int) -> Unremovable | None:
    """Return the reason if pods of one controller would be moved more than ``most`` times each within an hour; else None."""
    held = state.memory.scale_down.moved_pods
    if not most or not held:
        return None
    count = Counter([kind.owner for kind in moving.kinds])
    for pod, kind in zip(moving.pods, moving.kinds, strict=True):
        key, owner = kind.owner, pod.metadata.controller
        if owner is None or key not in held:
            continue
        moved = sum(move.pods for move in held[key] if move.at + MOVES_WINDOW > state.now)
        replicas = _replicas(state.observation.workloads, pod.metadata.namespace, owner) or count[key]
        if moved + count[key] > most * replicas:
            text = (
                f"{owner.kind} {pod.metadata.namespace}/{owner.name} has {replicas} pods, and removals moved {moved} "
                f"of them within the last hour; --max-pod-moves-per-hour allows {most} for each pod"
            )
            return Unremovable(code=UnremovableCode.FLAPPING, pod=pod.key, message=text)
    return None


def _replicas(workloads: Workloads, namespace: str, owner: OwnerReference) -> int:
    """Return how many pods a controller keeps; 0 if unknown."""
    controller = (workloads.controllers or {}).get((owner.kind, f"{namespace}/{owner.name}"))
    if isinstance(controller, Job):
        return controller.spec.parallelism or 1
    wanted = getattr(controller.spec, "replicas", None) if controller is not None else None
    return wanted or 0
