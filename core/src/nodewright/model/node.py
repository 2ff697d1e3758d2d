"""Nodes: the fields that scheduling and the cluster state use."""

from msgspec import field

from nodewright.model.devices import ResourceSlice
from nodewright.model.meta import Int32, Kube, Object, Resources, Time

HOSTNAME_LABEL = "kubernetes.io/hostname"
ZONE_LABEL = "topology.kubernetes.io/zone"
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
TO_BE_DELETED_TAINT = "ToBeDeletedByClusterAutoscaler"
DELETION_CANDIDATE_TAINT = "DeletionCandidateOfClusterAutoscaler"


class Taint(Kube, frozen=True, kw_only=True):
    key: str
    effect: str = ""
    value: str = ""
    time_added: Time | None = None


class NodeSpec(Kube, frozen=True, kw_only=True):
    provider_id: str = field(default="", name="providerID")
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(Kube, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    last_transition_time: Time | None = None


class NodeStatus(Kube, frozen=True, kw_only=True):
    capacity: Resources = {}
    allocatable: Resources = {}
    conditions: tuple[NodeCondition, ...] = ()
    declared_features: tuple[str, ...] = ()


class CsiAllocatable(Kube, frozen=True, kw_only=True):
    count: Int32 | None = None


class CsiNodeDriver(Kube, frozen=True, kw_only=True):
    name: str
    allocatable: CsiAllocatable | None = None


class CsiNodeSpec(Kube, frozen=True, kw_only=True):
    drivers: tuple[CsiNodeDriver, ...] = ()


class CsiNode(Object, frozen=True, kw_only=True):
    spec: CsiNodeSpec = CsiNodeSpec()


class Node(Object, frozen=True, kw_only=True):
    """``device_slices`` and ``csi_node``: devices and CSI drivers of a simulated node.

    Those of a real node are in ResourceSlices that name it, and in the CSINode of its name.
    """

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
    device_slices: tuple[ResourceSlice, ...] = ()
    csi_node: CsiNode | None = None

    @property
    def allocatable(self) -> Resources:
        """Return what pods may request: the node's allocatable or, if it reports none, its capacity."""
        return self.status.allocatable or self.status.capacity
