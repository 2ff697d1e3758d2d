"""Node groups as people write them down: in a file, or by a label that the nodes of a dump carry."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from nodewright.model.errors import ConfigError
from nodewright.model.node import Node
from nodewright.model.printable import printable, show, suggest
from nodewright.model.quantity import Quantity
from nodewright.model.yaml_text import load_yaml
from nodewright.spec.options import decode_options

_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Amount = str | int | float


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class TaintEntry(_Strict, frozen=True, kw_only=True):
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class GroupEntry(_Strict, frozen=True, kw_only=True):
    """One group. ``nodes`` are the labels by which its nodes in the dump are known.

    Its next node will look like those. A group that has none describes it: ``cpu``, ``memory`` and the rest.
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
    price_per_hour: Annotated[float, Meta(ge=0)] | None = None

    @property
    def offered(self) -> dict[str, _Amount]:
        """What a described node offers; without cpu and memory it is not described."""
        given = {"cpu": self.cpu, "memory": self.memory, "pods": self.pods, **self.resources}
        return {name: amount for name, amount in given.items() if amount is not None}


class GroupsFile(_Strict, frozen=True, kw_only=True):
    groups: tuple[GroupEntry, ...]


def read_groups_file(source: bytes, name: str) -> tuple[GroupEntry, ...]:
    """The groups of a YAML file; raises ConfigError naming the file, the group and the key."""
    documents = [part for part in load_yaml(source, name, string_keys=True) if part is not None]
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ConfigError(f"{name}: must hold one mapping, groups: […]")
    entries = decode_options(documents[0], GroupsFile, name).groups
    seen: set[str] = set()
    for entry in entries:
        _check(entry, f"{name}: group {show(entry.name)}", seen)
        seen.add(entry.name)
    return entries


def group_by_label(nodes: Sequence[Node], label: str, max_size: int) -> tuple[GroupEntry, ...]:
    """One group per value of a label; raises ConfigError where no node has it."""
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
