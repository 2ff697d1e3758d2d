"""The other Kubernetes objects that decisions read: volumes, budgets, workloads, namespaces, priorities."""

from msgspec import field

from nodewright.model.meta import Int32, Kube, LabelSelector, Object, ObjectMeta, Resources
from nodewright.model.pod import ElasticBlockStore, GcePersistentDisk, NodeSelector, PodSpec, ResourceRequirements
from nodewright.model.quantity import Quantity


class NamespaceStatus(Kube, frozen=True, kw_only=True):
    phase: str = ""


class Namespace(Object, frozen=True, kw_only=True):
    status: NamespaceStatus = NamespaceStatus()

    @property
    def is_ending(self) -> bool:
        """Return whether the namespace is being deleted. The API server then creates and binds no pods in it."""
        return self.metadata.deletion_timestamp is not None or self.status.phase == "Terminating"


class PriorityClass(Object, frozen=True, kw_only=True):
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str = ""


class ConfigMap(Object, frozen=True, kw_only=True):
    data: dict[str, str] = {}


class PodTemplateSpec(Kube, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class DaemonSetSpec(Kube, frozen=True, kw_only=True):
    template: PodTemplateSpec = PodTemplateSpec()


class DaemonSetStatus(Kube, frozen=True, kw_only=True):
    number_ready: Int32 = 0


class DaemonSet(Object, frozen=True, kw_only=True):
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ReplicaSetSpec(Kube, frozen=True, kw_only=True):
    replicas: Int32 | None = None


class TemplatedSpec(ReplicaSetSpec, frozen=True, kw_only=True):
    """A spec with a pod template. ReplicaSets and Jobs are decoded without it, because there are many of them."""

    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSetStatus(Kube, frozen=True, kw_only=True):
    ready_replicas: Int32 = 0


class ReplicaSet(Object, frozen=True, kw_only=True):
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class ReplicationController(Object, frozen=True, kw_only=True):
    spec: TemplatedSpec = TemplatedSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class Deployment(Object, frozen=True, kw_only=True):
    spec: TemplatedSpec = TemplatedSpec()


class StatefulSet(Object, frozen=True, kw_only=True):
    spec: TemplatedSpec = TemplatedSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class JobSpec(Kube, frozen=True, kw_only=True):
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    managed_by: str | None = None


class JobStatus(Kube, frozen=True, kw_only=True):
    ready: Int32 = 0


class Job(Object, frozen=True, kw_only=True):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class PodDisruptionBudgetSpec(Kube, frozen=True, kw_only=True):
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Kube, frozen=True, kw_only=True):
    disruptions_allowed: Int32 = 0


class PodDisruptionBudget(Object, frozen=True, kw_only=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class QuotaScope(Kube, frozen=True, kw_only=True):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class QuotaScopes(Kube, frozen=True, kw_only=True):
    match_expressions: tuple[QuotaScope, ...] = ()


class ResourceQuotaSpec(Kube, frozen=True, kw_only=True):
    scopes: tuple[str, ...] = ()
    scope_selector: QuotaScopes | None = None


class ResourceQuotaStatus(Kube, frozen=True, kw_only=True):
    hard: Resources = {}
    used: Resources = {}


class ResourceQuota(Object, frozen=True, kw_only=True):
    """The limit of what all pods of a namespace may request together."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class TopologyRequirement(Kube, frozen=True, kw_only=True):
    key: str
    values: tuple[str, ...] = ()


class TopologyTerm(Kube, frozen=True, kw_only=True):
    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(Object, frozen=True, kw_only=True):
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] = ()


class ClaimReference(Kube, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class CsiVolume(Kube, frozen=True, kw_only=True):
    driver: str = ""
    volume_handle: str = ""


class AzureDisk(Kube, frozen=True, kw_only=True):
    disk_uri: str = field(name="diskURI", default="")


class AzureFile(Kube, frozen=True, kw_only=True):
    secret_name: str = ""
    secret_namespace: str | None = None
    share_name: str = ""


class VolumeById(Kube, frozen=True, kw_only=True):
    """A volume of the in-tree plugins of Cinder and Portworx."""

    volume_id: str = field(name="volumeID", default="")


class VsphereVolume(Kube, frozen=True, kw_only=True):
    volume_path: str = ""


class VolumeNodeAffinity(Kube, frozen=True, kw_only=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Kube, frozen=True, kw_only=True):
    capacity: Resources = {}
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiVolume | None = None
    aws_elastic_block_store: ElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: VolumeById | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    portworx_volume: VolumeById | None = None
    vsphere_volume: VsphereVolume | None = None


class VolumePhase(Kube, frozen=True, kw_only=True):
    phase: str = ""


class PersistentVolume(Object, frozen=True, kw_only=True):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: VolumePhase = VolumePhase()


class PersistentVolumeClaimSpec(Kube, frozen=True, kw_only=True):
    access_modes: tuple[str, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    storage_class_name: str | None = None
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""
    volume_name: str = ""
    selector: LabelSelector | None = None


class PersistentVolumeClaim(Object, frozen=True, kw_only=True):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: VolumePhase = VolumePhase()


class CsiDriverSpec(Kube, frozen=True, kw_only=True):
    storage_capacity: bool = False
    prevent_pod_scheduling_if_missing: bool = False


class CsiDriver(Object, frozen=True, kw_only=True):
    spec: CsiDriverSpec = CsiDriverSpec()


class CsiStorageCapacity(Object, frozen=True, kw_only=True):
    """The room that a CSI driver has for volumes of a storage class on the nodes of ``node_topology`` (None: on none)."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class AttachmentSource(Kube, frozen=True, kw_only=True):
    persistent_volume_name: str = ""


class VolumeAttachmentSpec(Kube, frozen=True, kw_only=True):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Object, frozen=True, kw_only=True):
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
