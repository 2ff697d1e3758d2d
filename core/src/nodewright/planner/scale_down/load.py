"""The pods of nodes by kind: what neither the scheduler nor the rules of draining tell apart is looked at once."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from weakref import WeakValueDictionary

from nodewright.model.pod import Pod
from nodewright.planner.scale_down.drain_rules import ANNOTATIONS
from nodewright.snapshot.pod_class import PodClass, PodClasses
from nodewright.snapshot.pod_places import PodPlaces
from nodewright.snapshot.roll import NodePods, find_rolls, is_judged_by_its_times
from nodewright.snapshot.snapshot import Snapshot

# Kinds of owners that make another pod as soon as one is ending.
_REPLACING = ("ReplicaSet", "ReplicationController")


class PodKind:
    """Pods of one class about which the rules of draining say the same; ``pod`` stands for them.

    ``owner`` is by what the moves of their controller are remembered, empty without one. Compared by identity; there is
    one of each as long as somebody speaks of it.
    """

    __slots__ = ("__weakref__", "owner", "pod", "pod_class", "priority")

    def __init__(self, pod: Pod, pod_class: PodClass) -> None:
        self.pod = pod
        self.pod_class = pod_class
        self.priority = pod.spec.priority or 0
        self.owner = owner_key(pod)


class PodIndex:
    """Pods of nodes by number, in the order of their rolls, and the kind of each.

    ``places`` are the nodes that a simulation found for them in the end; empty for a pod that it did not move.
    """

    def __init__(self) -> None:
        self.pods: list[Pod] = []
        self.kinds: list[PodKind] = []
        self.places: list[str] = []
        # By the number of its first pod.
        self._rolls: dict[int, NodePods] = {}
        self._keys: list[str] = []

    def add(self, roll: NodePods) -> "Load":
        """The pods of one more node."""
        start, kinds = len(self.pods), roll.once(find_kinds)
        self.pods += roll.pods
        self.kinds += kinds * len(roll.pods) if len(kinds) == 1 else [kinds[place] for place in roll.which]
        self._rolls[start] = roll
        return Load(self, range(start, len(self.pods)), frozenset(kinds))

    def places_by_roll(self) -> PodPlaces:
        """``places`` to be remembered."""
        return PodPlaces({roll: self.places[at : at + len(roll.pods)] for at, roll in self._rolls.items() if roll.pods})

    def keys(self, numbers: Sequence[int]) -> list[str]:
        """``namespace/name`` of some."""
        known = self._keys
        known += [""] * (len(self.pods) - len(known))
        for number in numbers:
            if not known[number]:
                start = next(at for at in range(number, -1, -1) if at in self._rolls)
                known[start : start + len(self._rolls[start].pods)] = self._rolls[start].keys
        return [known[number] for number in numbers]


class Load:
    """Some pods of a roster by ``numbers``, in the order of their node; ``variety`` is all kinds among them."""

    __slots__ = ("numbers", "roster", "variety")

    def __init__(
        self, roster: PodIndex, numbers: Sequence[int] = (), variety: frozenset[PodKind] | None = None
    ) -> None:
        self.roster = roster
        self.numbers = numbers
        self.variety = variety if variety is not None else frozenset(self.kinds)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def pods(self) -> list[Pod]:
        pods = self.roster.pods
        return [pods[number] for number in self.numbers]

    @property
    def kinds(self) -> list[PodKind]:
        kinds = self.roster.kinds
        return [kinds[number] for number in self.numbers]

    def part(self, start: int, stop: int) -> "Load":
        """Those from one place to another."""
        whole = start == 0 and stop >= len(self.numbers)
        return self if whole else Load(self.roster, self.numbers[start:stop])

    def only(self, wanted: frozenset[PodKind] | set[PodKind]) -> "Load":
        """Those of some kinds."""
        left = self.variety & wanted
        if len(left) in (0, len(self.variety)):
            return self if left else Load(self.roster)
        kinds = self.roster.kinds
        return Load(self.roster, [number for number in self.numbers if kinds[number] in left], left)

    def with_others(self, numbers: Sequence[int]) -> "Load":
        """These and others after them."""
        kinds = self.roster.kinds
        variety = self.variety.union([kinds[number] for number in numbers])
        return Load(self.roster, [*self.numbers, *numbers], variety)

    def counts(self) -> Counter[PodClass]:
        """How many pods there are of each class."""
        if len(self.variety) == 1:
            return Counter({kind.pod_class: len(self.numbers) for kind in self.variety})
        return Counter([kind.pod_class for kind in self.kinds])

    def runs(self) -> Iterator[tuple[PodClass, "Load"]]:
        """The pods in order, as many together as follow each other and are of one class."""
        if len(self.variety) == 1:
            yield from ((kind.pod_class, self) for kind in self.variety)
            return
        start = 0
        for pod_class, alike in groupby(self.kinds, attrgetter("pod_class")):
            stop = start + sum(1 for _ in alike)
            yield pod_class, self.part(start, stop)
            start = stop


def find_loads(snapshot: Snapshot, rows: Iterable[int]) -> list[Load]:
    """The known pods of nodes, each with a roster of its own."""
    return [PodIndex().add(roll) for roll in find_rolls(snapshot, rows)]


def sort_pods(pods: Sequence[Pod]) -> Load:
    """Pods of nobody knows which picture."""
    classes = PodClasses()
    return PodIndex().add(NodePods([classes.of(pod, placed=True) for pod in pods], pods))


def find_kinds(roll: NodePods) -> list[PodKind]:
    """Those of its samples."""
    return [_find_kind(pod, pod_class) for pod, pod_class in roll.samples]


_KINDS: WeakValueDictionary[Hashable, PodKind] = WeakValueDictionary()


def _find_kind(pod: Pod, pod_class: PodClass) -> PodKind:
    meta = pod.metadata
    own = id(pod) if is_judged_by_its_times(pod_class) else 0
    said = tuple(map(meta.annotations.get, ANNOTATIONS))
    key = (pod_class.id, own, bool(pod.spec.node_name), pod.status.phase, meta.controller, said)
    kind = _KINDS.get(key)
    if kind is None:
        kind = _KINDS[key] = PodKind(pod, pod_class)
    return kind


def owner_key(pod: Pod) -> str:
    """By what the moves of a pod's controller are remembered; empty for a pod without one."""
    owner = pod.metadata.controller
    return owner.uid or f"{pod.metadata.namespace}/{owner.kind}/{owner.name}" if owner is not None else ""


def is_replaced(pod: Pod) -> bool:
    """Is it ending, and of a controller that makes another one at once? A StatefulSet waits until the first is gone."""
    owner = pod.metadata.controller
    return pod.metadata.deletion_timestamp is not None and owner is not None and owner.kind in _REPLACING
