"""Profiles of pods: each rule of the check is evaluated once for all pods that are equal to every rule."""

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


class PodProfile:
    """Pods of one class, owner and phase, with the same values of the annotations that rules read.

    ``pod`` represents them. ``asked`` are the amounts that one pod takes of a node, in integers of one unit for each
    resource. ``ports`` are the host ports that it takes. Profiles are compared by identity, and cached while in use.
    """

    __slots__ = ("__weakref__", "asked", "pod", "ports")

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.asked = {**pod_requests(pod, placed=True), PODS: 1}
        self.ports = _ports(pod)


class ProfiledPods:
    """Pods of a node in its order, and the profile of each; ``distinct`` are the profiles among them.

    ``keys`` are ``namespace/name``; ``ids`` are uids or, without one, keys.
    """

    __slots__ = ("distinct", "ids", "keys", "pods", "profiles")

    def __init__(
        self, pods: Sequence[Pod], profiles: Sequence[PodProfile], keys: Sequence[str], ids: Sequence[str]
    ) -> None:
        self.pods = pods
        self.profiles = profiles
        self.keys = keys
        self.ids = ids
        self.distinct = frozenset(profiles)

    def only(self, wanted: Iterable[PodProfile]) -> "ProfiledPods":
        """Return the pods of the wanted profiles."""
        wanted = frozenset(wanted)
        if self.distinct <= wanted:
            return self
        chosen = [profile in wanted for profile in self.profiles]
        pods, profiles = tuple(compress(self.pods, chosen)), tuple(compress(self.profiles, chosen))
        return ProfiledPods(pods, profiles, tuple(compress(self.keys, chosen)), tuple(compress(self.ids, chosen)))


def find_pods(snapshot: Snapshot, row: int) -> ProfiledPods:
    """Return the pods of the node in this row."""
    (node_pods,) = find_node_pods(snapshot, (row,))
    return node_pods.once(_profiled)


def _profiled(node_pods: NodePods) -> ProfiledPods:
    return ProfiledPods(node_pods.pods, node_pods.once(find_profiles), node_pods.keys, node_pods.ids)


def find_profiles(node_pods: NodePods) -> list[PodProfile]:
    """Return the profile of each pod of a node."""
    profiles = [_find_profile(pod, pod_class) for pod, pod_class in node_pods.representatives]
    return profiles * len(node_pods.which) if len(profiles) == 1 else [profiles[place] for place in node_pods.which]


_PROFILES: WeakValueDictionary[Hashable, PodProfile] = WeakValueDictionary()


def profile_of(snapshot: Snapshot, pod: Pod) -> PodProfile:
    """Return the profile of a running pod."""
    return _find_profile(pod, snapshot.class_of(pod, placed=True))


def _find_profile(pod: Pod, pod_class: PodClass) -> PodProfile:
    meta = pod.metadata
    own = id(pod) if is_judged_by_its_times(pod_class) else 0
    key = (pod_class.id, own, pod.status.phase, meta.controller, *map(meta.annotations.get, _ANNOTATIONS))
    profile = _PROFILES.get(key)
    if profile is None:
        profile = _PROFILES[key] = PodProfile(pod)
    return profile


def _ports(pod: Pod) -> tuple[ContainerPort, ...]:
    """Return the pod's host ports, without those of init containers: they are free once the pod runs."""
    lasting = (*pod.spec.containers, *(c for c in pod.spec.init_containers if c.restart_policy == "Always"))
    return tuple(port for container in lasting for port in container.ports if port.host_port > 0)
