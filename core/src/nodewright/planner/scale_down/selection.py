"""Which of the nodes that could go do go now (behaviour/down.md A9, A10).

Would those that go now be missed if all others stayed?

The candidates were simulated as a chain, each as if those before it were gone. Only some of them go now; pods that the
others keep may be in the way of those that move (zone anti-affinity, spread). CA does not ask.


In which order the pods of a node are moved: those that fit on the fewest nodes first.

A scheduler puts pods where it likes. One that fits in many places may get the only place of another, unless that one
came first. CA evicts them as they come.


Removals that would only be undone, or that disturb the same pods again and again (issue 5, point 3).

CA knows neither; nor does it know quarantines, which groups are in where something else died with a machine.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec.structs import replace as changed

from nodewright.clusterstate.accelerators import DeviceCounter
from nodewright.clusterstate.scale_down_activity import MOVES_WINDOW
from nodewright.clusterstate.state import ClusterState
from nodewright.model.cluster import Job
from nodewright.model.group import GroupRef
from nodewright.model.limits import make_resource_limits
from nodewright.model.meta import OwnerReference
from nodewright.model.node import Node
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.removal import NodeRemoval, RemovalReason
from nodewright.model.settings import Settings
from nodewright.planner.scale_down.eligibility import SimilarGroupBalance
from nodewright.planner.scale_down.limits import MinimumLimits, fit_into_budgets, keep_complete_groups
from nodewright.planner.scale_down.node_removal import RemovableNode, SimulatedRemovals, destination_rows
from nodewright.planner.scale_down.pod_index import PodSubset
from nodewright.planner.scale_down.unneeded import is_ready_node, reason_not_old_enough
from nodewright.planner.scale_up.context import ScaleUpContext
from nodewright.predicates import feasible
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.pod_places import PodPlaces
from nodewright.snapshot.workloads import Workloads

_NO_TURN = Unremovable(
    code=UnremovableCode.AWAITS_TURN, message="as many nodes as may be removed at a time come before it"
)
_NO_DRAIN = Unremovable(
    code=UnremovableCode.SWITCHED_OFF, message="no node with pods to move is removed while --max-drain-parallelism is 0"
)
# Simulates the removal of some nodes, in order, while all others stay.
SimulateAgain = Callable[[Sequence[str]], SimulatedRemovals]


@dataclass(kw_only=True)
class RemovalSelection:
    """``removals`` begin now; of the others, why they stay: as CA says it, or ``waiting`` for their turn.

    ``hints`` are where pods of those that go find room, if that was looked at once more; ``partial`` says what there was
    no time for.
    """

    removals: tuple[NodeRemoval, ...] = ()
    stay: dict[str, Unremovable] = field(default_factory=dict)
    waiting: dict[str, Unremovable] = field(default_factory=dict)
    hints: PodPlaces = field(default_factory=PodPlaces)
    partial: str = ""


@dataclass(kw_only=True)
class ConfirmedRemovals:
    """``nodes`` may go, with their pods as they are now, and ``batches`` say how many go together; the others ``stay``.

    ``hints`` are where the pods find room. For those that are ``late`` there was no time.
    """

    batches: dict[str, int]
    nodes: dict[str, RemovableNode]
    stay: dict[str, Unremovable] = field(default_factory=dict)
    late: dict[str, Unremovable] = field(default_factory=dict)
    hints: PodPlaces = field(default_factory=PodPlaces)

    @property
    def partial(self) -> str:
        """What there was no time for; empty: for everything."""
        return f"time was up: {len(self.late)} nodes were not looked at once more" if self.late else ""


def select_removals(
    context: ScaleUpContext,
    found: SimulatedRemovals,
    since: Mapping[str, float],
    utilization: Mapping[str, float],
    balance: SimilarGroupBalance | None,
    simulate: SimulateAgain,
) -> RemovalSelection:
    """Those that were unneeded for long enough, as far as minima, whole groups and parallelism let them go, and the
    others can do without them.
    """
    state, choice = context.state, RemovalSelection()
    by_name = {node.name: node for node in found.removable}
    going, choice.stay = _ripe(context, [by_name[name] for name in _in_turn(found.removable, balance)], since)
    batches = fit_into_budgets(
        state,
        [name for name in going if not by_name[name].moving],
        [name for name in going if by_name[name].moving],
        context.settings,
    )
    drains = context.settings.scale_down.max_drain_parallelism > 0
    waiting = (by_name[name] for name in going if name not in batches)
    choice.waiting = {node.name: _NO_TURN if drains or not node.moving else _NO_DRAIN for node in waiting}
    confirmed = _confirmed(context, batches, found, simulate)
    choice.hints, choice.partial = confirmed.hints, confirmed.partial
    choice.stay |= confirmed.stay
    choice.waiting |= confirmed.late
    ids = {ref: _instance_ids(state, ref) for ref in {state.group_of_node[name] for name in confirmed.batches}}
    choice.removals = tuple(
        _removal(state, confirmed.nodes[name], batch, since[name], utilization.get(name, 0.0), ids)
        for name, batch in confirmed.batches.items()
    )
    return choice


def _ripe(
    context: ScaleUpContext, found: Sequence[RemovableNode], since: Mapping[str, float]
) -> tuple[list[str], dict[str, Unremovable]]:
    """Those that nothing keeps but their turn, and why the others stay."""
    minima = _minima(context)
    reasons = {node.name: _reason_to_stay(context, node, since[node.name], minima) for node in found}
    stay = {name: reason for name, reason in reasons.items() if reason is not None}
    going, incomplete = keep_complete_groups(
        context.state, [name for name, reason in reasons.items() if reason is None]
    )
    awaited = {node.name: node.awaited[0].key for node in found if node.awaited and node.name in going}
    stay |= incomplete | {name: _on_completion(pod) for name, pod in awaited.items()}
    return [name for name in going if name not in awaited], stay


def _confirmed(
    context: ScaleUpContext, batches: Mapping[str, int], found: SimulatedRemovals, simulate: SimulateAgain
) -> ConfirmedRemovals:
    """Those that go, with who moves where in which order. CA takes the chain as it is, and says nothing of places."""
    by_name = {node.name: node for node in found.removable}
    if context.settings.is_ca:
        return ConfirmedRemovals(batches=dict(batches), nodes=by_name)
    confirmed = confirm_removals(context.state, batches, by_name, simulate)
    going = {name: confirmed.nodes[name] for name in confirmed.batches}
    confirmed.nodes = {name: _with_places(node) for name, node in order_by_fewest_places(context, going).items()}
    return confirmed


def _in_turn(found: Sequence[RemovableNode], balance: SimilarGroupBalance | None) -> list[str]:
    """Empty nodes, then those whose pods may go at the same time, then the others."""
    ranks = [
        [node.name for node in found if not node.moving],
        [node.name for node in found if node.moving and not node.risky],
        [node.name for node in found if node.moving and node.risky],
    ]
    return [name for names in ranks for name in (balance.ordered(names) if balance is not None else names)]


def _minima(context: ScaleUpContext) -> MinimumLimits:
    """CA counts machines on their way, and those on their way out: for a while there may be less than the least."""
    is_ca, limits = context.settings.is_ca, make_resource_limits(context.settings.limits)
    counted = context.snapshot if is_ca else context.state.observation.snapshot
    return MinimumLimits(context.state, counted, limits, DeviceCounter(context.state.observation), counts_leaving=is_ca)


def _reason_to_stay(
    context: ScaleUpContext, found: RemovableNode, since: float, minima: MinimumLimits
) -> Unremovable | None:
    """Why a node that could go stays for now; one that goes is counted as gone."""
    state = context.state
    wait = reason_not_old_enough(state, found.name, since) or reason_for_pause(state, found, context.settings)
    return wait or minima.take(state.group_of_node[found.name], _node(state, found.name))


def _on_completion(pod: str) -> Unremovable:
    text = f"pod {pod} asks to be waited for until it has ended"
    return Unremovable(code=UnremovableCode.ON_COMPLETION, pod=pod, message=text)


def _instance_ids(state: ClusterState, ref: GroupRef) -> dict[str, str]:
    """The ids of a group's machines by how they are compared: some clouds write one id in two ways."""
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


def _with_places(node: RemovableNode) -> RemovableNode:
    """With where its pods are to go."""
    places = node.moving.index.places
    return replace(node, places=tuple([places[number] for number in node.moving.numbers]))


def _node(state: ClusterState, name: str) -> Node:
    snapshot = state.observation.snapshot
    return snapshot.node(snapshot.row(name))


def confirm_removals(
    state: ClusterState, batches: Mapping[str, int], found: Mapping[str, RemovableNode], simulate: SimulateAgain
) -> ConfirmedRemovals:
    """Those of the chosen nodes that can go while everything else stays.

    When time is up, those that were found by then go. If none was, the others are looked at all the same: a loop that
    begins with the same nodes would come no further.
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
    """A zero-or-max group stays as a whole."""
    whole = {state.group_of_node[name] for name in failed if left.batches[name] > 1}
    for name in list(left.batches):
        ref = state.group_of_node[name]
        if name in failed or ref in whole:
            text = f"group {ref} goes as a whole, and not all of its nodes can now"
            if name not in left.late:
                left.stay.setdefault(name, Unremovable(code=UnremovableCode.ATOMIC_FAILED, message=text))
            del left.batches[name]


def _reason(why: Unremovable) -> Unremovable:
    return changed(why, message=f"{why.message}, as long as nodes stay that could go before it")


def order_by_fewest_places(context: ScaleUpContext, going: Mapping[str, RemovableNode]) -> dict[str, RemovableNode]:
    """The nodes that go, each with its pods in that order."""
    if all(_is_uniform(node.moving) for node in going.values()):
        return dict(going)
    snapshot, staying, known = context.snapshot, _staying(context, going), dict[PodClass, int]()

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

    return {name: sort_candidates(node) for name, node in going.items()}


def _is_uniform(subset: PodSubset) -> bool:
    return len({kind.pod_class for kind in subset.distinct_kinds}) < 2


def _staying(context: ScaleUpContext, going: Mapping[str, RemovableNode]) -> Mask:
    """The rows of nodes to which the pods may go: those that are there and stay."""
    snapshot = context.snapshot
    found = destination_rows(snapshot, context.state)
    found[[snapshot.row(name) for name in going]] = False
    return found & snapshot.schedulable


def reason_for_pause(state: ClusterState, found: RemovableNode, settings: Settings) -> Unremovable | None:
    """Why a node that could go should not now, given what removals did of late; None when it may."""
    ref, memory, now = state.group_of_node[found.name], state.memory.scale_down, state.now
    quarantined, flapping = memory.quarantined_until.get(ref, 0.0), memory.flapping.get(ref)
    if settings.is_ca:
        return None
    if quarantined > now:
        text = f"group {ref} is left alone for {quarantined - now:.0f} s: machines went that nobody had asked to go"
        return Unremovable(code=UnremovableCode.QUARANTINED, message=text)
    if flapping is not None and flapping.until > now:
        text = (
            f"group {ref} grew again soon after it had shrunk, {flapping.turns} times running, the last time "
            f"{now - flapping.last:.0f} s ago; it keeps its nodes for another {flapping.until - now:.0f} s"
        )
        return Unremovable(code=UnremovableCode.FLAPPING, message=text)
    return _given_back(state, found.name) or _moved_too_often(
        state, found.moving, settings.scale_down.max_pod_moves_per_hour
    )


def _given_back(state: ClusterState, name: str) -> Unremovable | None:
    """Whether the last attempt to remove the node failed, and the pause after it is not over."""
    held = state.memory.scale_down.removal_failures.get(name)
    if held is None or held.until <= state.now:
        return None
    times = f", {held.times} times running" if held.times > 1 else ""
    text = (
        f"the last attempt to remove it failed{times} ({held.message}); "
        f"the next one may begin in {held.until - state.now:.0f} s"
    )
    return Unremovable(code=UnremovableCode.GIVEN_BACK, message=text)


def _moved_too_often(state: ClusterState, moving: PodSubset, most: int) -> Unremovable | None:
    """Whether the pods of some controller would have been moved more than ``most`` times each within an hour."""
    held = state.memory.scale_down.moves
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
                f"of them within the last hour; no pod is to be moved more than {most} times"
            )
            return Unremovable(code=UnremovableCode.FLAPPING, pod=pod.key, message=text)
    return None


def _replicas(workloads: Workloads, namespace: str, owner: OwnerReference) -> int:
    """How many pods a controller keeps; 0 where that is not known."""
    controller = (workloads.controllers or {}).get((owner.kind, f"{namespace}/{owner.name}"))
    if isinstance(controller, Job):
        return controller.spec.parallelism or 1
    wanted = getattr(controller.spec, "replicas", None) if controller is not None else None
    return wanted or 0
