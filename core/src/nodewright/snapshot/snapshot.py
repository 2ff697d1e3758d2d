"""The snapshot of a cluster, which can be forked: nodes as columns, pods as counts per class and node."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from operator import attrgetter
from typing import TypeVar

import numpy as np

from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.snapshot import claim_log
from nodewright.snapshot.claim_log import DeviceFits
from nodewright.snapshot.column import Ints, as_columns
from nodewright.snapshot.context import Context
from nodewright.snapshot.domains import DomainCounts, DomainQuery, Marks
from nodewright.snapshot.node_table import NodeTable
from nodewright.snapshot.pod_class import PodClass

# Row → how many pods of one class are there.
RowCounts = Mapping[int, int]
Trait = Callable[[PodClass], bool]
_IS_GUARDED = attrgetter("has_anti_affinity")
T = TypeVar("T")
_MANY = 256


class Snapshot(NodeTable):
    """Nodes and the pods on them. A fork shares everything until it, or its parent, writes."""

    def __init__(self, context: Context | None = None) -> None:
        super().__init__()
        self._context = Context()
        if context is not None:
            self.context = context
        # Pods with device claims that were placed in simulation, in order, and what predicates cache of it.
        self.claim_log: claim_log.ClaimLog | None = None
        self.device_fits = dict[PodClass, DeviceFits]()
        # Classes and queries are only added, so that each cache needs only the number of those that it covers. When too
        # many classes have no pods left, they are dropped together with the caches.
        self._placed: dict[PodClass, dict[int, int]] = {}
        self._counts: dict[DomainQuery, DomainCounts] = {}
        self._by_trait: dict[Trait, tuple[int, tuple[PodClass, ...]]] = {}
        self._by_mark: dict[Marks, tuple[int, dict[Hashable, tuple[PodClass, ...]]]] = {}
        self._watching: dict[PodClass, tuple[int, tuple[DomainQuery, ...]]] = {}
        # Parts that only this snapshot uses. Other parts are shared with a fork and copied before a write.
        self._owned: set[PodClass] = set()
        self._owned_counts: set[DomainQuery] = set()
        self._pods: dict[int, tuple[Pod, ...]] = {}
        self._pod_classes: dict[int, tuple[PodClass, ...]] = {}
        self._departed: list[int] = []
        self._emptied = 0

    def fork(self) -> "Snapshot":
        """Return a snapshot that starts equal and changes independently."""
        forked = Snapshot.__new__(Snapshot)
        self._fork_table(forked)
        forked._context = self._context
        forked.claim_log = self.claim_log
        forked.device_fits = {pod_class: fits.copy() for pod_class, fits in self.device_fits.items()}
        forked._placed, forked._counts = self._placed.copy(), self._counts.copy()
        forked._by_trait, forked._by_mark = self._by_trait.copy(), self._by_mark.copy()
        forked._watching = self._watching.copy()
        self._owned, self._owned_counts = set(), set()
        forked._owned, forked._owned_counts = set(), set()
        forked._pods, forked._pod_classes = self._pods.copy(), self._pod_classes.copy()
        forked._departed = self._departed.copy()
        forked._emptied = self._emptied
        return forked

    @property
    def context(self) -> Context:
        return self._context

    @context.setter
    def context(self, context: Context) -> None:
        self._context = context
        self.vocabulary.classes.serve_devices(context.device_resources.keys())

    def sibling(self) -> "Snapshot":
        """Return an empty snapshot with the same vocabulary, for simulated nodes. Its context has only the devices."""
        empty = super().sibling()
        empty._context = self._context.only_devices()
        return empty

    def class_of(self, pod: Pod, *, placed: bool = False) -> PodClass:
        return self.vocabulary.classes.of(pod, placed=placed)

    # Nodes

    def add_node(self, node: Node) -> int:
        """Append one node. Return its row."""
        row = len(self)
        self.add_nodes([node])
        return row

    def remove_node(self, row: int) -> None:
        """Remove a node and its pods. The row stays as a dead row."""
        if self.free[row, 0] != self.allocatable[row, 0]:  # a node without pods is in none of the classes
            for pod_class in [held for held, rows in self._placed.items() if row in rows]:
                self.unplace(pod_class, row, self._placed[pod_class][row])
        self._pods.pop(row, None)
        self._pod_classes.pop(row, None)
        self._departed.append(row)
        self._alive.writable[row] = False
        if self._rows_shared:
            self._rows, self._rows_shared = self._rows.copy(), False
        self._rows.pop(self.name(row), None)

    # Pods

    def place(self, pod_class: PodClass, row: int, count: int = 1, pod: Pod | None = None) -> None:
        """Put pods on a node without checking predicates. If ``pod`` is given, record it as one of the node's pods."""
        rows = self._own_rows(pod_class)
        rows[row] = rows.get(row, 0) + count
        amounts = self.request_row(pod_class, placed=True)
        self._free.writable[:, row] -= count * amounts
        if pod is not None:
            self._pods[row] = (*self._pods.get(row, ()), pod)
            self._pod_classes[row] = (*self._pod_classes.get(row, ()), pod_class)
        self._count(pod_class, row, count)
        if pod_class.wants_devices and not self._runs_there(pod, row):
            self.claim_log = claim_log.placed(self.claim_log, pod_class, row, count)

    def place_many(self, pod_class: PodClass, rows: Ints, counts: Ints) -> None:
        """Put pods on many distinct nodes at once, as ``place`` does."""
        self._place_many(pod_class, rows, counts)
        if pod_class.wants_devices:
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                self.claim_log = claim_log.placed(self.claim_log, pod_class, row, count)

    def _place_many(self, pod_class: PodClass, rows: Ints, counts: Ints) -> None:
        held = self._own_rows(pod_class)
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            held[row] = held.get(row, 0) + count
        self._count_many(pod_class, rows, counts)

    def _runs_there(self, pod: Pod | None, row: int) -> bool:
        """Return whether a pod runs on the node of a row; the devices of such pods are in the claims' status."""
        return pod is not None and pod.host == self.name(row)

    def place_pods(self, pods: Iterable[tuple[int, Sequence[Pod]]]) -> None:
        """Put running pods on the nodes of these rows, and record them there."""
        counts, classes_of = defaultdict[PodClass, dict[int, int]](dict), self.vocabulary.classes.of_placed
        for row, there in pods:
            classes = classes_of(there)
            for pod_class in classes:
                rows = counts[pod_class]
                rows[row] = rows.get(row, 0) + 1
            self._pods[row] = (*self._pods.get(row, ()), *there)
            self._pod_classes[row] = (*self._pod_classes.get(row, ()), *classes)
        for pod_class, found in counts.items():
            self._place_many(pod_class, *as_columns(found))

    def unplace_many(self, pod_class: PodClass, rows: Ints, counts: Ints) -> None:
        """Undo ``place_many``."""
        held = self._own_rows(pod_class)
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            held[row] -= count
            if not held[row]:
                del held[row]
        self._count_many(pod_class, rows, -counts)
        self._note_empty(held)
        if pod_class.wants_devices:
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                self.claim_log = claim_log.unplaced(self.claim_log, pod_class, row, count)

    def _count_many(self, pod_class: PodClass, rows: Ints, counts: Ints) -> None:
        amounts = self.request_row(pod_class, placed=True)
        self._free.writable[:, rows] -= amounts[:, None] * counts
        for query in self._watchers(pod_class):
            self._own_counts(query).add_many(query.domains(self)[rows], counts * query.weight(pod_class))

    def unplace(self, pod_class: PodClass, row: int, count: int = 1, pod: Pod | None = None) -> None:
        """Undo ``place``. At least ``count`` pods of the class must be on the node."""
        rows = self._own_rows(pod_class)
        rows[row] -= count
        if not rows[row]:
            del rows[row]
        amounts = self.request_row(pod_class, placed=True)
        self._free.writable[:, row] += count * amounts
        if pod is not None:
            kept = [place for place, other in enumerate(self._pods[row]) if other is not pod]
            self._pods[row], self._pod_classes[row] = _at(self._pods[row], kept), _at(self._pod_classes[row], kept)
        self._count(pod_class, row, -count)
        self._note_empty(rows)
        if pod_class.wants_devices and not self._runs_there(pod, row):
            self.claim_log = claim_log.unplaced(self.claim_log, pod_class, row, count)

    def _note_empty(self, rows: RowCounts) -> None:
        self._emptied += not rows
        if self._emptied > max(_MANY, len(self._placed) // 2):
            self._forget_empty()

    def pods(self, row: int) -> tuple[Pod, ...]:
        """Return the recorded pods of a node, in the order in which they were added."""
        return self._pods.get(row, ())

    def pod_classes(self, row: int) -> tuple[PodClass, ...]:
        """Return the class of each of ``pods``."""
        return self._pod_classes.get(row, ())

    def name_pods(self, pod_class: PodClass, row: int, pods: Sequence[Pod]) -> None:
        """Record which pods of a class were placed on a node, because ``place_many`` only counts them."""
        self._pods[row] = (*self._pods.get(row, ()), *pods)
        self._pod_classes[row] = (*self._pod_classes.get(row, ()), *repeat(pod_class, len(pods)))

    def forget_pods(self, row: int, is_gone: Callable[[PodClass], bool]) -> None:
        """Drop the recorded pods of these classes from a node. ``unplace`` has already reduced the counts."""
        kept = [place for place, pod_class in enumerate(self.pod_classes(row)) if not is_gone(pod_class)]
        self._pods[row], self._pod_classes[row] = _at(self.pods(row), kept), _at(self.pod_classes(row), kept)

    def of_pods(self, key: Hashable, rows: Iterable[int], compute: Callable[[tuple[Pod, ...]], T]) -> list[T]:
        """Return ``compute`` of each node's recorded pods, cached until they change; it must depend on nothing else."""
        known, found = self.vocabulary.of_pods.setdefault(key, {}), list[T]()
        for row in rows:
            pods = self._pods.get(row, ())
            held = known.get(row)
            if held is None or held[0] is not pods:
                held = known[row] = (pods, compute(pods))
            found.append(held[1])
        return found

    def placements(self) -> Iterator[tuple[PodClass, RowCounts]]:
        """Return every class that has pods on nodes, with row → count."""
        return ((pod_class, rows) for pod_class, rows in self._placed.items() if rows)

    def rows_of(self, pod_class: PodClass) -> RowCounts:
        """Return where the pods of a class are: row → count."""
        return self._placed.get(pod_class, {})

    def placed_classes(self, trait: Trait) -> tuple[PodClass, ...]:
        """Return the classes with a trait that have or had pods on nodes; the same tuple until there is another class."""
        seen, found = self._by_trait.get(trait, (0, ()))
        if seen < len(self._placed):
            found += tuple(pod_class for pod_class in islice(self._placed, seen, None) if trait(pod_class))
            self._by_trait[trait] = (len(self._placed), found)
        return found

    def placed_by(self, marks: Marks) -> Mapping[Hashable, tuple[PodClass, ...]]:
        """Return the classes that have or had pods on nodes, by mark; the same mapping until there is another class."""
        seen, found = self._by_mark.get(marks, (0, {}))
        if seen < len(self._placed):
            fresh = [(mark, other) for other in islice(self._placed, seen, None) for mark in marks(other)]
            found = found.copy() if fresh else found
            for mark, other in fresh:
                found[mark] = (*found.get(mark, ()), other)
            self._by_mark[marks] = (len(self._placed), found)
        return found

    @property
    def guarded(self) -> tuple[PodClass, ...]:
        """Return the classes with required anti-affinity that have or had pods on nodes."""
        return self.placed_classes(_IS_GUARDED)

    def request_row(self, pod_class: PodClass, *, placed: bool = False) -> Ints:
        """Return what one incoming (or ``placed``) pod adds to a row of ``used``."""
        key = "placed_row" if placed else "request_row"
        known: Ints | None = pod_class.compiled.get(key)
        resources = self.vocabulary.resources
        if known is None or len(known) < len(resources):
            requests = pod_class.placed_requests if placed else pod_class.requests
            for name in requests:
                resources.setdefault(name, len(resources))
            known = np.zeros(len(resources), dtype=np.int64)
            known[0] = 1
            for name, amount in requests.items():
                known[resources[name]] = amount
            pod_class.compiled[key] = known
        self.widen()
        return known

    # Counts per domain

    def domain_counts(self, query: DomainQuery) -> DomainCounts:
        """Return the counts of a query. Read them only, and only until the snapshot changes."""
        held = self._counts.get(query)
        if held is None:
            held = self._counts[query] = self._counted(query)
            self._owned_counts.add(query)
        if held.is_behind(len(self), len(self._departed)):
            held = self._own_counts(query)
            held.follow(query.domains(self), self.alive, self._departed)
        return held

    def _counted(self, query: DomainQuery) -> DomainCounts:
        counts, domains = DomainCounts(), query.domains(self)
        for pod_class in self._candidates(query):
            rows, weight = self._placed[pod_class], query.weight(pod_class)
            if rows and weight:
                places = np.fromiter(rows, dtype=np.int64, count=len(rows))
                pods = np.fromiter(rows.values(), dtype=np.int64, count=len(rows))
                counts.add_many(domains[places], pods * weight)
        return counts

    def _candidates(self, query: DomainQuery) -> Iterable[PodClass]:
        """Return placed classes that include all classes that a query counts."""
        if query.shortlist is None:
            return self._placed
        index = self.placed_by(query.shortlist.marks)
        return {pod_class for mark in query.shortlist.wanted for pod_class in index.get(mark, ())}

    def _count(self, pod_class: PodClass, row: int, count: int) -> None:
        for query in self._watchers(pod_class):
            domain = int(query.domains(self)[row])
            self._own_counts(query).add_pods(domain, count * query.weight(pod_class))

    def _watchers(self, pod_class: PodClass) -> tuple[DomainQuery, ...]:
        """Return the queries that count pods of a class."""
        seen, found = self._watching.get(pod_class, (0, ()))
        if seen < len(self._counts):
            found += tuple(query for query in islice(self._counts, seen, None) if query.weight(pod_class))
            self._watching[pod_class] = (len(self._counts), found)
        return found

    def _own_counts(self, query: DomainQuery) -> DomainCounts:
        counts = self._counts[query]
        if query not in self._owned_counts:
            counts = self._counts[query] = counts.copy()
            self._owned_counts.add(query)
        return counts

    def _forget_empty(self) -> None:
        """Drop classes without pods. In a long-lived snapshot most classes have no pods any more."""
        self._placed = {pod_class: rows for pod_class, rows in self._placed.items() if rows}
        self._owned.intersection_update(self._placed)
        self._by_trait, self._by_mark, self._watching, self._emptied = {}, {}, {}, 0

    def _own_rows(self, pod_class: PodClass) -> dict[int, int]:
        if pod_class not in self._owned:
            self._placed[pod_class] = dict(self._placed.get(pod_class, ()))
            self._owned.add(pod_class)
        return self._placed[pod_class]


def _at(held: Sequence[T], places: Iterable[int]) -> tuple[T, ...]:
    return tuple([held[place] for place in places])
