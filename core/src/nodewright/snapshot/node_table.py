"""Nodes as columns.

Rows are never reordered or reused: a removed node leaves a dead row, and a changed node gets a new row.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, KeysView
from itertools import compress
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewright.model.meta import Resources
from nodewright.model.node import HOSTNAME_LABEL, Node
from nodewright.snapshot.column import Column, Ids, Ints, Mask
from nodewright.snapshot.pod_class import PodClasses
from nodewright.snapshot.requests import MAX_ALLOCATABLE, PODS, node_amounts

COPY_PREFIX = "copy-"
# The most derived columns kept at once: most columns of a long-lived snapshot are not needed again.
MAX_COLUMNS = 2048
Compute = Callable[["NodeTable", slice], NDArray[Any]]


class Vocabulary:
    """Interned names that a snapshot shares with its forks: resources, label values, pod classes."""

    def __init__(self) -> None:
        self.classes = PodClasses()
        self.resources: dict[str, int] = {PODS: 0, "cpu": 1, "memory": 2, "ephemeral-storage": 3}
        self.label_values: dict[str, dict[str, int]] = {}
        self._interned: dict[str, dict[Any, int]] = {}
        # Key → row → (pods, value computed from these pods). If a snapshot has other pods there, it computes again.
        self.of_pods: dict[Hashable, dict[int, tuple[object, Any]]] = {}

    def value_id(self, key: str, value: str) -> int:
        values = self.label_values.setdefault(key, {})
        return values.setdefault(value, len(values))

    def intern(self, kind: str, value: Hashable) -> int:
        """Return a small number that stands for a value of this kind."""
        values = self._interned.setdefault(kind, {})
        return values.setdefault(value, len(values))

    def values_of(self, kind: str) -> list[Any]:
        """Return all interned values of a kind, by number."""
        return list(self._interned.get(kind, ()))


class NodeTable:
    """Nodes, their allocatable and used resources. Forks share columns until one writes."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self._parent: Self | None = None
        self._base = 0
        # A copy of a template is held as the template itself; its name follows from its row.
        self._nodes: list[Node] = []
        self._rows: dict[str, int] = {}
        self._rows_shared = False
        width = len(self.vocabulary.resources)
        self._alive = Column(np.zeros(0, dtype=np.bool_))
        self._copy = Column(np.zeros(0, dtype=np.bool_))
        # Resources × rows, so that what is free of one resource lies side by side.
        self._allocatable = Column(np.zeros((width, 0), dtype=np.int64))
        self._free = Column(np.zeros((width, 0), dtype=np.int64))
        self._columns: dict[object, Column] = {}

    def __len__(self) -> int:
        """Return the number of rows, including dead ones."""
        return len(self._alive)

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    @property
    def alive(self) -> Mask:
        """Return a mask of the rows whose node exists."""
        return self._alive.view

    @property
    def allocatable(self) -> Ints:
        """Return rows × resources (``vocabulary.resources`` gives the column of a name)."""
        return self._allocatable.view.T

    @property
    def free(self) -> Ints:
        """Return rows × resources: what the pods of a node leave free; negative if a node is over-committed."""
        return self._free.view.T

    @property
    def used(self) -> Ints:
        """Return rows × resources: the sum of the requests of a node's pods."""
        return self.allocatable - self.free

    def row(self, name: str) -> int:
        """Return the row of a node, but not of a copy. Raise KeyError if there is none of this name."""
        return self._rows[name]

    def find_row(self, name: str) -> int | None:
        """Return the row of a node or of a copy; None if there is none of this name."""
        row = self._rows.get(name)
        if row is None and name.startswith(COPY_PREFIX):
            number = name.removeprefix(COPY_PREFIX)
            if len(number) < 10 and number.isdecimal() and int(number) < len(self) and self.name(int(number)) == name:
                return int(number)
        return row

    def find_rows(self, names: Iterable[str]) -> list[int | None]:
        """Return ``find_row`` of each name."""
        names = list(names)
        found: list[int | None] = list(map(self._rows.get, names))
        if None in found:
            return [self.find_row(name) if row is None else row for name, row in zip(names, found, strict=True)]
        return found

    @property
    def names(self) -> KeysView[str]:
        """Return the names of all live nodes except copies."""
        return self._rows.keys()

    def common_names(self, other: "NodeTable") -> list[str]:
        """Return the names of the live nodes of both but copies, in row order."""
        rows = other._rows
        return list(self._rows) if rows is self._rows else [*filter(rows.__contains__, self._rows)]

    def template(self, row: int) -> Node:
        """Return the node of a row; for a copy the template itself, whose name and hostname are not the copy's."""
        return self._nodes[row]

    def name(self, row: int) -> str:
        return f"{COPY_PREFIX}{row}" if self._copy.view[row] else self._nodes[row].name

    def node(self, row: int) -> Node:
        """Return the node of a row; for a copy, the template with the copy's own name."""
        node = self._nodes[row]
        return renamed(node, self.name(row)) if self._copy.view[row] else node

    def nodes(self) -> Iterator[tuple[int, Node]]:
        """Return the live rows with their nodes, in row order."""
        return ((int(row), self.node(int(row))) for row in np.flatnonzero(self.alive))

    def live_nodes(self) -> list[Node]:
        """Return the nodes of all live rows, in row order."""
        if self._copy.view.any():
            return [node for _, node in self.nodes()]
        return self._nodes.copy() if self.alive.all() else list(compress(self._nodes, self.alive.tolist()))

    def add_nodes(self, nodes: list[Node]) -> slice:
        """Add rows for nodes whose names are not in the table."""
        window = self._append(nodes, [node.allocatable for node in nodes], copies=False)
        if self._rows_shared:
            self._rows, self._rows_shared = self._rows.copy(), False
        self._rows.update(zip((node.name for node in nodes), range(window.start, window.stop), strict=True))
        return window

    def add_copies(self, template: Node, count: int) -> slice:
        """Add ``count`` copies of a template node, each with a name and hostname label of its own."""
        return self._append([template] * count, [template.allocatable], copies=True)

    def labels(self, key: str) -> Ids:
        """Return per row the interned value of a label; -1: the node lacks it."""
        return self.column(("label", key), lambda table, window: table.label_ids(key, window))

    def column(self, key: object, compute: Compute) -> NDArray[Any]:
        """Return a derived column, computed once per row. ``compute`` may use only the nodes of its window."""
        held = self._columns.get(key)
        if held is None:
            if len(self._columns) >= MAX_COLUMNS:
                self._columns.clear()
            held = self._columns[key] = self._inherited(key, compute)
        missing = slice(len(held), len(self))
        if missing.start < missing.stop:
            held.extend(compute(self, missing))
        return held.view

    def label_ids(self, key: str, window: slice) -> Ids:
        """Return the interned values of a label for new rows. The hostname of a copy is its own name."""
        intern, hostname = self.vocabulary.value_id, key == HOSTNAME_LABEL
        ids = np.empty(window.stop - window.start, dtype=np.int64)
        for index, row in enumerate(range(window.start, window.stop)):
            own = self.name(row) if hostname and self._copy.view[row] else self._nodes[row].metadata.labels.get(key)
            ids[index] = -1 if own is None else intern(key, own)
        return ids

    @property
    def schedulable(self) -> Mask:
        """Return a mask of the rows whose node is not cordoned."""
        return self.column("schedulable", _schedulable)

    def widen(self) -> None:
        """Give the resource matrices a column for every resource in the vocabulary."""
        missing = len(self.vocabulary.resources) - len(self._free.view)
        if missing > 0:
            room = np.zeros((missing, len(self)), dtype=np.int64)
            self._allocatable = Column(np.vstack([self._allocatable.view, room]))
            self._free = Column(np.vstack([self._free.view, room]))

    def sibling(self) -> Self:
        """Return an empty snapshot with the same vocabulary, for simulated nodes."""
        empty = type(self)()
        empty.vocabulary = self.vocabulary
        empty.widen()
        return empty

    def _append(self, nodes: list[Node], offers: list[Resources], *, copies: bool) -> slice:
        window = slice(len(self), len(self) + len(nodes))
        rows = self._allocatable_rows(offers)
        if copies:
            rows = np.repeat(rows, len(nodes), axis=1)
        self._nodes.extend(nodes)
        self._alive.extend(np.ones(len(nodes), dtype=np.bool_))
        self._copy.extend(np.full(len(nodes), copies))
        self._allocatable.extend(rows)
        self._free.extend(rows)
        return window

    def _allocatable_rows(self, offers: list[Resources]) -> Ints:
        resources = self.vocabulary.resources
        amounts = [node_amounts(offer) for offer in offers]
        for offer in amounts:
            for name in offer:
                resources.setdefault(name, len(resources))
        self.widen()
        rows = np.zeros((len(resources), len(offers)), dtype=np.int64)
        for index, offer in enumerate(amounts):
            for name, amount in offer.items():
                rows[resources[name], index] = max(-MAX_ALLOCATABLE, amount)
        return rows

    def _inherited(self, key: object, compute: Compute) -> Column:
        """Return the parent's rows of a column, so that all later forks share what is computed once."""
        if self._parent is not None:
            return Column(self._parent.column(key, compute)[: self._base])
        return Column(compute(self, slice(0, 0)))

    def _fork_table(self, forked: "NodeTable") -> None:
        self._rows_shared = True
        forked.vocabulary, forked._parent, forked._base = self.vocabulary, self, len(self)
        forked._nodes = self._nodes.copy()
        forked._rows, forked._rows_shared = self._rows, True
        forked._alive, forked._copy = self._alive.fork(), self._copy.fork()
        forked._allocatable, forked._free = self._allocatable.fork(), self._free.fork()
        forked._columns = {key: column.fork() for key, column in self._columns.items()}


def _schedulable(table: NodeTable, window: slice) -> Mask:
    return np.array([not node.spec.unschedulable for node in table._nodes[window]], dtype=np.bool_)


def renamed(template: Node, name: str) -> Node:
    """Return the template as a node of this name, with the same hostname label."""
    labels = {**template.metadata.labels, HOSTNAME_LABEL: name}
    meta = msgspec.structs.replace(template.metadata, name=name, labels=labels)
    return msgspec.structs.replace(template, metadata=meta)


def row_numbers(table: NodeTable) -> Ids:
    """Return the row numbers, for queries in which every row is its own domain."""
    return table.column("row", lambda _, window: np.arange(window.start, window.stop, dtype=np.int64))
