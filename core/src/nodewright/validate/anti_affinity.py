"""Check required pod anti-affinity after all planned moves, for any topology label."""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from nodewright.model.node import Node
from nodewright.model.pod import Pod, PodAffinityTerm
from nodewright.snapshot.snapshot import Snapshot
from nodewright.validate.movable import is_selected
from nodewright.validate.pod_profiles import PodProfile


class Arrival(NamedTuple):
    """A pod that moves to a node."""

    pod: Pod
    profile: PodProfile
    node: Node


class _EquivalentPods:
    """Pods that are equal to a scheduler, and the nodes on which they run; ``pod`` represents them."""

    def __init__(self, pod: Pod, staying: Callable[[], Iterable[Node]] = tuple) -> None:
        self.pod = pod
        self._staying = staying
        self._arrived: list[Node] = []
        # Label key → its values on those nodes, computed on demand.
        self._domains: dict[str, set[str]] = {}

    def add(self, node: Node) -> None:
        self._arrived.append(node)
        for key, values in self._domains.items():
            values.update(_values(key, (node,)))

    def is_near(self, node: Node, keys: Iterable[str]) -> bool:
        """Return whether one of the pods is in the same topology domain as the node, for one of the labels ``keys``."""
        return any(not self._domain(key).isdisjoint(_values(key, (node,))) for key in keys)

    def _domain(self, key: str) -> set[str]:
        if key not in self._domains:
            self._domains[key] = _values(key, chain(self._staying(), self._arrived))
        return self._domains[key]


class AntiAffinityCheck:
    """The pods on nodes that stay, and the pods that move there. ``gone`` are the names of the removed nodes."""

    def __init__(self, snapshot: Snapshot, gone: Collection[str]) -> None:
        self._snapshot = snapshot
        self._gone = gone
        self._all = [_EquivalentPods(held.pod, partial(self._staying, rows)) for held, rows in snapshot.placements()]
        self._with_terms = [pods for pods in self._all if _terms(pods.pod)]
        self._arrivals: dict[PodProfile, _EquivalentPods] = {}
        # Profile → how many other pods it was compared with, and those that conflict with it, with the topology labels.
        self._conflicting: dict[PodProfile, tuple[int, list[tuple[_EquivalentPods, list[str]]]]] = {}

    @property
    def any_terms(self) -> bool:
        """Return whether any pod has a required anti-affinity term."""
        return bool(self._with_terms)

    def conflicts(self, arrivals: Iterable[Arrival]) -> Iterator[tuple[Pod, str]]:
        """Yield each pod whose new node violates its anti-affinity or that of another pod, with the reason."""
        for pod, profile, node in arrivals:
            other = next((other for other, keys in self._conflicting_with(profile) if other.is_near(node, keys)), None)
            if other is not None:
                yield pod, f"on node {node.name} it would violate anti-affinity with pods like {other.pod.key}"
            if profile not in self._arrivals:
                self._arrivals[profile] = pods = _EquivalentPods(pod)
                self._all.append(pods)
                self._with_terms += [pods] if _terms(pod) else []
            self._arrivals[profile].add(node)

    def _conflicting_with(self, profile: PodProfile) -> list[tuple[_EquivalentPods, list[str]]]:
        others = self._all if _terms(profile.pod) else self._with_terms
        seen, found = self._conflicting.get(profile, (0, []))
        if seen < len(others):
            asked = ((other, _keys(profile.pod, other.pod)) for other in islice(others, seen, None))
            found += [(other, keys) for other, keys in asked if keys]
            self._conflicting[profile] = (len(others), found)
        return found

    def _staying(self, rows: Iterable[int]) -> Iterator[Node]:
        nodes = (self._snapshot.node(row) for row in rows)
        return (node for node in nodes if node.name not in self._gone)


def _values(key: str, nodes: Iterable[Node]) -> set[str]:
    """Return the values of a label on the nodes that have it."""
    return {node.metadata.labels[key] for node in nodes if key in node.metadata.labels}


def _keys(pod: Pod, other: Pod) -> list[str]:
    """Return the topology labels by which two pods must not be near each other."""
    keys = [term.topology_key for term in _terms(pod) if _is_about(term, pod, other)]
    return keys + [term.topology_key for term in _terms(other) if _is_about(term, other, pod)]


def _terms(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity
    anti = affinity.pod_anti_affinity if affinity is not None else None
    return anti.required if anti is not None else ()


def _is_about(term: PodAffinityTerm, owner: Pod, pod: Pod) -> bool:
    """Return whether one pod's term selects another pod. Namespace selectors that are not empty are not evaluated."""
    everywhere = term.namespace_selector is not None and not (
        term.namespace_selector.match_labels or term.namespace_selector.match_expressions
    )
    own = (owner.metadata.namespace,) if term.namespace_selector is None else ()
    named = pod.metadata.namespace in (term.namespaces or own)
    return (everywhere or named) and is_selected(term.label_selector, pod.metadata.labels)
