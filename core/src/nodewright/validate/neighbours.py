"""Do pods keep each other away once all has moved? Required anti-affinity, by whatever label makes the domain."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from nodewright.model.node import Node
from nodewright.model.pod import Pod, PodAffinityTerm
from nodewright.snapshot.snapshot import Snapshot
from nodewright.validate.movable import is_selected


class Arrival(NamedTuple):
    """A pod that moves to a node."""

    pod: Pod
    node: Node


class _Alike(NamedTuple):
    """Pods that no scheduler tells apart, and the nodes on which they are."""

    pod: Pod
    nodes: Callable[[], Iterable[Node]]


class Neighbours:
    """Pods on nodes that stay. ``gone`` are the others."""

    def __init__(self, snapshot: Snapshot, gone: Collection[str]) -> None:
        self._snapshot = snapshot
        self._gone = gone
        self._alike = [_Alike(held.pod, partial(self._staying, rows)) for held, rows in snapshot.placements()]
        self._shy = [alike for alike in self._alike if _terms(alike.pod)]

    def conflicts(self, arrivals: Sequence[Arrival]) -> Iterator[tuple[Pod, str]]:
        """Each pod that would come where another one keeps it away, or the other way round."""
        come: list[_Alike] = []
        shy: list[_Alike] = []
        for pod, node in arrivals:
            is_shy = bool(_terms(pod))
            others = chain(self._alike, come) if is_shy else chain(self._shy, shy)
            other = next((other for other in others if _clash(pod, node, other)), None)
            if other is not None:
                yield pod, f"it would be too near to pods like {other.pod.key}, on node {node.name}"
            come.append(_Alike(pod, partial(_only, node)))
            if is_shy:
                shy.append(come[-1])

    def _staying(self, rows: Iterable[int]) -> Iterator[Node]:
        nodes = (self._snapshot.node(row) for row in rows)
        return (node for node in nodes if node.name not in self._gone)


def _only(node: Node) -> tuple[Node, ...]:
    return (node,)


def _clash(pod: Pod, node: Node, other: _Alike) -> bool:
    keys = [term.topology_key for term in _terms(pod) if _is_about(term, pod, other.pod)]
    keys += [term.topology_key for term in _terms(other.pod) if _is_about(term, other.pod, pod)]
    here = node.metadata.labels
    return any(
        key in here and any(there.metadata.labels.get(key) == here[key] for there in other.nodes()) for key in keys
    )


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
