"""The pods of nodes by kind: what neither the scheduler nor the rules of draining tell apart is looked at once."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import compress, groupby
from weakref import WeakValueDictionary

from nodewright.model.pod import Pod
from nodewright.planner.scale_down.drain_rules import ANNOTATIONS, SYSTEM_NAMESPACE
from nodewright.snapshot.pod_class import PodClass, PodClasses
from nodewright.snapshot.snapshot import Snapshot

# Kinds of owners that make another pod as soon as one is ending.
_REPLACING = ("ReplicaSet", "ReplicationController")


class PodKind:
    """Pods of one class about which the rules of draining say the same; ``pod`` stands for them.

    Compared by identity; there is one of each as long as somebody speaks of it.
    """

    __slots__ = ("__weakref__", "pod", "pod_class", "priority")

    def __init__(self, pod: Pod, pod_class: PodClass) -> None:
        self.pod = pod
        self.pod_class = pod_class
        self.priority = pod.spec.priority or 0


class Load:
    """Pods in the order of their node, and the kind of each; ``variety`` is all kinds among them."""

    __slots__ = ("kinds", "pods", "variety")

    def __init__(
        self, pods: Sequence[Pod] = (), kinds: Sequence[PodKind] = (), variety: frozenset[PodKind] | None = None
    ) -> None:
        self.pods = pods
        self.kinds = kinds
        self.variety = variety if variety is not None else frozenset(kinds)

    def part(self, start: int, stop: int) -> "Load":
        """Those from one place to another."""
        whole = start == 0 and stop >= len(self.pods)
        return self if whole else Load(self.pods[start:stop], self.kinds[start:stop])

    def only(self, wanted: frozenset[PodKind] | set[PodKind]) -> "Load":
        """Those of some kinds."""
        if self.variety <= wanted:
            return self
        if self.variety.isdisjoint(wanted):
            return Load()
        chosen = [kind in wanted for kind in self.kinds]
        return Load(tuple(compress(self.pods, chosen)), tuple(compress(self.kinds, chosen)))

    def with_others(self, pods: Sequence[Pod], kinds: Sequence[PodKind]) -> "Load":
        """These and others after them."""
        return Load([*self.pods, *pods], [*self.kinds, *kinds], self.variety.union(kinds))

    def runs(self) -> Iterator[tuple[PodClass, "Load"]]:
        """The pods in order, as many together as follow each other and are of one class."""
        if len(self.variety) == 1:
            yield self.kinds[0].pod_class, self
            return
        start = 0
        for pod_class, alike in groupby(kind.pod_class for kind in self.kinds):
            stop = start + sum(1 for _ in alike)
            yield pod_class, self.part(start, stop)
            start = stop


def find_loads(snapshot: Snapshot, rows: Iterable[int]) -> list[Load]:
    """The known pods of nodes; those of a node are sorted again only if they change."""
    return snapshot.of_pods(Load, rows, partial(sort_pods, snapshot.vocabulary.classes))


def sort_pods(classes: PodClasses, pods: Sequence[Pod]) -> Load:
    """Pods with the kind of each."""
    known: dict[Hashable, PodKind] = {}
    found: list[PodKind] = []
    for pod in pods:
        pod_class, meta = classes.of(pod, placed=True), pod.metadata
        parts = (pod_class, id(meta.annotations), id(meta.owner_references), pod.status.phase)
        kind = known.get(parts)
        if kind is None:
            kind = _find_kind(pod, pod_class)
            if not _is_judged_by_its_times(pod_class):
                known[parts] = kind
        found.append(kind)
    return Load(pods, found)


_KINDS: WeakValueDictionary[Hashable, PodKind] = WeakValueDictionary()


def _find_kind(pod: Pod, pod_class: PodClass) -> PodKind:
    meta = pod.metadata
    own = id(pod) if _is_judged_by_its_times(pod_class) else 0
    said = tuple(map(meta.annotations.get, ANNOTATIONS))
    key = (pod_class.id, own, pod.status.phase, meta.controller, said)
    kind = _KINDS.get(key)
    if kind is None:
        kind = _KINDS[key] = PodKind(pod, pod_class)
    return kind


def _is_judged_by_its_times(pod_class: PodClass) -> bool:
    """Whether rules ask when a pod came or was deleted: such a pod is of a kind of its own."""
    return pod_class.terminating or pod_class.namespace == SYSTEM_NAMESPACE


def is_replaced(pod: Pod) -> bool:
    """Is it ending, and of a controller that makes another one at once? A StatefulSet waits until the first is gone."""
    owner = pod.metadata.controller
    return pod.metadata.deletion_timestamp is not None and owner is not None and owner.kind in _REPLACING
