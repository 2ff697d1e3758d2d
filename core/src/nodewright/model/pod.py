"""Pods: the fields that scheduling, scale-up and draining look at."""

from msgspec import field

from nodewright.model.meta import Int32, Int64, Kube, LabelSelector, Object, Requirement, Resources, Time

# Kubernetes' default for pods without terminationGracePeriodSeconds.
_DEFAULT_GRACE_SECONDS = 30
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
DAEMONSET_POD_ANNOTATION = "cluster-autoscaler.kubernetes.io/daemonset-pod"
SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_TO_EVICT_LOCAL_VOLUMES_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"


class ResourceRequirements(Kube, frozen=True, kw_only=True):
    requests: Resources = {}
    limits: Resources = {}


class ContainerPort(Kube, frozen=True, kw_only=True):
    host_port: Int32 = 0
    protocol: str = "TCP"
    host_ip: str = field(default="", name="hostIP")


class ContainerRestartRule(Kube, frozen=True, kw_only=True):
    action: str = ""


class Container(Kube, frozen=True, kw_only=True):
    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()


class Toleration(Kube, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class NodeSelectorTerm(Kube, frozen=True, kw_only=True):
    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Kube, frozen=True, kw_only=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(Kube, frozen=True, kw_only=True):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodAffinityTerm(Kube, frozen=True, kw_only=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PodAffinity(Kube, frozen=True, kw_only=True):
    required: tuple[PodAffinityTerm, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(Kube, frozen=True, kw_only=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Kube, frozen=True, kw_only=True):
    max_skew: Int32 = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class ClaimSource(Kube, frozen=True, kw_only=True):
    claim_name: str
    read_only: bool = False


class ClaimTemplate(Kube, frozen=True, kw_only=True):
    """A generic ephemeral volume: its claim is named ``<pod>-<volume>``."""


class GcePersistentDisk(Kube, frozen=True, kw_only=True):
    pd_name: str
    read_only: bool = False


class ElasticBlockStore(Kube, frozen=True, kw_only=True):
    volume_id: str = field(name="volumeID")
    read_only: bool = False


class Iscsi(Kube, frozen=True, kw_only=True):
    iqn: str
    read_only: bool = False


class Rbd(Kube, frozen=True, kw_only=True):
    monitors: tuple[str, ...] = ()
    pool: str = ""
    image: str = ""
    read_only: bool = False


class EmptyDir(Kube, frozen=True, kw_only=True):
    medium: str = ""


class HostPath(Kube, frozen=True, kw_only=True):
    path: str = ""


class Volume(Kube, frozen=True, kw_only=True):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: ClaimTemplate | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: ElasticBlockStore | None = None
    iscsi: Iscsi | None = None
    rbd: Rbd | None = None
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None


class ResourceClaimReference(Kube, frozen=True, kw_only=True):
    """A claim for devices: one that exists, or one that is made for the pod from a template."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class ResourceClaimState(Kube, frozen=True, kw_only=True):
    """The claim that was made from a template; without a name none was needed."""

    name: str = ""
    resource_claim_name: str = ""


class SchedulingGroup(Kube, frozen=True, kw_only=True):
    """The PodGroup (scheduling.k8s.io) to which a pod belongs."""

    pod_group_name: str = ""


class SchedulingGate(Kube, frozen=True, kw_only=True):
    name: str = ""


class PodSpec(Kube, frozen=True, kw_only=True):
    node_name: str = ""
    scheduler_name: str = ""
    scheduling_group: SchedulingGroup | None = None
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: Resources = {}
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[ResourceClaimReference, ...] = ()
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    host_network: bool = False
    host_users: bool | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None


class PodCondition(Kube, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    last_transition_time: Time | None = None

    @property
    def finds_no_place(self) -> bool:
        """Return whether the condition says that kube-scheduler found no node for the pod."""
        return self.type == "PodScheduled" and self.status == "False" and self.reason == "Unschedulable"

    @property
    def is_preemption(self) -> bool:
        """Return whether the condition says that kube-scheduler preempts the pod."""
        return self.type == "DisruptionTarget" and self.status == "True" and self.reason == "PreemptionByScheduler"


class ContainerStatus(Kube, frozen=True, kw_only=True):
    name: str = ""
    allocated_resources: Resources = {}
    resources: ResourceRequirements | None = None


class PodStatus(Kube, frozen=True, kw_only=True):
    phase: str = ""
    nominated_node_name: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Resources = {}
    resources: ResourceRequirements | None = None
    resource_claim_statuses: tuple[ResourceClaimState, ...] = ()


class Pod(Object, frozen=True, kw_only=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_mirror(self) -> bool:
        return MIRROR_ANNOTATION in self.metadata.annotations

    @property
    def is_daemonset_pod(self) -> bool:
        """Return whether a DaemonSet controls the pod, or an annotation says so (as in CA)."""
        controller = self.metadata.controller
        if controller is not None and controller.kind == "DaemonSet":
            return True
        return self.metadata.annotations.get(DAEMONSET_POD_ANNOTATION) == "true"

    @property
    def is_terminal(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def grace_seconds(self) -> int:
        """Return the termination grace period in seconds."""
        own = self.spec.termination_grace_period_seconds
        return _DEFAULT_GRACE_SECONDS if own is None else own

    @property
    def host(self) -> str:
        """Return the name of the pod's node or, if the pod is not terminating, of its nominated node; empty: none."""
        going = self.metadata.deletion_timestamp is not None
        return self.spec.node_name or ("" if going else self.status.nominated_node_name)
