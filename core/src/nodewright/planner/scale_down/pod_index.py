"""The pods of nodes, by number and kind, and their places in a simulation.

Pods that kube-scheduler and the drain rules treat alike are one kind. Each result is computed once per kind.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import groupby, repeat
from operator import attrgetter
from weakref import WeakValueDictionary

from nodewright.model.gang import VOLCANO_ANNOTATION
from nodewright.model.pod import (
    DAEMONSET_POD_ANNOTATION,
    MIRROR_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    SAFE_TO_EVICT_LOCAL_VOLUMES_ANNOTATION,
    Pod,
)
from nodewright.snapshot.node_pods import NodePods, PodDestinations, find_node_pods, is_judged_by_its_times
from nodewright.snapshot.pod_class import PodClass, PodClasses
from nodewright.snapshot.snapshot import Snapshot

# The annotations that the drain rules (drainability.py) read.
_DRAIN_ANNOTATIONS = (
    SAFE_TO_EVICT_ANNOTATION,
    SAFE_TO_EVICT_LOCAL_VOLUMES_ANNOTATION,
    MIRROR_ANNOTATION,
    DAEMONSET_POD_ANNOTATION,
    VOLCANO_ANNOTATION,
)
# Controllers of these kinds create a replacement as soon as a pod starts to terminate.
_REPLACING = ("ReplicaSet", "ReplicationController")


class PodKind:
    """Pods of one class for which the drain rules give the same result; ``pod`` represents all of them.

    ``owner`` identifies the controller whose pod moves are counted; empty without one. Kinds are compared by
    identity, and cached as long as they are in use.
    """

    __slots__ = ("__weakref__", "owner", "pod", "pod_class", "priority")

    def __init__(self, pod: Pod, pod_class: PodClass) -> None:
        self.pod = pod
        self.pod_class = pod_class
        self.priority = pod.spec.priority or 0
        self.owner = owner_key(pod)


class PodIndex:
    """Pods of nodes by number, in the order of their nodes, and the kind of each pod.

    ``places`` are the nodes where a simulation placed the pods; empty for a pod that it did not move.
    """

    def __init__(self) -> None:
        self.pods: list[Pod] = []
        self.kinds: list[PodKind] = []
        self.places: list[str] = []
        # The number of a node's first pod → the node's pods.
        self._node_pods: dict[int, NodePods] = {}
        self._keys: list[str] = []

    def add(self, node_pods: NodePods) -> "PodSubset":
        """Add the pods of one more node, and return them."""
        start, kinds = len(self.pods), node_pods.once(find_kinds)
        self.pods += node_pods.pods
        self.kinds += kinds * len(node_pods.pods) if len(kinds) == 1 else [kinds[place] for place in node_pods.which]
        self._node_pods[start] = node_pods
        return PodSubset(self, range(start, len(self.pods)), frozenset(kinds))

    def places_by_node(self) -> PodDestinations:
        """Return ``places`` in the form in which memory keeps them."""
        return PodDestinations(
            {
                node_pods: self.places[at : at + len(node_pods.pods)]
                for at, node_pods in self._node_pods.items()
                if node_pods.pods
            }
        )

    def keys(self, numbers: Sequence[int]) -> list[str]:
        """Return the ``namespace/name`` of these pods."""
        known = self._keys
        known += [""] * (len(self.pods) - len(known))
        for number in numbers:
            if not known[number]:
                start = next(at for at in range(number, -1, -1) if at in self._node_pods)
                known[start : start + len(self._node_pods[start].pods)] = self._node_pods[start].keys
        return [known[number] for number in numbers]


class PodSubset:
    """Some pods of an index, by ``numbers``, in the order of their node; ``distinct_kinds`` are the kinds among them."""

    __slots__ = ("distinct_kinds", "index", "numbers")

    def __init__(
        self, index: PodIndex, numbers: Sequence[int] = (), distinct_kinds: frozenset[PodKind] | None = None
    ) -> None:
        self.index = index
        self.numbers = numbers
        self.distinct_kinds = distinct_kinds if distinct_kinds is not None else frozenset(self.kinds)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def pods(self) -> list[Pod]:
        """Return the pods."""
        pods = self.index.pods
        return [pods[number] for number in self.numbers]

    @property
    def kinds(self) -> list[PodKind]:
        """Return the kind of each pod."""
        kinds = self.index.kinds
        return [kinds[number] for number in self.numbers]

    def part(self, start: int, stop: int) -> "PodSubset":
        """Return the pods between two positions."""
        whole = start == 0 and stop >= len(self.numbers)
        return self if whole else PodSubset(self.index, self.numbers[start:stop])

    def only(self, wanted: frozenset[PodKind] | set[PodKind]) -> "PodSubset":
        """Return the pods of the wanted kinds."""
        left = self.distinct_kinds & wanted
        if len(left) in (0, len(self.distinct_kinds)):
            return self if left else PodSubset(self.index)
        kinds = self.index.kinds
        return PodSubset(self.index, [number for number in self.numbers if kinds[number] in left], left)

    def with_others(self, numbers: Sequence[int]) -> "PodSubset":
        """Return these pods, followed by others of the index."""
        kinds = self.index.kinds
        distinct_kinds = self.distinct_kinds.union([kinds[number] for number in numbers])
        return PodSubset(self.index, [*self.numbers, *numbers], distinct_kinds)

    def counts(self) -> Counter[PodClass]:
        """Return how many pods there are of each class."""
        if len(self.distinct_kinds) == 1:
            return Counter({kind.pod_class: len(self.numbers) for kind in self.distinct_kinds})
        return Counter([kind.pod_class for kind in self.kinds])

    def runs(self) -> Iterator[tuple[PodClass, "PodSubset"]]:
        """Yield runs of consecutive pods of the same class, in order."""
        if len(self.distinct_kinds) == 1:
            yield from ((kind.pod_class, self) for kind in self.distinct_kinds)
            return
        start = 0
        for pod_class, alike in groupby(self.kinds, attrgetter("pod_class")):
            stop = start + sum(1 for _ in alike)
            yield pod_class, self.part(start, stop)
            start = stop


def find_pod_subsets(snapshot: Snapshot, rows: Iterable[int]) -> list[PodSubset]:
    """Return the known pods of each node, each in an index of its own."""
    return [PodIndex().add(node_pods) for node_pods in find_node_pods(snapshot, rows)]


def subset_of(pods: Sequence[Pod]) -> PodSubset:
    """Return pods that come from no snapshot as a subset of a new index."""
    classes = PodClasses()
    return PodIndex().add(NodePods([classes.of(pod, placed=True) for pod in pods], pods))


def find_kinds(node_pods: NodePods) -> list[PodKind]:
    """Return the kind of each representative pod of a node."""
    return [_find_kind(pod, pod_class) for pod, pod_class in node_pods.representatives]


_KINDS: WeakValueDictionary[Hashable, PodKind] = WeakValueDictionary()


def _find_kind(pod: Pod, pod_class: PodClass) -> PodKind:
    meta = pod.metadata
    identity = id(pod) if is_judged_by_its_times(pod_class) else 0
    annotations = tuple(map(meta.annotations.get, _DRAIN_ANNOTATIONS))
    key = (pod_class.id, identity, bool(pod.spec.node_name), pod.status.phase, meta.controller, annotations)
    kind = _KINDS.get(key)
    if kind is None:
        kind = _KINDS[key] = PodKind(pod, pod_class)
    return kind


def owner_key(pod: Pod) -> str:
    """Return the key under which the moves of a pod's controller are remembered; empty for a pod without a controller."""
    owner = pod.metadata.controller
    return owner.uid or f"{pod.metadata.namespace}/{owner.kind}/{owner.name}" if owner is not None else ""


def is_being_replaced(pod: Pod) -> bool:
    """Return whether the pod is terminating and its controller has already created another one.

    A StatefulSet waits until the first pod is gone.
    """
    owner = pod.metadata.controller
    return pod.metadata.deletion_timestamp is not None and owner is not None and owner.kind in _REPLACING


# Numbers of pods, and the row to which each moves.
PodMoves = tuple[Sequence[int], Sequence[int]]


class PodTracker:
    """The places of the pods of a simulation: by number, the row of their node, and the row where the last loop placed them.

    ``hints`` are the nodes to which pods were to go in the last loop. Rows of removed nodes may still be recorded:
    callers check which rows are open.
    """

    def __init__(self, snapshot: Snapshot, hints: PodDestinations) -> None:
        self.index = PodIndex()
        self._hints = hints
        self._names = [snapshot.name(row) for row in range(len(snapshot))]
        self._rows = {name: row for row, name in enumerate(self._names)}
        # By pod number: the row to which a pod was to go before, and the row where it was placed last; negative: none.
        self._before: list[int] = []
        self._places: list[int] = []
        self._own: dict[int, PodSubset] = {}
        # Row → numbers of the pods that moved there. The snapshot counts these pods and does not list them.
        self._arrived: defaultdict[int, list[int]] = defaultdict(list)
        # Rows of nodes that could not be drained.
        self._not_drained: set[int] = set()

    def subset(self, snapshot: Snapshot, row: int) -> PodSubset:
        """Return the pods of a node as it is now, with those that moved there."""
        own = self._own.get(row)
        if own is None:
            (node_pods,) = find_node_pods(snapshot, (row,))
            own = self._own[row] = self.index.add(node_pods)
            self._places += repeat(-1, len(own))
            self._before += self._rows_before(node_pods)
        arrived = self._arrived.get(row)
        return own.with_others(arrived) if arrived is not None else own

    def _rows_before(self, node_pods: NodePods) -> Iterable[int]:
        if not self._hints:
            return repeat(-1, len(node_pods.pods))
        row = self._rows.get
        return [row(name, -1) for name in self._hints.of(node_pods)]

    def has_hints(self, row: int) -> bool:
        """Return whether pods of this node have a row to try first.

        They have one from the last loop, or from an earlier failed attempt to drain the node.
        """
        return bool(self._hints) or row in self._not_drained

    def last_rows(self, numbers: Iterable[int]) -> list[int]:
        """Return the row where each pod was placed last; negative: none."""
        places, before = self._places, self._before
        return [places[number] if places[number] >= 0 else before[number] for number in numbers]

    def move_node(self, row: int, moves: Iterable[PodMoves]) -> None:
        """Record that the node of the row is gone, and where its pods went."""
        self._arrived.pop(row, None)
        places, arrived = self._places, self._arrived
        for numbers, rows in moves:
            for number, place in zip(numbers, rows, strict=True):
                places[number] = place
                arrived[place].append(number)

    def keep_node(self, row: int, moves: Iterable[PodMoves]) -> None:
        """Record that the node stays, and where its own pods would have had room.

        Pods that moved there keep their place.
        """
        self._not_drained.add(row)
        own = self._own[row].numbers
        for numbers, rows in moves:
            for number, place in zip(numbers, rows, strict=True):
                if number in own:
                    self._places[number] = place

    def finish(self) -> PodDestinations:
        """Write the final places into the index, and return them as hints for the next loop."""
        names = self._names
        self.index.places = ["" if row < 0 else names[row] for row in self._places]
        return self.index.places_by_node()
