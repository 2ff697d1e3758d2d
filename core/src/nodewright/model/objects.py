"""The Kubernetes objects that one dump or one list call holds, by kind."""

from typing import NamedTuple

import msgspec

from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.cluster import (
    ConfigMap,
    CsiDriver,
    CsiStorageCapacity,
    DaemonSet,
    Deployment,
    Job,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    ResourceQuota,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
)
from nodewright.model.devices import (
    DEVICE_API_GROUP,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from nodewright.model.gang import (
    COSCHEDULING_API_GROUP,
    GANG_API_GROUP,
    VOLCANO_API_GROUP,
    MinMemberPodGroup,
    PodGroups,
    SchedulingPodGroup,
)
from nodewright.model.meta import Object
from nodewright.model.node import CsiNode, Node
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import API_GROUP, PodTemplate, ProvisioningClass, ProvisioningRequest


class ClusterObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Objects in the order in which they were read."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    replica_sets: tuple[ReplicaSet, ...] = ()
    replication_controllers: tuple[ReplicationController, ...] = ()
    stateful_sets: tuple[StatefulSet, ...] = ()
    jobs: tuple[Job, ...] = ()
    pod_disruption_budgets: tuple[PodDisruptionBudget, ...] = ()
    persistent_volumes: tuple[PersistentVolume, ...] = ()
    persistent_volume_claims: tuple[PersistentVolumeClaim, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    csi_nodes: tuple[CsiNode, ...] = ()
    csi_drivers: tuple[CsiDriver, ...] = ()
    csi_storage_capacities: tuple[CsiStorageCapacity, ...] = ()
    volume_attachments: tuple[VolumeAttachment, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
    config_maps: tuple[ConfigMap, ...] = ()
    pod_templates: tuple[PodTemplate, ...] = ()
    provisioning_requests: tuple[ProvisioningRequest, ...] = ()
    provisioning_classes: tuple[ProvisioningClass, ...] = ()
    capacity_quotas: tuple[CapacityQuota, ...] = ()
    capacity_buffers: tuple[CapacityBuffer, ...] = ()
    deployments: tuple[Deployment, ...] = ()
    resource_quotas: tuple[ResourceQuota, ...] = ()
    resource_slices: tuple[ResourceSlice, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()
    resource_claims: tuple[ResourceClaim, ...] = ()
    resource_claim_templates: tuple[ResourceClaimTemplate, ...] = ()
    device_taint_rules: tuple[DeviceTaintRule, ...] = ()
    pod_groups: tuple[SchedulingPodGroup, ...] = ()
    coscheduling_pod_groups: tuple[MinMemberPodGroup, ...] = ()
    volcano_pod_groups: tuple[MinMemberPodGroup, ...] = ()

    def gang_objects(self) -> PodGroups:
        """Return the PodGroups of all APIs."""
        return PodGroups(
            kubernetes={one.key: one for one in self.pod_groups},
            coscheduling={one.key: one for one in self.coscheduling_pod_groups},
            volcano={one.key: one for one in self.volcano_pod_groups},
        )


class Kind(NamedTuple):
    """One kind that nodewright reads. ``api_group`` distinguishes it from kinds of the same name in other API groups.

    ``version`` is the API version of list calls. ``kind`` is what objects call it, where two API groups use one name.
    """

    name: str
    api_group: str
    type: type[Object]
    field: str
    namespaced: bool
    version: str = "v1"
    kind: str = ""


KINDS = {
    kind.name: kind
    for kind in (
        Kind("Node", "", Node, "nodes", namespaced=False),
        Kind("Pod", "", Pod, "pods", namespaced=True),
        Kind("DaemonSet", "apps", DaemonSet, "daemon_sets", namespaced=True),
        Kind("ReplicaSet", "apps", ReplicaSet, "replica_sets", namespaced=True),
        Kind("ReplicationController", "", ReplicationController, "replication_controllers", namespaced=True),
        Kind("StatefulSet", "apps", StatefulSet, "stateful_sets", namespaced=True),
        Kind("Job", "batch", Job, "jobs", namespaced=True),
        Kind("PodDisruptionBudget", "policy", PodDisruptionBudget, "pod_disruption_budgets", namespaced=True),
        Kind("PersistentVolume", "", PersistentVolume, "persistent_volumes", namespaced=False),
        Kind("PersistentVolumeClaim", "", PersistentVolumeClaim, "persistent_volume_claims", namespaced=True),
        Kind("StorageClass", "storage.k8s.io", StorageClass, "storage_classes", namespaced=False),
        Kind("CSINode", "storage.k8s.io", CsiNode, "csi_nodes", namespaced=False),
        Kind("CSIDriver", "storage.k8s.io", CsiDriver, "csi_drivers", namespaced=False),
        Kind("CSIStorageCapacity", "storage.k8s.io", CsiStorageCapacity, "csi_storage_capacities", namespaced=True),
        Kind("VolumeAttachment", "storage.k8s.io", VolumeAttachment, "volume_attachments", namespaced=False),
        Kind("Namespace", "", Namespace, "namespaces", namespaced=False),
        Kind("PriorityClass", "scheduling.k8s.io", PriorityClass, "priority_classes", namespaced=False),
        Kind("ConfigMap", "", ConfigMap, "config_maps", namespaced=True),
        Kind("PodTemplate", "", PodTemplate, "pod_templates", namespaced=True),
        Kind("ProvisioningRequest", API_GROUP, ProvisioningRequest, "provisioning_requests", namespaced=True),
        Kind("ProvisioningClass", API_GROUP, ProvisioningClass, "provisioning_classes", False, "v1alpha1"),
        Kind("CapacityQuota", API_GROUP, CapacityQuota, "capacity_quotas", False, "v1beta1"),
        Kind("CapacityBuffer", API_GROUP, CapacityBuffer, "capacity_buffers", True, "v1beta1"),
        Kind("Deployment", "apps", Deployment, "deployments", namespaced=True),
        Kind("ResourceQuota", "", ResourceQuota, "resource_quotas", namespaced=True),
        Kind("ResourceSlice", DEVICE_API_GROUP, ResourceSlice, "resource_slices", namespaced=False),
        Kind("DeviceClass", DEVICE_API_GROUP, DeviceClass, "device_classes", namespaced=False),
        Kind("ResourceClaim", DEVICE_API_GROUP, ResourceClaim, "resource_claims", namespaced=True),
        Kind("ResourceClaimTemplate", DEVICE_API_GROUP, ResourceClaimTemplate, "resource_claim_templates", True),
        Kind("DeviceTaintRule", DEVICE_API_GROUP, DeviceTaintRule, "device_taint_rules", namespaced=False),
        Kind("PodGroup", GANG_API_GROUP, SchedulingPodGroup, "pod_groups", True, "v1beta1"),
        Kind(
            "CoschedulingPodGroup",
            COSCHEDULING_API_GROUP,
            MinMemberPodGroup,
            "coscheduling_pod_groups",
            True,
            "v1alpha1",
            "PodGroup",
        ),
        Kind(
            "VolcanoPodGroup", VOLCANO_API_GROUP, MinMemberPodGroup, "volcano_pod_groups", True, "v1beta1", "PodGroup"
        ),
    )
}


# The kinds of PodGroups: a cluster need not know any of them.
POD_GROUP_KINDS = frozenset({"PodGroup", "CoschedulingPodGroup", "VolcanoPodGroup"})
_BY_API_GROUP = {(kind.kind or kind.name, kind.api_group): kind for kind in KINDS.values()}


def find_kind(kind: str, api_group: str | None) -> Kind | None:
    """Return the kind of an object (``api_group`` None: not told); None if nodewright does not read it."""
    return KINDS.get(kind) if api_group is None else _BY_API_GROUP.get((kind, api_group))
