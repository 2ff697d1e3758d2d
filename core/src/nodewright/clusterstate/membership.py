"""Match nodes with groups and instances, and find instances without a node."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from nodewright.clusterstate.accelerators import NO_ACCELERATORS, Accelerators
from nodewright.model.group import GroupRef, Instance, InstanceState
from nodewright.model.node import Node
from nodewright.snapshot.observation import GroupSeen, ProviderSeen

T = TypeVar("T")


@dataclass(frozen=True)
class MembershipInputs:
    """The input of membership, except the groups of machines that are gone."""

    nodes: list[Node]
    instances: Mapping[GroupRef, tuple[Instance, ...] | None]
    unread: frozenset[GroupRef]
    providers: Mapping[str, ProviderSeen]

    @staticmethod
    def of(
        nodes: list[Node],
        groups: Mapping[GroupRef, GroupSeen],
        unread: frozenset[GroupRef],
        providers: Mapping[str, ProviderSeen],
    ) -> "MembershipInputs":
        return MembershipInputs(nodes, {ref: group.instances for ref, group in groups.items()}, unread, dict(providers))


@dataclass
class Membership:
    """The group of each node, and the instances that have a node.

    Ids compare with or without case, as the provider says. ``shared``: ids that several nodes claim. The value is
    reused in the next loop if its basis is the same: comparing objects by identity is much cheaper than matching all
    nodes again.
    """

    basis: MembershipInputs
    nodes: dict[GroupRef, list[Node]] = field(default_factory=dict)
    group_of_node: dict[str, GroupRef] = field(default_factory=dict)
    group_of_id: dict[str, GroupRef] = field(default_factory=dict)
    registered: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)
    going: set[str] = field(default_factory=set)
    nodes_without_group: list[Node] = field(default_factory=list)
    accelerators: Accelerators = NO_ACCELERATORS
    _kept: dict[Hashable, tuple[object, Any]] = field(default_factory=dict)

    def shares_machine(self, node: Node) -> bool:
        """Return whether another node claims the same machine."""
        return not self.shared.isdisjoint((node.spec.provider_id, node.spec.provider_id.lower()))

    def with_devices(self, late: frozenset[str], published: frozenset[str]) -> "Membership":
        """Return the membership with the nodes that lack devices, and those whose accelerators are in ResourceSlices.

        Without a change it is the same object.
        """
        accelerators = replace(self.accelerators, late=late, published=published)
        return self if accelerators == self.accelerators else replace(self, accelerators=accelerators, _kept={})

    def keep(self, what: Hashable, of: object, work_out: Callable[[], T]) -> T:
        """Return the cached result of ``work_out`` for this membership and ``of``.

        Callers must not change the result.
        """
        known = self._kept.get(what)
        if known is None or known[0] != of:
            known = self._kept[what] = (of, work_out())
        found: T = known[1]
        return found


def find_members(
    nodes: list[Node],
    groups: Mapping[GroupRef, GroupSeen],
    providers: Mapping[str, ProviderSeen],
    held: Mapping[str, GroupRef],
    before: Membership | None,
    unread: frozenset[GroupRef] = frozenset(),
) -> Membership:
    """Match nodes to instances by providerID.

    ``held``: the groups of instances that are gone. ``before``: the membership of the last loop. ``unread``: groups that
    only an earlier loop or another engine knows. An instance that such a group shares with one that was read belongs to
    the group that was read: the same group may have another name by now.
    """
    basis = MembershipInputs.of(nodes, groups, unread, providers)
    if before is not None and held is before.group_of_id and before.basis == basis:
        return before
    found = Membership(
        basis,
        group_of_id={i: ref for i, ref in held.items() if ref in groups},
        accelerators=Accelerators.of(providers.values()),
    )
    live: set[str] = set()
    for ref, group in sorted(groups.items(), key=lambda item: item[0] not in unread):
        for instance in group.instances or ():
            known_as = _known_as(instance.id, ref, providers)
            found.group_of_id[known_as] = ref
            live.add(known_as)
            if instance.state == InstanceState.DELETING:
                found.going.add(known_as)
    for node in nodes:
        _assign(node, found, live)
    # Forget ids that neither an instance nor a node has.
    found.group_of_id = {i: ref for i, ref in found.group_of_id.items() if i in live or i in found.registered}
    return found


def unregistered_ids(group: GroupSeen, members: Membership) -> list[str]:
    """Return instances that should become nodes and have not. Callers must not change the list.

    Failed instances and those that are being deleted are left out.
    """
    of = (group.instances, group.failed)
    return members.keep((_unregistered_ids, group.ref), of, lambda: _unregistered_ids(group, members))


def _unregistered_ids(group: GroupSeen, members: Membership) -> list[str]:
    failed = {failure.instance_id for failure in group.failed or ()}
    return [
        instance.id
        for instance in group.instances or ()
        if instance.state != InstanceState.DELETING
        and instance.id not in failed
        and members.registered.isdisjoint((instance.id, instance.id.lower()))
    ]


def _known_as(instance_id: str, ref: GroupRef, providers: Mapping[str, ProviderSeen]) -> str:
    provider = providers.get(ref.provider)
    return instance_id.lower() if provider is not None and provider.ignores_id_case else instance_id


def _assign(node: Node, found: Membership, live: set[str]) -> None:
    """Assign a node to the group of its instance. A node whose instance is gone stays in the group, as deleted."""
    known_as = next((name for name in names_of(node) if name in found.group_of_id), None)
    if known_as is None:
        found.nodes_without_group.append(node)
        return
    ref = found.group_of_id[known_as]
    found.nodes.setdefault(ref, []).append(node)
    found.group_of_node[node.name] = ref
    if known_as in found.registered:
        found.shared.add(known_as)
    found.registered.add(known_as)
    if known_as not in live:
        found.going.add(known_as)


def names_of(node: Node) -> set[str]:
    """Return the ids that a node's providerID may match; empty without a providerID."""
    provider_id = node.spec.provider_id
    return {provider_id, provider_id.lower()} if provider_id else set()
