"""Limits on scale-down: disruption budgets, minimum sizes and resources, removals and drains at a time, and zero-or-max groups.

cluster-autoscaler counts empty nodes as removals. Outside profile "ca", empty nodes of ordinary groups are not
limited here: they disturb no pod and have a deletion budget of their own (actuation/write_gate.py).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from nodewright.clusterstate.state import ClusterState
from nodewright.model.disruption import Budget, DisruptionReason, opening
from nodewright.model.duration import format_moment
from nodewright.model.group import GroupRef
from nodewright.model.limits import ResourceLimits
from nodewright.model.node import Node
from nodewright.model.policy import Policy
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.removal import NodeRemoval, Removing
from nodewright.model.settings import ScaleDownSettings
from nodewright.planner.limits import CountsDevices, amount_of, totals
from nodewright.snapshot.snapshot import Snapshot


class MinimumLimits:
    """The amounts that may be removed before a minimum is reached: group sizes, cores, memory and GPUs of the cluster.

    ``snapshot`` holds the nodes that count. Nodes on their way out do not count, unless ``counts_leaving``.
    """

    def __init__(
        self,
        state: ClusterState,
        snapshot: Snapshot,
        limits: ResourceLimits,
        accelerators: CountsDevices,
        *,
        counts_leaving: bool,
    ) -> None:
        self._state = state
        self._accelerators = accelerators
        self._removals_by_group: dict[GroupRef, int] = {}
        for removing in state.observation.removing.values():
            self._removals_by_group[removing.removal.group] = self._removals_by_group.get(removing.removal.group, 0) + 1
        least = {"cpu": limits.min_cores, "memory": limits.min_memory_bytes, **limits.min_gpu}
        used = totals(snapshot, least, accelerators)
        self._left = {name: used[name] - amount for name, amount in least.items()}
        if not counts_leaving:
            self._take_leaving(snapshot)

    def _take_leaving(self, snapshot: Snapshot) -> None:
        for name in self._state.observation.removing:
            row = snapshot.find_row(name)
            if row is not None:
                for resource, amount in self._amounts(snapshot.node(row)).items():
                    self._left[resource] -= amount

    def take(self, ref: GroupRef, node: Node) -> Unremovable | None:
        """Count a node as removed, or return why it must stay.

        The cloud has already subtracted nodes under deletion from the target; they are subtracted once more, as CA
        does.
        """
        seen = self._state.groups[ref].seen
        target = (seen.target or 0) - self._removals_by_group.get(ref, 0)
        if target <= seen.group.min_size:
            text = f"group {ref} would fall below its minimum size of {seen.group.min_size}"
            return Unremovable(code=UnremovableCode.MIN_SIZE_REACHED, message=text)
        amounts = {name: amount for name, amount in self._amounts(node).items() if amount > 0}
        short = [name for name, amount in amounts.items() if self._left[name] < amount]
        if short:
            text = f"the cluster would fall below its minimum of {', '.join(short)}"
            return Unremovable(code=UnremovableCode.MINIMAL_RESOURCES, message=text)
        for name, amount in amounts.items():
            self._left[name] -= amount
        self._removals_by_group[ref] = self._removals_by_group.get(ref, 0) + 1
        return None

    def _amounts(self, node: Node) -> Mapping[str, int]:
        return {name: amount_of(node, name, self._accelerators) for name in self._left}


@dataclass
class _HeldByLimit:
    """A disruption budget that applies now: ``nodes`` that it covers, and ``going``: how many of them are being removed."""

    place: str
    budget: Budget
    nodes: int
    going: int


class DisruptionLimits:
    """The removals that the operator's disruption budgets still allow (docs/disruption.md). All budgets that match a node must allow its removal."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    @cached_property
    def _held(self) -> list[_HeldByLimit]:
        """Return the budgets that apply now. They are counted at first use, because that takes a pass over all nodes."""
        state = self._state
        return [
            self._count(f"disruption[{number}]", budget)
            for number, budget in enumerate(state.observation.disruption.disruption)
            if opening(budget.when, state.now).is_open
        ]

    def _count(self, place: str, budget: Budget) -> _HeldByLimit:
        snapshot, group_of = self._state.observation.snapshot, self._state.group_of_node
        covered = [
            node.name
            for node in snapshot.live_nodes()
            if node.name in group_of and budget.match.covers(group_of[node.name], node.metadata.labels)
        ]
        going = sum(name in self._state.observation.removing for name in covered)
        return _HeldByLimit(place, budget, len(covered), going)

    def find_obstacle(self, name: str, reason: DisruptionReason) -> Unremovable | None:
        """Return why a node may not be given up now for this reason; None if it may."""
        for held in self._covering(name):
            allowed = held.budget.allowed(held.nodes)
            if held.budget.holds_for(reason) and held.going >= allowed:
                until = opening(held.budget.when, self._state.now).until
                end = f", until {format_moment(until)}" if until < math.inf else ""
                text = (
                    f"{held.place} lets {allowed} of {held.nodes} nodes go at a time, and {held.going} are going{end}"
                )
                return Unremovable(code=UnremovableCode.DISRUPTION_BUDGET, message=text)
        return None

    def most_together(self, reason: DisruptionReason) -> int | None:
        """Return how many nodes may go together for this reason; None: no limit. Budgets that allow none do not count."""
        held = [one for one in self._held if one.budget.holds_for(reason)]
        left = [one.budget.allowed(one.nodes) - one.going for one in held]
        return min((most for most in left if most > 0), default=None)

    def take(self, name: str) -> None:
        """Count a node as going, for any reason."""
        for held in self._covering(name):
            held.going += 1

    def _covering(self, name: str) -> list[_HeldByLimit]:
        if not self._held:
            return []
        snapshot, ref = self._state.observation.snapshot, self._state.group_of_node[name]
        labels = snapshot.node(snapshot.row(name)).metadata.labels
        return [held for held in self._held if held.budget.match.covers(ref, labels)]


@dataclass
class _Group:
    """The removable nodes of one group: without pods to move, and with pods to move."""

    ref: GroupRef
    empty: list[str] = field(default_factory=list)
    drain: list[str] = field(default_factory=list)


@dataclass
class _ParallelismLeft:
    """The number of removals and drains that may still start.

    ``overflows``: nothing is spent yet, so one zero-or-max group that is larger than these numbers may still go.
    """

    nodes: int
    drains: int
    overflows: bool = True

    @staticmethod
    def of(under_way: Iterable[Removing], settings: ScaleDownSettings, policy: Policy) -> "_ParallelismLeft":
        counted = [held.removal.drains for held in under_way if not _is_free(held.removal, policy)]
        return _ParallelismLeft(
            settings.max_scale_down_parallelism - len(counted), settings.max_drain_parallelism - sum(counted)
        )

    def spend(self, nodes: int, drains: int) -> None:
        self.nodes -= nodes
        self.drains -= drains
        self.overflows = False


def fit_into_budgets(
    state: ClusterState, empty: Sequence[str], drain: Sequence[str], settings: ScaleDownSettings, policy: Policy
) -> dict[str, int]:
    """Return node name → batch size of the removals that may start now.

    Zero-or-max groups come first, then empty nodes, then nodes with pods. The batch size is the number of nodes of
    the group that are deleted in one call; 1 for an ordinary group.
    """
    groups: dict[GroupRef, _Group] = {}
    for name in empty:
        ref = state.group_of_node[name]
        groups.setdefault(ref, _Group(ref)).empty.append(name)
    for name in drain:
        ref = state.group_of_node[name]
        groups.setdefault(ref, _Group(ref)).drain.append(name)
    budget = _ParallelismLeft.of(state.observation.removing.values(), settings, policy)
    whole = [group for group in groups.values() if is_atomic(state, group.ref)]
    chosen = _take_whole(state, whole, budget, incomplete_batches=not policy.completes_atomic_batches)
    if policy.balances_removals:
        order_empty, order_drain = list(empty), list(drain)
    else:
        order_empty = [name for group in groups.values() for name in group.empty]
        order_drain = [name for group in groups.values() for name in group.drain]
    single = {name for group in groups.values() if group not in whole for name in (*group.empty, *group.drain)}
    first = [name for name in order_empty if name in single]
    if not policy.empty_removals_are_free or not settings.max_scale_down_parallelism:
        first = first[: max(0, budget.nodes)]
        budget.nodes -= len(first)
    left = min(budget.nodes, budget.drains)
    then = [name for name in order_drain if name in single][: max(0, left)]
    return chosen | dict.fromkeys((*first, *then), 1)


def _is_free(removal: NodeRemoval, policy: Policy) -> bool:
    """Return whether the removal does not count: an empty node of an ordinary group, outside profile "ca"."""
    return policy.empty_removals_are_free and not removal.drains and removal.batch == 1


def _take_whole(
    state: ClusterState, groups: Iterable[_Group], budget: _ParallelismLeft, *, incomplete_batches: bool
) -> dict[str, int]:
    """Take zero-or-max groups, those with empty nodes first. The first group that does not fit stops all later ones.

    CA treats an overspent budget as if something of it were left.
    """
    chosen: dict[str, int] = {}
    mixed, draining = [group for group in groups if group.empty], [group for group in groups if not group.empty]

    def is_spent(left: int) -> bool:
        return left == 0 if incomplete_batches else left <= 0

    for group in mixed:
        nodes, drains = len(group.empty) + len(group.drain), len(group.drain)
        exceeds = budget.nodes < nodes or budget.drains < drains
        if exceeds and (is_spent(budget.nodes) or (drains > 0 and is_spent(budget.drains)) or not budget.overflows):
            break
        _accept(state, group, budget, chosen, incomplete_batches=incomplete_batches)
    budget.drains = min(budget.nodes, budget.drains)
    for group in draining:
        if budget.drains < len(group.drain) and (is_spent(budget.drains) or not budget.overflows):
            break
        _accept(state, group, budget, chosen, incomplete_batches=incomplete_batches)
    budget.drains = min(budget.nodes, budget.drains)
    return chosen


def _accept(
    state: ClusterState, group: _Group, budget: _ParallelismLeft, chosen: dict[str, int], *, incomplete_batches: bool
) -> None:
    """Take a group if all its nodes are removable; else leave it out.

    CA counts only empty nodes, or only draining ones, and asks for a batch of the target size where both kinds make
    up the group. That batch is never complete.
    """
    nodes, target = (*group.empty, *group.drain), state.groups[group.ref].seen.target or 0
    registered = count_registered(state, group.ref)
    if len(nodes) not in (target, registered):
        return
    counted = group.empty or group.drain
    batch = len(nodes)
    if incomplete_batches and len(counted) != registered:
        batch = target
    chosen.update(dict.fromkeys(nodes, batch))
    budget.spend(len(nodes), len(group.drain))


def is_atomic(state: ClusterState, ref: GroupRef) -> bool:
    """Return whether the group has either all its nodes or none (ZeroOrMaxNodeScaling)."""
    return state.groups[ref].seen.options.zero_or_max_node_scaling


def count_registered(state: ClusterState, ref: GroupRef) -> int:
    """Return how many nodes of the group have an instance; starting nodes do not count."""
    group, snapshot = state.groups[ref], state.observation.snapshot
    ids = {instance.id.lower() for instance in group.seen.instances or ()}
    readiness = group.readiness
    deleted = (snapshot.node(snapshot.row(name)).spec.provider_id.lower() for name in readiness.deleted)
    return len(readiness.ready) + len(readiness.unready) + len(readiness.leaving) + sum(i in ids for i in deleted)


def keep_complete_groups(state: ClusterState, chosen: Sequence[str]) -> tuple[list[str], dict[str, Unremovable]]:
    """Return the chosen nodes that may go, and why the others stay.

    Nodes of ordinary groups come first, then those of complete zero-or-max groups. A zero-or-max group is complete if the
    chosen nodes are as many as its target size, or as many as its registered nodes.
    """
    complete: list[str] = []
    atomic: dict[GroupRef, list[str]] = {}
    for name in chosen:
        ref = state.group_of_node[name]
        if is_atomic(state, ref):
            atomic.setdefault(ref, []).append(name)
        else:
            complete.append(name)
    stay: dict[str, Unremovable] = {}
    for ref, names in atomic.items():
        target = state.groups[ref].seen.target
        if len(names) in (target, count_registered(state, ref)):
            complete += names
        else:
            text = f"group {ref} goes as a whole, and only {len(names)} of its {target} nodes can"
            stay |= dict.fromkeys(names, Unremovable(code=UnremovableCode.ATOMIC_FAILED, message=text))
    return complete, stay
