"""Gangs: pods that start together or not at all, and the four ways in which pods say so (docs/gangs.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from nodewright.model.meta import Int32, Kube, Object
from nodewright.model.pod import Pod

GANG_API_GROUP = "scheduling.k8s.io"
COSCHEDULING_API_GROUP = "scheduling.x-k8s.io"
VOLCANO_API_GROUP = "scheduling.volcano.sh"
COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
VOLCANO_ANNOTATION = "scheduling.k8s.io/group-name"
KUEUE_LABEL = "kueue.x-k8s.io/pod-group-name"
KUEUE_COUNT_ANNOTATION = "kueue.x-k8s.io/pod-group-total-count"
_ID_PREFIX = "gang/"


class GangPolicy(Kube, frozen=True, kw_only=True):
    min_count: Int32 = 1


class SchedulingPolicy(Kube, frozen=True, kw_only=True):
    """The scheduling of the pods: as a gang, or (``basic``) each on its own."""

    gang: GangPolicy | None = None


class TopologyConstraint(Kube, frozen=True, kw_only=True):
    key: str = ""


class SchedulingConstraints(Kube, frozen=True, kw_only=True):
    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupSpec(Kube, frozen=True, kw_only=True):
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()
    priority: Int32 | None = None


class SchedulingPodGroup(Object, frozen=True, kw_only=True):
    """Kubernetes' own PodGroup (scheduling.k8s.io/v1beta1)."""

    spec: PodGroupSpec = PodGroupSpec()


class MinMemberSpec(Kube, frozen=True, kw_only=True):
    min_member: Int32 = 0


class MinMemberPodGroup(Object, frozen=True, kw_only=True):
    """The PodGroup of the coscheduling plugin, or of Volcano."""

    spec: MinMemberSpec = MinMemberSpec()


class GangConvention(StrEnum):
    """The project that defines how a pod names its gang."""

    KUBERNETES = "kubernetes"
    COSCHEDULING = "coscheduling"
    VOLCANO = "volcano"
    KUEUE = "kueue"


class GangRef(NamedTuple):
    """The name of a gang in its namespace, by one convention."""

    convention: GangConvention
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """Return ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def id(self) -> str:
        """Return the name under which machines for the gang are reserved."""
        return f"{_ID_PREFIX}{self.convention}/{self.key}"


def is_gang_id(request_id: str) -> bool:
    """Return whether a reservation of this name is for a gang."""
    return request_id.startswith(_ID_PREFIX)


def find_gang(pod: Pod) -> GangRef | None:
    """Return the gang that a pod names; None if it names none. Whether there is one depends on its PodGroup."""
    meta, own = pod.metadata, pod.spec.scheduling_group
    if own is not None and own.pod_group_name:
        return GangRef(GangConvention.KUBERNETES, meta.namespace, own.pod_group_name)
    if meta.labels:
        for convention, label in (
            (GangConvention.COSCHEDULING, COSCHEDULING_LABEL),
            (GangConvention.KUEUE, KUEUE_LABEL),
        ):
            if label in meta.labels:
                return GangRef(convention, meta.namespace, meta.labels[label])
    if VOLCANO_ANNOTATION in meta.annotations:
        return GangRef(GangConvention.VOLCANO, meta.namespace, meta.annotations[VOLCANO_ANNOTATION])
    return None


@dataclass(frozen=True, kw_only=True)
class PodGroups:
    """The PodGroups of each API, by ``namespace/name``."""

    kubernetes: Mapping[str, SchedulingPodGroup] = field(default_factory=dict)
    coscheduling: Mapping[str, MinMemberPodGroup] = field(default_factory=dict)
    volcano: Mapping[str, MinMemberPodGroup] = field(default_factory=dict)


@dataclass(frozen=True)
class GangTerms:
    """The demands of a PodGroup: ``min_count`` pods at least, in one domain of ``topology_key`` (empty: anywhere).

    ``is_missing``: the PodGroup does not exist, or cannot be read.
    """

    min_count: int
    topology_key: str = ""
    priority: int | None = None
    is_missing: bool = False


def find_terms(ref: GangRef, pod: Pod, groups: PodGroups) -> GangTerms | None:
    """Return the terms of the gang; None if its pods are ordinary ones.

    Without a PodGroup of the older conventions the pods are ordinary ones: their scheduler may not be the one that knows it.
    """
    if ref.convention is GangConvention.KUBERNETES:
        own = groups.kubernetes.get(ref.key)
        if own is None:
            return GangTerms(1, is_missing=True)
        if own.spec.scheduling_policy.gang is None:
            return None
        topology = own.spec.scheduling_constraints.topology
        key = topology[0].key if topology else ""
        return GangTerms(own.spec.scheduling_policy.gang.min_count, key, own.spec.priority)
    if ref.convention is GangConvention.KUEUE:
        text = pod.metadata.annotations.get(KUEUE_COUNT_ANNOTATION, "")
        count = int(text) if text.isdecimal() and len(text) < 10 else 0
        return GangTerms(count) if count > 1 else None
    held = groups.coscheduling if ref.convention is GangConvention.COSCHEDULING else groups.volcano
    other = held.get(ref.key)
    return GangTerms(other.spec.min_member) if other is not None and other.spec.min_member > 1 else None


@dataclass(frozen=True)
class RunningGang:
    """The number of a gang's pods that are on nodes and are to stay, and the number that must stay."""

    running: int
    min_count: int
