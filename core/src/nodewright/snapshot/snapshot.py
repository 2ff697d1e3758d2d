"""The forkable picture of a cluster: nodes as columns, pods as counts per class and node."""

from collections.abc import Callable, Iterator

import numpy as np

from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.snapshot.column import Ints, Mask
from nodewright.snapshot.context import Context
from nodewright.snapshot.domains import DomainCounts, DomainQuery, Placements
from nodewright.snapshot.node_table import NodeTable
from nodewright.snapshot.pod_class import PodClass

# Which of the nodes in a window take part in a count; depends on those nodes alone.
Participation = Callable[["Snapshot", slice], Mask]


class Snapshot(NodeTable):
    """Nodes and the pods on them. A fork shares everything until it, or its parent, writes."""

    def __init__(self, context: Context | None = None) -> None:
        super().__init__()
        self.context = context or Context()
        self._placed: dict[PodClass, dict[int, int]] = {}
        # Classes whose row → count map is ours alone; others are shared with a fork and copied before a write.
        self._owned: set[PodClass] = set()
        self._guarded: tuple[PodClass, ...] = ()
        self._pods: dict[int, tuple[Pod, ...]] = {}
        self._counts: dict[DomainQuery, tuple[DomainCounts, Participation | None]] = {}

    def fork(self) -> "Snapshot":
        """A picture that starts equal and goes its own way."""
        forked = Snapshot.__new__(Snapshot)
        self._fork_table(forked)
        forked.context = self.context
        forked._placed, forked._owned = self._placed.copy(), set()
        self._owned = set()
        forked._guarded = self._guarded
        forked._pods = self._pods.copy()
        forked._counts = {query: (counts.fork(), part) for query, (counts, part) in self._counts.items()}
        return forked

    def class_of(self, pod: Pod, *, placed: bool = False) -> PodClass:
        return self.vocabulary.classes.of(pod, placed=placed)

    # Nodes

    def add_nodes(self, nodes: list[Node]) -> slice:
        """Append nodes without pods; answers their rows. Their names must be new."""
        window = self.append_nodes(nodes)
        self._join_counts(window)
        return window

    def add_node(self, node: Node) -> int:
        """Append one node; answers its row."""
        row = len(self)
        self.add_nodes([node])
        return row

    def add_copies(self, template: Node, count: int) -> slice:
        """Append copies of a template node, each with a name and hostname of its own."""
        window = self.append_copies(template, count)
        self._join_counts(window)
        return window

    def remove_node(self, row: int) -> None:
        """Take a node and its pods away; the row stays, dead."""
        for pod_class in [held for held, rows in self._placed.items() if row in rows]:
            self.unplace(pod_class, row, self._placed[pod_class][row])
        self._pods.pop(row, None)
        window = slice(row, row + 1)
        for counts, participation in self._counts.values():
            part = participation(self, window) if participation else None
            counts.add_nodes(self.labels(counts.query.key)[window], part, sign=-1)
        self._alive.writable[row] = False
        if self._rows_shared:
            self._rows, self._rows_shared = self._rows.copy(), False
        self._rows.pop(self.name(row), None)

    # Pods

    def place(self, pod_class: PodClass, row: int, count: int = 1, pod: Pod | None = None) -> None:
        """Put pods on a node, asking no predicate; ``pod`` remembers which one."""
        rows = self._own_rows(pod_class)
        rows[row] = rows.get(row, 0) + count
        amounts = self.request_row(pod_class, placed=True)
        self._used.writable[row] += count * amounts
        if pod is not None:
            self._pods[row] = (*self._pods.get(row, ()), pod)
        self._count(pod_class, row, count)

    def place_many(self, pod_class: PodClass, rows: Ints, counts: Ints) -> None:
        """``place`` on many distinct nodes at once."""
        held = self._own_rows(pod_class)
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            held[row] = held.get(row, 0) + count
        amounts = self.request_row(pod_class, placed=True)
        self._used.writable[rows] += counts[:, None] * amounts
        if self._counts:
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                self._count(pod_class, row, count)

    def unplace(self, pod_class: PodClass, row: int, count: int = 1, pod: Pod | None = None) -> None:
        """The reverse of ``place``; so many pods of the class must be there."""
        rows = self._own_rows(pod_class)
        rows[row] -= count
        if not rows[row]:
            del rows[row]
        amounts = self.request_row(pod_class, placed=True)
        self._used.writable[row] -= count * amounts
        if pod is not None:
            self._pods[row] = tuple(other for other in self._pods[row] if other is not pod)
        self._count(pod_class, row, -count)

    def pods(self, row: int) -> tuple[Pod, ...]:
        """The known pods of a node, in the order in which they came."""
        return self._pods.get(row, ())

    def placements(self) -> Iterator[tuple[PodClass, Placements]]:
        """Every class that has pods on nodes, with row → how many."""
        return ((pod_class, rows) for pod_class, rows in self._placed.items() if rows)

    @property
    def guarded(self) -> tuple[PodClass, ...]:
        """Classes with required anti-affinity that have, or had, pods on nodes: they keep others away."""
        return self._guarded

    def request_row(self, pod_class: PodClass, *, placed: bool = False) -> Ints:
        """What one pod adds to a row of ``used``: as an incoming pod, or as one that runs."""
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

    # Counts per topology domain

    def domain_counts(self, query: DomainQuery, participation: Participation | None = None) -> DomainCounts:
        """Counts for a query, kept current from now on. ``participation`` restricts the nodes that count."""
        held = self._counts.get(query)
        if held is None:
            part = self.alive if participation is None else self.alive & participation(self, slice(0, len(self)))
            counts = DomainCounts(query)
            domains = self.labels(query.key)
            counts.add_nodes(domains, part)
            for pod_class, rows in self.placements():
                if query.matcher.matches(pod_class, self.context):
                    for row, count in rows.items():
                        if part[row] and domains[row] >= 0:
                            counts.add_pods(int(domains[row]), count)
            self._counts[query] = held = (counts, participation)
        return held[0]

    def _join_counts(self, window: slice) -> None:
        for counts, participation in self._counts.values():
            part = participation(self, window) if participation else None
            counts.add_nodes(self.labels(counts.query.key)[window], part)

    def _count(self, pod_class: PodClass, row: int, count: int) -> None:
        for query, (counts, participation) in self._counts.items():
            if query.matcher.matches(pod_class, self.context):
                domain = int(self.labels(query.key)[row])
                if domain >= 0 and (participation is None or participation(self, slice(row, row + 1))[0]):
                    counts.add_pods(domain, count)

    def _own_rows(self, pod_class: PodClass) -> dict[int, int]:
        if pod_class not in self._owned:
            if pod_class.has_anti_affinity and pod_class not in self._placed:
                self._guarded = (*self._guarded, pod_class)
            self._placed[pod_class] = dict(self._placed.get(pod_class, ()))
            self._owned.add(pod_class)
        return self._placed[pod_class]
