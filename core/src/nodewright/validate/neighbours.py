"""Do pods keep each other away once all has moved? Required anti-affinity, by whatever label makes the domain."""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from nodewright.model.node import Node
from nodewright.model.pod import Pod, PodAffinityTerm
from nodewright.snapshot.snapshot import Snapshot
from nodewright.validate.kinds import Kind
from nodewright.validate.movable import is_selected


class Arrival(NamedTuple):
    """A pod that moves to a node."""

    pod: Pod
    kind: Kind
    node: Node


class _Alike:
    """Pods that no scheduler tells apart, and the nodes on which they are; ``pod`` stands for them."""

    def __init__(self, pod: Pod, there: Callable[[], Iterable[Node]] = tuple) -> None:
        self.pod = pod
        self._there = there
        self._came: list[Node] = []
        # The values of a label on those nodes, once somebody has asked.
        self._domains: dict[str, set[str]] = {}

    def add(self, node: Node) -> None:
        self._came.append(node)
        for key, values in self._domains.items():
            values.update(_values(key, (node,)))

    def is_near(self, node: Node, keys: Iterable[str]) -> bool:
        """Whether any of them is in the node's domain by one of these labels."""
        return any(not self._domain(key).isdisjoint(_values(key, (node,))) for key in keys)

    def _domain(self, key: str) -> set[str]:
        if key not in self._domains:
            self._domains[key] = _values(key, chain(self._there(), self._came))
        return self._domains[key]


class Neighbours:
    """Pods on nodes that stay, and those that come there. ``gone`` are the other nodes."""

    def __init__(self, snapshot: Snapshot, gone: Collection[str]) -> None:
        self._snapshot = snapshot
        self._gone = gone
        self._all = [_Alike(held.pod, partial(self._staying, rows)) for held, rows in snapshot.placements()]
        self._shy = [alike for alike in self._all if _terms(alike.pod)]
        self._come: dict[Kind, _Alike] = {}
        # Of a kind: how many of the others were looked at, and to which of them it must not be near by which labels.
        self._foes: dict[Kind, tuple[int, list[tuple[_Alike, list[str]]]]] = {}

    @property
    def are_shy(self) -> bool:
        """Whether anybody keeps anybody away."""
        return bool(self._shy)

    def conflicts(self, arrivals: Iterable[Arrival]) -> Iterator[tuple[Pod, str]]:
        """Each pod that would come where another one keeps it away, or the other way round."""
        for pod, kind, node in arrivals:
            other = next((other for other, keys in self._foes_of(kind) if other.is_near(node, keys)), None)
            if other is not None:
                yield pod, f"it would be too near to pods like {other.pod.key}, on node {node.name}"
            if kind not in self._come:
                self._come[kind] = alike = _Alike(pod)
                self._all.append(alike)
                self._shy += [alike] if _terms(pod) else []
            self._come[kind].add(node)

    def _foes_of(self, kind: Kind) -> list[tuple[_Alike, list[str]]]:
        others = self._all if _terms(kind.pod) else self._shy
        seen, found = self._foes.get(kind, (0, []))
        if seen < len(others):
            asked = ((other, _keys(kind.pod, other.pod)) for other in islice(others, seen, None))
            found += [(other, keys) for other, keys in asked if keys]
            self._foes[kind] = (len(others), found)
        return found

    def _staying(self, rows: Iterable[int]) -> Iterator[Node]:
        nodes = (self._snapshot.node(row) for row in rows)
        return (node for node in nodes if node.name not in self._gone)


def _values(key: str, nodes: Iterable[Node]) -> set[str]:
    """What the nodes say of a label, where they have it."""
    return {node.metadata.labels[key] for node in nodes if key in node.metadata.labels}


def _keys(pod: Pod, other: Pod) -> list[str]:
    """By which labels they must not be near each other."""
    keys = [term.topology_key for term in _terms(pod) if _is_about(term, pod, other)]
    return keys + [term.topology_key for term in _terms(other) if _is_about(term, other, pod)]


def _terms(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity
    anti = affinity.pod_anti_affinity if affinity is not None else None
    return anti.required if anti is not None else ()


def _is_about(term: PodAffinityTerm, owner: Pod, pod: Pod) -> bool:
    """Whether the term of one pod speaks of another. Namespaces that are told by their labels are not looked up."""
    everywhere = term.namespace_selector is not None and not (
        term.namespace_selector.match_labels or term.namespace_selector.match_expressions
    )
    own = (owner.metadata.namespace,) if term.namespace_selector is None else ()
    named = pod.metadata.namespace in (term.namespaces or own)
    return (everywhere or named) and is_selected(term.label_selector, pod.metadata.labels)
