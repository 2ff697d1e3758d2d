"""Which node belongs to which group, as far as it has been worked out."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from nodewright.clusterstate.accelerators import NO_ACCELERATORS, Accelerators
from nodewright.model.group import GroupRef, Instance
from nodewright.model.node import Node
from nodewright.snapshot.observation import GroupSeen, ProviderSeen

T = TypeVar("T")


@dataclass(frozen=True)
class Basis:
    """What membership follows from, but for the groups of machines that are gone."""

    nodes: list[Node]
    instances: Mapping[GroupRef, tuple[Instance, ...] | None]
    providers: Mapping[str, ProviderSeen]

    @staticmethod
    def of(nodes: list[Node], groups: Mapping[GroupRef, GroupSeen], providers: Mapping[str, ProviderSeen]) -> "Basis":
        return Basis(nodes, {ref: group.instances for ref, group in groups.items()}, dict(providers))


@dataclass
class Membership:
    """Which group each node belongs to, and which instances have a node; ids compare as the provider says.

    ``shared`` are ids that more than one node says are its own: which of them the machine is cannot be told.

    It is used again in the next loop if nothing of its basis has changed, which is told by identity where values
    are the same ones: comparing all nodes costs far less than looking at each.
    """

    basis: Basis
    nodes: dict[GroupRef, list[Node]] = field(default_factory=dict)
    group_of_node: dict[str, GroupRef] = field(default_factory=dict)
    group_of_id: dict[str, GroupRef] = field(default_factory=dict)
    registered: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)
    going: set[str] = field(default_factory=set)
    strangers: list[Node] = field(default_factory=list)
    accelerators: Accelerators = NO_ACCELERATORS
    _kept: dict[Hashable, tuple[object, Any]] = field(default_factory=dict)

    def shares_machine(self, node: Node) -> bool:
        """Does another node say that it is the same machine?"""
        return not self.shared.isdisjoint((node.spec.provider_id, node.spec.provider_id.lower()))

    def keep(self, what: Hashable, of: object, work_out: Callable[[], T]) -> T:
        """What follows from this and from ``of``; worked out once, for readers only."""
        known = self._kept.get(what)
        if known is None or known[0] != of:
            known = self._kept[what] = (of, work_out())
        found: T = known[1]
        return found
