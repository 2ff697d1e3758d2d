"""The pods of one node, with values that are computed from them once and cached until the pods change; places of pods.

Pods lie far apart in memory: a pass over them costs more than the computation itself.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

from nodewright.model.pod import Pod
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

T = TypeVar("T")
SYSTEM_NAMESPACE = "kube-system"


class PodRepresentative(NamedTuple):
    """A pod that stands for all pods of its class and phase with the same annotations and owners."""

    pod: Pod
    pod_class: PodClass


class NodePods:
    """Pods of one node, in order; ``which[i]`` is the index in ``representatives`` of the representative of ``pods[i]``.

    Pods that rules judge by their times (terminating pods and system pods) each represent only themselves.
    """

    def __init__(self, classes: Sequence[PodClass], pods: Sequence[Pod]) -> None:
        self.pods = pods
        self.representatives: list[PodRepresentative] = []
        self.which: list[int] = []
        self._known: dict[object, Any] = {}
        metas = [pod.metadata for pod in pods]
        parts = (
            classes,
            [id(meta.annotations) for meta in metas],
            [id(meta.owner_references) for meta in metas],
            [pod.status.phase for pod in pods],
        )
        own = {pod_class for pod_class in set(classes) if is_judged_by_its_times(pod_class)}
        if not own and all(len(set(part)) == 1 for part in parts):
            self.representatives, self.which = [PodRepresentative(pods[0], classes[0])], [0] * len(pods)
            return
        places: dict[Hashable, int] = {}
        for pod, part in zip(pods, zip(*parts, strict=True), strict=True):
            place = places.setdefault(id(pod) if part[0] in own else part, len(places))
            self.which.append(place)
            if place == len(self.representatives):
                self.representatives.append(PodRepresentative(pod, part[0]))

    def once(self, compute: Callable[["NodePods"], T]) -> T:
        """Return ``compute(self)``, computed once; it must depend on nothing else."""
        if compute not in self._known:
            self._known[compute] = compute(self)
        found: T = self._known[compute]
        return found

    @cached_property
    def keys(self) -> list[str]:
        """Return the ``namespace/name`` of each pod."""
        return [pod.key for pod in self.pods]

    @cached_property
    def ids(self) -> list[str]:
        """Return the uid of each pod or, without one, its key."""
        return [pod.metadata.uid or pod.key for pod in self.pods]


def is_judged_by_its_times(pod_class: PodClass) -> bool:
    """Return whether rules depend on when pods of the class were created or deleted."""
    return pod_class.terminating or pod_class.namespace == SYSTEM_NAMESPACE


def find_node_pods(snapshot: Snapshot, rows: Iterable[int]) -> list[NodePods]:
    """Return the pods of nodes; computed again only for nodes whose pods changed."""
    return [snapshot.of_pods(NodePods, (row,), partial(NodePods, snapshot.pod_classes(row)))[0] for row in rows]


class PodDestinations(Mapping[str, str]):
    """The name of a node for each pod (its uid, or ``namespace/name``).

    Stored per NodePods, in the order of its pods (empty: no place), so that unchanged nodes need no pass over their pods.
    """

    def __init__(self, places: Mapping[NodePods, Sequence[str]] | None = None) -> None:
        self._by_node = places or {}

    def __bool__(self) -> bool:
        return any(any(places) for places in self._by_node.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __getitem__(self, known_as: str) -> str:
        return self._by_id[known_as]

    def of(self, node_pods: NodePods) -> Sequence[str]:
        """Return the place of each pod of a node; empty: no place."""
        found = self._by_node.get(node_pods)
        return found if found is not None else [self._by_id.get(known_as, "") for known_as in node_pods.ids]

    def updated(self, later: "PodDestinations") -> "PodDestinations":
        """Return these places, updated with later ones."""
        both = {
            node_pods: [new or old for new, old in zip(later.of(node_pods), self.of(node_pods), strict=True)]
            for node_pods in self._by_node
        }
        return PodDestinations({**later._by_node, **both})

    @cached_property
    def _by_id(self) -> dict[str, str]:
        return {
            known_as: place
            for node_pods, places in self._by_node.items()
            for known_as, place in zip(node_pods.ids, places, strict=True)
            if place
        }
