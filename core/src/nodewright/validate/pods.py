"""Decide which pods block a removal, and group pods that are equal for every rule. Uses no code of the planner."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import compress
from weakref import WeakValueDictionary

from nodewright.model.cluster import PodDisruptionBudget
from nodewright.model.meta import LabelSelector, OwnerReference, Requirement
from nodewright.model.pod import (
    DAEMONSET_POD_ANNOTATION,
    MIRROR_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    SAFE_TO_EVICT_LOCAL_VOLUMES_ANNOTATION,
    ContainerPort,
    Pod,
    Volume,
)
from nodewright.model.policy import Policy
from nodewright.model.settings import DrainSettings
from nodewright.snapshot.node_pods import NodePods, find_node_pods, is_judged_by_its_times
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import PODS, pod_requests
from nodewright.snapshot.snapshot import Snapshot

SYSTEM_NAMESPACE = "kube-system"
_GRACE = 30.0
_KNOWN_OWNERS = ("ReplicationController", "Job", "ReplicaSet", "StatefulSet")


def why_immovable(
    pod: Pod, budgets: Iterable[PodDisruptionBudget], drain: DrainSettings, policy: Policy, now: float
) -> str | None:
    """Return why the pod blocks the removal of its node. None: it must be moved; empty: it ends with its node."""
    if pod.is_mirror or pod.is_daemonset_pod or _should_be_gone(pod, now):
        return ""
    safe_to_evict = pod.metadata.annotations.get(SAFE_TO_EVICT_ANNOTATION)
    if safe_to_evict == "true" or pod.status.phase == "Failed":
        return None
    if safe_to_evict == "on-completion":
        return "it must run to completion (safe-to-evict: on-completion)"
    alone = _why_not_created_again(pod.metadata.controller, drain)
    if alone:
        return alone
    is_exempt = False
    if pod.metadata.namespace == SYSTEM_NAMESPACE and drain.skip_nodes_with_system_pods:
        is_covered = any(matches(budget, pod) for budget in budgets)
        if not is_covered and not _is_old(pod, drain, now):
            return "it is a kube-system pod that started recently"
        is_exempt = not policy.applies_all_drain_rules and not is_covered
    return None if is_exempt else _why_kept(pod, drain)


def _why_not_created_again(owner: OwnerReference | None, settings: DrainSettings) -> str:
    if owner is None:
        return "no controller would create it again"
    if settings.skip_nodes_with_custom_controller_pods and owner.kind not in _KNOWN_OWNERS:
        return f"it is unknown whether its owner, a {owner.kind}, would create it again"
    return ""


def _why_kept(pod: Pod, settings: DrainSettings) -> str | None:
    if pod.metadata.annotations.get(SAFE_TO_EVICT_ANNOTATION) == "false":
        return "it is annotated as not safe to evict"
    if settings.skip_nodes_with_local_storage and any(_is_local(volume) for volume in _unwaived(pod)):
        return "it keeps data on its node"
    return None


def matches(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Return whether the budget is in the pod's namespace and selects it."""
    ours = budget.metadata.namespace == pod.metadata.namespace
    return ours and is_selected(budget.spec.selector, pod.metadata.labels)


def is_selected(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Return whether the selector selects the labels. None selects nothing, an empty selector everything."""
    if selector is None:
        return False
    plain = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return plain and all(holds(wanted, labels) for wanted in selector.match_expressions)


def holds(wanted: Requirement, labels: Mapping[str, str]) -> bool:
    """Return whether one expression of a selector matches; an unknown operator never matches."""
    there = wanted.key in labels
    match wanted.operator:
        case "In":
            return there and labels[wanted.key] in wanted.values
        case "NotIn":
            return not there or labels[wanted.key] not in wanted.values
        case "Exists":
            return there
        case "DoesNotExist":
            return not there
        case _:
            return False


def _should_be_gone(pod: Pod, now: float) -> bool:
    deleted, grace = pod.metadata.deletion_timestamp, pod.spec.termination_grace_period_seconds
    return deleted is not None and deleted.timestamp() + (_GRACE if grace is None else grace) + _GRACE < now


def _is_old(pod: Pod, settings: DrainSettings, now: float) -> bool:
    created = pod.metadata.creation_timestamp
    return created is not None and created.timestamp() + settings.blocking_system_pod_distruption_timeout < now


def _unwaived(pod: Pod) -> list[Volume]:
    waived = pod.metadata.annotations.get(SAFE_TO_EVICT_LOCAL_VOLUMES_ANNOTATION, "").split(",")
    return [volume for volume in pod.spec.volumes if volume.name not in waived]


def _is_local(volume: Volume) -> bool:
    return volume.host_path is not None or (volume.empty_dir is not None and volume.empty_dir.medium != "Memory")


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
