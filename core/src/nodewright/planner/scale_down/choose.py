"""Which of the nodes that could go do go now (behaviour/down.md A9, A10)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodewright.clusterstate.accelerators import DeviceCounter
from nodewright.clusterstate.state import ClusterState
from nodewright.model.group import GroupRef
from nodewright.model.limits import make_resource_limits
from nodewright.model.node import Node
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.removal import NodeRemoval, RemovalReason
from nodewright.planner.candidates import ScaleUpContext
from nodewright.planner.scale_down.atomic import whole_groups
from nodewright.planner.scale_down.budgets import crop
from nodewright.planner.scale_down.confirm import Confirmed, Simulate, confirm
from nodewright.planner.scale_down.examine import Examination
from nodewright.planner.scale_down.flapping import reason_to_wait
from nodewright.planner.scale_down.larger import Balance
from nodewright.planner.scale_down.minima import Minima
from nodewright.planner.scale_down.scarce import scarcest_first
from nodewright.planner.scale_down.trial import Removable
from nodewright.planner.scale_down.unneeded import is_ready_node, too_early
from nodewright.snapshot.pod_places import PodPlaces

_NO_TURN = Unremovable(
    code=UnremovableCode.AWAITS_TURN, message="as many nodes as may be removed at a time come before it"
)
_NO_DRAIN = Unremovable(
    code=UnremovableCode.SWITCHED_OFF, message="no node with pods to move is removed while --max-drain-parallelism is 0"
)


@dataclass(kw_only=True)
class Choice:
    """``removals`` begin now; of the others, why they stay: as CA says it, or ``waiting`` for their turn.

    ``hints`` are where pods of those that go find room, if that was looked at once more; ``partial`` says what there was
    no time for.
    """

    removals: tuple[NodeRemoval, ...] = ()
    stay: dict[str, Unremovable] = field(default_factory=dict)
    waiting: dict[str, Unremovable] = field(default_factory=dict)
    hints: PodPlaces = field(default_factory=PodPlaces)
    partial: str = ""


def choose(
    ground: ScaleUpContext,
    found: Examination,
    since: Mapping[str, float],
    utilization: Mapping[str, float],
    balance: Balance | None,
    simulate: Simulate,
) -> Choice:
    """Those that were unneeded for long enough, as far as minima, whole groups and parallelism let them go, and the
    others can do without them.
    """
    state, choice = ground.state, Choice()
    by_name = {node.name: node for node in found.removable}
    going, choice.stay = _ripe(ground, [by_name[name] for name in _in_turn(found.removable, balance)], since)
    batches = crop(
        state,
        [name for name in going if not by_name[name].moving],
        [name for name in going if by_name[name].moving],
        ground.settings,
    )
    drains = ground.settings.scale_down.max_drain_parallelism > 0
    waiting = (by_name[name] for name in going if name not in batches)
    choice.waiting = {node.name: _NO_TURN if drains or not node.moving else _NO_DRAIN for node in waiting}
    confirmed = _confirmed(ground, batches, found, simulate)
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
    ground: ScaleUpContext, found: Sequence[Removable], since: Mapping[str, float]
) -> tuple[list[str], dict[str, Unremovable]]:
    """Those that nothing keeps but their turn, and why the others stay."""
    minima = _minima(ground)
    reasons = {node.name: _reason_to_stay(ground, node, since[node.name], minima) for node in found}
    stay = {name: reason for name, reason in reasons.items() if reason is not None}
    going, incomplete = whole_groups(ground.state, [name for name, reason in reasons.items() if reason is None])
    awaited = {node.name: node.awaited[0].key for node in found if node.awaited and node.name in going}
    stay |= incomplete | {name: _on_completion(pod) for name, pod in awaited.items()}
    return [name for name in going if name not in awaited], stay


def _confirmed(ground: ScaleUpContext, batches: Mapping[str, int], found: Examination, simulate: Simulate) -> Confirmed:
    """Those that go, with who moves where in which order. CA takes the chain as it is, and says nothing of places."""
    by_name = {node.name: node for node in found.removable}
    if ground.settings.is_ca:
        return Confirmed(batches=dict(batches), nodes=by_name)
    confirmed = confirm(ground.state, batches, by_name, simulate)
    going = {name: confirmed.nodes[name] for name in confirmed.batches}
    confirmed.nodes = {name: _with_places(node) for name, node in scarcest_first(ground, going).items()}
    return confirmed


def _in_turn(found: Sequence[Removable], balance: Balance | None) -> list[str]:
    """Empty nodes, then those whose pods may go at the same time, then the others."""
    ranks = [
        [node.name for node in found if not node.moving],
        [node.name for node in found if node.moving and not node.risky],
        [node.name for node in found if node.moving and node.risky],
    ]
    return [name for names in ranks for name in (balance.ordered(names) if balance is not None else names)]


def _minima(ground: ScaleUpContext) -> Minima:
    """CA counts machines on their way, and those on their way out: for a while there may be less than the least."""
    is_ca, limits = ground.settings.is_ca, make_resource_limits(ground.settings.limits)
    counted = ground.snapshot if is_ca else ground.state.observation.snapshot
    return Minima(ground.state, counted, limits, DeviceCounter(ground.state.observation), counts_leaving=is_ca)


def _reason_to_stay(ground: ScaleUpContext, found: Removable, since: float, minima: Minima) -> Unremovable | None:
    """Why a node that could go stays for now; one that goes is counted as gone."""
    state = ground.state
    wait = too_early(state, found.name, since) or reason_to_wait(state, found, ground.settings)
    return wait or minima.take(state.group_of_node[found.name], _node(state, found.name))


def _on_completion(pod: str) -> Unremovable:
    text = f"pod {pod} asks to be waited for until it has ended"
    return Unremovable(code=UnremovableCode.ON_COMPLETION, pod=pod, message=text)


def _instance_ids(state: ClusterState, ref: GroupRef) -> dict[str, str]:
    """The ids of a group's machines by how they are compared: some clouds write one id in two ways."""
    return {instance.id.lower(): instance.id for instance in reversed(state.groups[ref].seen.instances or ())}


def _removal(
    state: ClusterState,
    found: Removable,
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
        pods=tuple(found.moving.roster.keys(found.moving.numbers)),
        owners=tuple([kind.owner for kind in found.moving.kinds]),
        places=found.places,
        batch=batch,
        utilization=utilization,
        unneeded_since=since,
    )


def _with_places(node: Removable) -> Removable:
    """With where its pods are to go."""
    places = node.moving.roster.places
    return replace(node, places=tuple([places[number] for number in node.moving.numbers]))


def _node(state: ClusterState, name: str) -> Node:
    snapshot = state.observation.snapshot
    return snapshot.node(snapshot.row(name))
