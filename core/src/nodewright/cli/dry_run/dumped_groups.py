"""Node groups of a dump as a provider: what ``plan`` reads where no cloud is asked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nodewright.cli.dry_run.groups import GroupEntry
from nodewright.model.capability import Capability
from nodewright.model.errors import ConfigError, NodeGroupNotFound
from nodewright.model.group import FailedInstance, GroupOptions, Instance, NodeGroup, NodeTemplate, ProviderInfo
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL, Node, Taint
from nodewright.model.printable import printable
from nodewright.model.quantity import Quantity

PROVIDER = "dump"
_TYPE_LABEL = "node.kubernetes.io/instance-type"


@dataclass(frozen=True)
class _Held:
    group: NodeGroup
    entry: GroupEntry
    nodes: Sequence[Node]
    template: NodeTemplate


class DumpedGroups:
    """Implements ProviderReads: each group has the nodes of the dump that carry its labels."""

    def __init__(self, entries: Sequence[GroupEntry], nodes: Sequence[Node]) -> None:
        """Raises ConfigError for a node of two groups, and a group whose nodes cannot be imagined."""
        priced = frozenset({Capability.PRICING}) if any(e.price_per_hour is not None for e in entries) else frozenset()
        self.info = ProviderInfo(name=PROVIDER, capabilities=priced)
        self._held = {entry.name: _hold(entry, nodes) for entry in entries}
        _refuse_shared(self._held.values())

    @property
    def name(self) -> str:
        return PROVIDER

    def capabilities(self, group: NodeGroup) -> frozenset[Capability]:  # noqa: ARG002 - every group's are the same
        return self.info.capabilities

    def refresh(self, wanted: frozenset[str] = frozenset()) -> None:
        """A dump does not change."""

    def node_groups(self) -> Sequence[NodeGroup]:
        return [held.group for held in self._held.values()]

    def target_size(self, group_id: str) -> int:
        return len(self._of(group_id).nodes)

    def instances(self, group_id: str) -> tuple[Instance, ...]:
        return tuple(Instance(id=node.spec.provider_id) for node in self._of(group_id).nodes)

    def failed_instances(self, group_id: str) -> tuple[FailedInstance, ...] | None:
        self._of(group_id)
        return None

    def template_node(self, group_id: str) -> NodeTemplate:
        return self._of(group_id).template

    def group_options(self, group_id: str, defaults: GroupOptions) -> GroupOptions:
        self._of(group_id)
        return defaults

    def node_price(self, group_id: str, start: float, end: float) -> float | None:
        price = self._of(group_id).entry.price_per_hour
        return price * (end - start) / 3600 if price is not None else None

    def ignored_labels(self) -> tuple[str, ...] | None:
        return None

    def same_group_labels(self) -> tuple[str, ...] | None:
        return None

    def gpu_label(self) -> str | None:
        return None

    def gpu_resources(self) -> tuple[str, ...] | None:
        return None

    def machine_types(self) -> None:
        return None

    def provisioning_classes(self) -> None:
        return None

    def _of(self, group_id: str) -> _Held:
        try:
            return self._held[group_id]
        except KeyError:
            raise NodeGroupNotFound(f"no group {group_id}", provider=PROVIDER, group_id=group_id) from None


def _hold(entry: GroupEntry, nodes: Sequence[Node]) -> _Held:
    own = [node for node in nodes if entry.nodes and entry.nodes.items() <= node.metadata.labels.items()]
    group = NodeGroup(id=entry.name, min_size=entry.min_size, max_size=entry.max_size)
    return _Held(group, entry, own, _make_template(entry, own))


def _make_template(entry: GroupEntry, nodes: Sequence[Node]) -> NodeTemplate:
    if entry.cpu is not None and entry.memory is not None:
        placed = {ZONE_LABEL: entry.zone, _TYPE_LABEL: entry.instance_type}
        return NodeTemplate(
            allocatable={name: Quantity.of(amount) for name, amount in entry.offered.items()},
            labels={**entry.nodes, **{key: value for key, value in placed.items() if value}, **entry.labels},
            taints=tuple(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in entry.taints),
        )
    if not nodes:
        raise ConfigError(
            f"group {printable(entry.name)}: the dump has no node of it, so cpu and memory must say what one is like"
        )
    sample = nodes[0]
    return NodeTemplate(
        allocatable=sample.allocatable,
        capacity=sample.status.capacity,
        labels={key: value for key, value in sample.metadata.labels.items() if key != HOSTNAME_LABEL},
        taints=sample.spec.taints,
    )


def _refuse_shared(groups: Iterable[_Held]) -> None:
    owners: dict[str, str] = {}
    for held in groups:
        for node in held.nodes:
            other = owners.setdefault(node.spec.provider_id, held.entry.name)
            if other != held.entry.name:
                both = f"{printable(other)} and of {printable(held.entry.name)}"
                raise ConfigError(f"node {printable(node.name)} is of group {both}; their labels (nodes:) must differ")
