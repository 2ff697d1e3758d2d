"""How many nodes go at a time: removals under way, drains, and groups that go as a whole (behaviour/down.md A11).

CA counts empty nodes among them. Otherwise empty nodes of ordinary groups have a deletion budget of their own instead
(act/budget.py): they disturb no pod.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nodewright.clusterstate.state import ClusterState
from nodewright.model.group import GroupRef
from nodewright.model.removal import NodeRemoval, Removing
from nodewright.model.settings import Settings
from nodewright.planner.scale_down.atomic import count_registered, is_atomic


@dataclass
class _Group:
    """What could go of one group: nodes without pods to move, and nodes with some."""

    ref: GroupRef
    empty: list[str] = field(default_factory=list)
    drain: list[str] = field(default_factory=list)


@dataclass
class _Budget:
    """How many more removals, and how many more drains, may begin.

    One zero-or-max group that is larger may go all the same (``overflows``), while anything is left.
    """

    nodes: int
    drains: int
    overflows: bool = True

    @staticmethod
    def of(under_way: Iterable[Removing], settings: Settings) -> "_Budget":
        counted = [held.removal.drains for held in under_way if not _is_free(held.removal, settings)]
        limits = settings.scale_down
        return _Budget(limits.max_scale_down_parallelism - len(counted), limits.max_drain_parallelism - sum(counted))

    def spend(self, nodes: int, drains: int) -> None:
        self.nodes -= nodes
        self.drains -= drains
        self.overflows = False


def crop(state: ClusterState, empty: Sequence[str], drain: Sequence[str], settings: Settings) -> dict[str, int]:
    """Node → batch size of those that may go now: zero-or-max groups before ordinary ones, empty nodes before others.

    A batch is how many nodes of the group go in one call, 1 for an ordinary group.
    """
    groups: dict[GroupRef, _Group] = {}
    for name in empty:
        ref = state.group_of_node[name]
        groups.setdefault(ref, _Group(ref)).empty.append(name)
    for name in drain:
        ref = state.group_of_node[name]
        groups.setdefault(ref, _Group(ref)).drain.append(name)
    budget = _Budget.of(state.observation.removing.values(), settings)
    whole = [group for group in groups.values() if is_atomic(state, group.ref)]
    chosen = _take_whole(state, whole, budget, as_ca=settings.is_ca)
    if settings.balances_removals:
        order_empty, order_drain = list(empty), list(drain)
    else:
        order_empty = [name for group in groups.values() for name in group.empty]
        order_drain = [name for group in groups.values() for name in group.drain]
    single = {name for group in groups.values() if group not in whole for name in (*group.empty, *group.drain)}
    first = [name for name in order_empty if name in single]
    if settings.is_ca or not settings.scale_down.max_scale_down_parallelism:
        first = first[: max(0, budget.nodes)]
        budget.nodes -= len(first)
    left = min(budget.nodes, budget.drains)
    then = [name for name in order_drain if name in single][: max(0, left)]
    return chosen | dict.fromkeys((*first, *then), 1)


def _is_free(removal: NodeRemoval, settings: Settings) -> bool:
    """Return whether the removal does not count: that of an empty node of an ordinary group."""
    return not settings.is_ca and not removal.drains and removal.batch == 1


def _take_whole(state: ClusterState, groups: Iterable[_Group], budget: _Budget, *, as_ca: bool) -> dict[str, int]:
    """Zero-or-max groups, those with empty nodes first; the first that may not go keeps all that follow back.

    CA takes an overspent budget for one that is not used up (row 112).
    """
    chosen: dict[str, int] = {}
    mixed, draining = [group for group in groups if group.empty], [group for group in groups if not group.empty]

    def is_spent(left: int) -> bool:
        return left == 0 if as_ca else left <= 0

    for group in mixed:
        nodes, drains = len(group.empty) + len(group.drain), len(group.drain)
        exceeds = budget.nodes < nodes or budget.drains < drains
        if exceeds and (is_spent(budget.nodes) or (drains > 0 and is_spent(budget.drains)) or not budget.overflows):
            break
        _accept(state, group, budget, chosen, as_ca=as_ca)
    budget.drains = min(budget.nodes, budget.drains)
    for group in draining:
        if budget.drains < len(group.drain) and (is_spent(budget.drains) or not budget.overflows):
            break
        _accept(state, group, budget, chosen, as_ca=as_ca)
    budget.drains = min(budget.nodes, budget.drains)
    return chosen


def _accept(state: ClusterState, group: _Group, budget: _Budget, chosen: dict[str, int], *, as_ca: bool) -> None:
    """Take a group that is complete; one that is not is left out.

    CA asks for a batch of the group's target where both kinds of nodes make up what is registered, and waits for the
    missing one for ever (rows 65 and 111).
    """
    nodes, target = (*group.empty, *group.drain), state.groups[group.ref].seen.target or 0
    registered = count_registered(state, group.ref)
    if len(nodes) not in (target, registered):
        return
    counted = group.empty or group.drain
    batch = len(nodes)
    if as_ca and len(counted) != registered:
        batch = target
    chosen.update(dict.fromkeys(nodes, batch))
    budget.spend(len(nodes), len(group.drain))
