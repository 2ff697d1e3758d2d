"""Pods that no rule of the check tells apart: each rule is asked once for all of them."""

from collections.abc import Hashable, Iterable, Sequence
from itertools import compress
from weakref import WeakValueDictionary

from nodewright.model.pod import (
    DAEMONSET_POD_ANNOTATION,
    MIRROR_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    SAFE_TO_EVICT_LOCAL_VOLUMES_ANNOTATION,
    ContainerPort,
    Pod,
)
from nodewright.snapshot.node_pods import NodePods, find_node_pods, is_judged_by_its_times
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import PODS, pod_requests
from nodewright.snapshot.snapshot import Snapshot

_ANNOTATIONS = (
    SAFE_TO_EVICT_ANNOTATION,
    SAFE_TO_EVICT_LOCAL_VOLUMES_ANNOTATION,
    MIRROR_ANNOTATION,
    DAEMONSET_POD_ANNOTATION,
)


class Kind:
    """Pods of one class, owner and phase, with the same annotations as far as rules read them; ``pod`` stands for them.

    ``asked`` is what one takes of a node in comparable integers, ``ports`` are those of the node that it takes.
    Compared by identity; there is one of each as long as somebody speaks of it.
    """

    __slots__ = ("__weakref__", "asked", "pod", "ports")

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.asked = {**pod_requests(pod, placed=True), PODS: 1}
        self.ports = _ports(pod)


class Crew:
    """Pods of a node in its order, and the kind of each; ``variety`` is all kinds among them.

    ``keys`` are ``namespace/name``, ``ids`` uids or, without one, keys.
    """

    __slots__ = ("ids", "keys", "kinds", "pods", "variety")

    def __init__(self, pods: Sequence[Pod], kinds: Sequence[Kind], keys: Sequence[str], ids: Sequence[str]) -> None:
        self.pods = pods
        self.kinds = kinds
        self.keys = keys
        self.ids = ids
        self.variety = frozenset(kinds)

    def only(self, wanted: Iterable[Kind]) -> "Crew":
        """Those of some kinds."""
        wanted = frozenset(wanted)
        if self.variety <= wanted:
            return self
        chosen = [kind in wanted for kind in self.kinds]
        pods, kinds = tuple(compress(self.pods, chosen)), tuple(compress(self.kinds, chosen))
        return Crew(pods, kinds, tuple(compress(self.keys, chosen)), tuple(compress(self.ids, chosen)))


def find_crew(snapshot: Snapshot, row: int) -> Crew:
    """The pods of a node."""
    (roll,) = find_node_pods(snapshot, (row,))
    return roll.once(_crew)


def _crew(roll: NodePods) -> Crew:
    return Crew(roll.pods, roll.once(find_kinds), roll.keys, roll.ids)


def find_kinds(roll: NodePods) -> list[Kind]:
    """The kind of each pod of a node."""
    kinds = [_find_kind(pod, pod_class) for pod, pod_class in roll.samples]
    return kinds * len(roll.which) if len(kinds) == 1 else [kinds[place] for place in roll.which]


_KINDS: WeakValueDictionary[Hashable, Kind] = WeakValueDictionary()


def kind_of(snapshot: Snapshot, pod: Pod) -> Kind:
    """The kind of a pod that runs."""
    return _find_kind(pod, snapshot.class_of(pod, placed=True))


def _find_kind(pod: Pod, pod_class: PodClass) -> Kind:
    meta = pod.metadata
    own = id(pod) if is_judged_by_its_times(pod_class) else 0
    key = (pod_class.id, own, pod.status.phase, meta.controller, *map(meta.annotations.get, _ANNOTATIONS))
    kind = _KINDS.get(key)
    if kind is None:
        kind = _KINDS[key] = Kind(pod)
    return kind


def _ports(pod: Pod) -> tuple[ContainerPort, ...]:
    """Those of containers that only prepare the pod are free again by then."""
    lasting = (*pod.spec.containers, *(c for c in pod.spec.init_containers if c.restart_policy == "Always"))
    return tuple(port for container in lasting for port in container.ports if port.host_port > 0)
