"""Node groups described in a file, or by a label on the nodes of a dump."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from nodewright.model.capability import Capability
from nodewright.model.errors import ConfigError, NodeGroupNotFound
from nodewright.model.group import (
    FailedInstance,
    GroupOptions,
    Instance,
    NodeGroup,
    NodeTemplate,
    Price,
    ProviderInfo,
)
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL, Node, Taint
from nodewright.model.printable import printable, show, suggest
from nodewright.model.quantity import Quantity
from nodewright.model.yaml_text import load_yaml
from nodewright.spec.options import decode_options

_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Amount = str | int | float


class _GroupsFileEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class TaintEntry(_GroupsFileEntry, frozen=True, kw_only=True):
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class GroupEntry(_GroupsFileEntry, frozen=True, kw_only=True):
    """One group. Its nodes are those of the dump that have the labels ``nodes``.

    The next node will be like them, unless ``cpu`` and ``memory`` describe it; a group without nodes must have both.
    """

    name: str
    nodes: dict[str, str] = {}
    min_size: _Count = 0
    max_size: _Count
    cpu: _Amount | None = None
    memory: _Amount | None = None
    pods: _Amount = 110
    resources: dict[str, _Amount] = {}
    labels: dict[str, str] = {}
    taints: tuple[TaintEntry, ...] = ()
    zone: str = ""
    instance_type: str = ""
    price_per_hour: Annotated[float, Meta(ge=0, le=1e6)] | None = None

    @property
    def offered(self) -> dict[str, _Amount]:
        """Return the resources that a described node offers; without cpu and memory it is not described."""
        given = {"cpu": self.cpu, "memory": self.memory, "pods": self.pods, **self.resources}
        return {name: amount for name, amount in given.items() if amount is not None}


class GroupsFile(_GroupsFileEntry, frozen=True, kw_only=True):
    groups: tuple[GroupEntry, ...]


def read_groups_file(source: bytes, name: str) -> tuple[GroupEntry, ...]:
    """Read the groups of a YAML file; raise ConfigError that names the file, the group and the key."""
    documents = [part for part in load_yaml(source, name, string_keys=True) if part is not None]
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ConfigError(f"{name}: must hold one mapping, groups: […]")
    entries = decode_options(documents[0], GroupsFile, name).groups
    check_entries(entries, name)
    return entries


def check_entries(entries: Iterable[GroupEntry], name: str) -> None:
    """Raise ConfigError for invalid groups; the message names the file, the group and the key."""
    seen: set[str] = set()
    for entry in entries:
        _check(entry, f"{name}: group {show(entry.name)}", seen)
        seen.add(entry.name)


def group_by_label(nodes: Sequence[Node], label: str, max_size: int) -> tuple[GroupEntry, ...]:
    """Return one group for each value of a label; raise ConfigError if no node has the label."""
    values = {node.metadata.labels[label]: None for node in nodes if node.metadata.labels.get(label)}
    if not values:
        keys = {key for node in nodes for key in node.metadata.labels}
        raise ConfigError(f"--group-by: no node of the dump has the label {printable(label)}{suggest(label, keys)}")
    return tuple(GroupEntry(name=value, nodes={label: value}, max_size=max_size) for value in values)


def _check(entry: GroupEntry, where: str, seen: set[str]) -> None:
    if not entry.name or entry.name in seen:
        raise ConfigError(f"{where}: a name must be unique and not empty")
    if entry.min_size > entry.max_size:
        raise ConfigError(f"{where}: min_size {entry.min_size} is above max_size {entry.max_size}")
    for name, amount in entry.offered.items():
        try:
            negative = Quantity.of(amount).nano < 0
        except ValueError as error:
            raise ConfigError(f"{where}: {printable(name)}: {error}") from None
        if negative:
            raise ConfigError(f"{where}: {printable(name)}: {show(amount)} is negative")


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
        """Raise ConfigError for a node of two groups, or a group without nodes that lacks cpu or memory."""
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
        """Do nothing: a dump does not change."""

    def node_groups(self) -> Sequence[NodeGroup]:
        return [held.group for held in self._held.values()]

    def names_of(self, known: Container[str]) -> frozenset[str]:  # noqa: ARG002 - no flag names a group
        return frozenset()

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

    def node_price(self, group_id: str) -> Price | None:
        price = self._of(group_id).entry.price_per_hour
        return Price(per_hour=price, source="the file of groups") if price is not None else None

    def ignored_labels(self) -> tuple[str, ...] | None:
        return None

    def same_group_labels(self) -> tuple[str, ...] | None:
        return None

    def gpu_label(self) -> str | None:
        return None

    def gpu_types(self) -> None:
        return None

    def gpu_resources(self) -> tuple[str, ...] | None:
        return None

    def machine_types(self) -> None:
        return None

    def interruptions(self) -> None:
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
            f"group {printable(entry.name)}: the dump has no node of it, so cpu and memory must describe one"
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
