"""Counts of pods per topology domain, kept up to date as pods are placed."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from nodewright.snapshot.column import Ids, Ints, Mask
from nodewright.snapshot.context import Context
from nodewright.snapshot.pod_class import PodClass

Placements = Mapping[int, int]


class PodMatcher(Protocol):
    """Which pods are counted."""

    def matches(self, pod_class: PodClass, context: Context) -> bool:
        """Whether pods of this class are counted."""


class DomainQuery:
    """What is counted: pods that match, per value of a topology key. Compared by identity.

    Predicates make one per pod class and term, and ask the snapshot for its counts.
    """

    __slots__ = ("key", "matcher")

    def __init__(self, key: str, matcher: PodMatcher) -> None:
        self.key = key
        self.matcher = matcher


class DomainCounts:
    """The counts of one query over the nodes that take part in it.

    ``pods[d]`` counts pods in domain ``d``; ``nodes[d]`` counts participating nodes: a domain exists where
    that is positive.
    """

    __slots__ = ("_shared", "nodes", "pods", "query")

    def __init__(self, query: DomainQuery) -> None:
        self.query = query
        self.pods: Ints = np.zeros(0, dtype=np.int64)
        self.nodes: Ints = np.zeros(0, dtype=np.int64)
        self._shared = False

    def fork(self) -> "DomainCounts":
        forked = DomainCounts(self.query)
        forked.pods, forked.nodes = self.pods, self.nodes
        self._shared = forked._shared = True
        return forked

    def add_nodes(self, domains: Ids, participating: Mask | None, sign: int = 1) -> None:
        """Let nodes join (or leave): their domain ids, negative where a node lacks the key."""
        joining = domains[domains >= 0] if participating is None else domains[participating & (domains >= 0)]
        if len(joining):
            self._own(int(joining.max()) + 1)
            np.add.at(self.nodes, joining, sign)

    def add_pods(self, domain: int, count: int) -> None:
        """Count pods placed on (negative: taken from) a participating node of a domain."""
        self._own(domain + 1)
        self.pods[domain] += count

    def pods_at(self, domains: Ids) -> Ints:
        """Pods in the domain of each node; 0 where a node lacks the key."""
        self._own(int(domains.max(initial=-1)) + 1)
        counts: Ints = np.where(domains >= 0, self.pods[domains] if len(self.pods) else 0, 0)
        return counts

    def _own(self, size: int) -> None:
        """Make the arrays ours and long enough for ``size`` domains."""
        if size > len(self.pods):
            room = max(size, len(self.pods) + len(self.pods) // 2)
            self.pods = np.concatenate([self.pods, np.zeros(room - len(self.pods), dtype=np.int64)])
            self.nodes = np.concatenate([self.nodes, np.zeros(room - len(self.nodes), dtype=np.int64)])
        elif self._shared:
            self.pods, self.nodes = self.pods.copy(), self.nodes.copy()
        self._shared = False
