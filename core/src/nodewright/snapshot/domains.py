"""Counts of pods per domain, kept up to date as pods are placed."""

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from nodewright.snapshot.column import Ids, Ints, Mask
from nodewright.snapshot.node_table import NodeTable
from nodewright.snapshot.pod_class import PodClass

# Per row the domain of the node, negative where it takes no part; depends on the nodes alone.
Domains = Callable[[NodeTable], Ids]
# How much one pod of a class counts for; 0: not at all.
Weigh = Callable[[PodClass], int]
# What a class can be found by.
Marks = Callable[[PodClass], Collection[Hashable]]


class Shortlist(NamedTuple):
    """Only classes with one of the ``wanted`` marks can count. This excludes most classes without further checks."""

    marks: Marks
    wanted: frozenset[Hashable]


def labels_of(pod_class: PodClass) -> Collection[Hashable]:
    """Return the labels of a class as marks."""
    return pod_class.labels.items()


class DomainQuery:
    """A definition of what to count: pods by weight, per domain of their node. Compared by identity.

    Predicates make one query per pod class and term and get its counts from the snapshot. The weight of a class and the
    domain of a node never change for a query; if they would, the predicate makes a new query.
    """

    __slots__ = ("_weigh", "_weights", "domains", "shortlist")

    def __init__(self, domains: Domains, weigh: Weigh, shortlist: Shortlist | None = None) -> None:
        self.domains = domains
        self.shortlist = shortlist
        self._weigh = weigh
        # By class id, so that the weights do not keep a class alive.
        self._weights: dict[int, int] = {}

    def weight(self, pod_class: PodClass) -> int:
        """Return the weight of one pod of the class; 0: it does not count."""
        short = self.shortlist
        if short is not None and short.wanted.isdisjoint(short.marks(pod_class)):
            return 0
        known = self._weights.get(pod_class.id)
        if known is None:
            known = self._weights[pod_class.id] = int(self._weigh(pod_class))
        return known


class DomainCounts:
    """The counts of one query over the nodes that take part in it.

    ``pods[d]`` sums the pods in domain ``d``; ``nodes[d]`` counts nodes: a domain exists where that is positive.
    The arrays are longer than there are domains, and their last entry is always 0.
    """

    __slots__ = ("_departures", "_rows", "nodes", "pods", "total")

    def __init__(self) -> None:
        self.pods: Ints = np.zeros(16, dtype=np.int64)
        self.nodes: Ints = np.zeros(16, dtype=np.int64)
        self.total = 0
        self._rows = self._departures = 0

    def copy(self) -> "DomainCounts":
        copied = DomainCounts()
        copied.pods, copied.nodes, copied.total = self.pods.copy(), self.nodes.copy(), self.total
        copied._rows, copied._departures = self._rows, self._departures
        return copied

    def is_behind(self, rows: int, departures: int) -> bool:
        """Return whether nodes were added or removed since the last ``follow``."""
        return self._rows < rows or self._departures < departures

    def follow(self, domains: Ids, alive: Mask, departed: Sequence[int]) -> None:
        """Count nodes that were added or removed; ``departed`` lists all rows ever removed, in order."""
        left = [row for row in departed[self._departures :] if row < self._rows]
        self._add_nodes(domains[left], -1)
        self._add_nodes(domains[self._rows :][alive[self._rows :]], 1)
        self._rows, self._departures = len(domains), len(departed)

    def add_pods(self, domain: int, weight: int) -> None:
        """Count pods placed on (negative: taken from) a node of a domain."""
        if domain >= 0:
            self._reserve(domain)
            self.pods[domain] += weight
            self.total += weight

    def add_many(self, domains: Ids, weights: Ints) -> None:
        """Do as ``add_pods`` does, on many nodes at once."""
        counted = domains >= 0
        joining = domains[counted]
        if len(joining):
            self._reserve(int(joining.max()))
            np.add.at(self.pods, joining, weights[counted])
            self.total += int(weights[counted].sum())

    def pods_at(self, domains: Ids) -> Ints:
        """Return the number of pods in each of these domains; 0 for a negative domain."""
        try:
            found: Ints = self.pods.take(domains)
        except IndexError:
            self._reserve(int(domains.max()))
            found = self.pods.take(domains)
        return found

    def pods_in(self, domain: int) -> int:
        """Return the number of pods in one domain; 0 for a negative domain."""
        return int(self.pods[domain]) if domain < len(self.pods) else 0

    def _add_nodes(self, domains: Ids, sign: int) -> None:
        joining = domains[domains >= 0]
        if len(joining):
            self._reserve(int(joining.max()))
            np.add.at(self.nodes, joining, sign)

    def _reserve(self, domain: int) -> None:
        """Make the arrays long enough for a domain and the zero after it, which index -1 finds."""
        size = len(self.pods)
        if domain + 1 >= size:
            room: Ints = np.zeros(max(domain + 2 - size, size // 2), dtype=np.int64)
            self.pods = np.concatenate([self.pods, room])
            self.nodes = np.concatenate([self.nodes, room])
