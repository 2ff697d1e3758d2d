"""Every annotation, label and taint that nodewright reads from objects or writes on them, for docs/settings.md.

A test finds the keys in the sources and holds this list against them.
"""

from typing import NamedTuple

SAME = "the same"
NONE = "none"
KUBERNETES = "Kubernetes' own"


class ObjectKey(NamedTuple):
    """One key. ``kind`` is annotation, label or taint; ``ca`` is cluster-autoscaler's equivalent."""

    on: str
    kind: str
    key: str
    values: str
    what: str
    ca: str = SAME


CA = "cluster-autoscaler.kubernetes.io/"
OBJECT_KEYS = (
    ObjectKey(
        "pods",
        "annotation",
        f"{CA}safe-to-evict",
        "`true`, `false` or `on-completion`",
        "`true`: the pod does not keep its node, even if it has local storage, is a system pod or has no controller; one "
        "whose controller was deleted keeps it all the same. "
        "`false`: it always does. `on-completion`: the node is removed once the pod has ended. Other values: no effect.",
    ),
    ObjectKey(
        "pods",
        "annotation",
        f"{CA}safe-to-evict-local-volumes",
        "names of volumes, separated by commas without blanks",
        "These hostPath and emptyDir volumes may be lost: they do not keep the node (`--skip-nodes-with-local-storage`).",
    ),
    ObjectKey(
        "pods",
        "annotation",
        f"{CA}pod-scale-up-delay",
        "a duration such as `5m`",
        "The pod causes no scale-up until it is that old. It may be longer than `--new-pod-scale-up-delay`, never shorter.",
    ),
    ObjectKey(
        "pods",
        "annotation",
        f"{CA}daemonset-pod",
        "`true`",
        "The pod counts as one of a DaemonSet: it does not keep its node, and no node is bought for it.",
    ),
    ObjectKey(
        "pods",
        "annotation",
        f"{CA}enable-ds-eviction",
        "`true`; any other value is no",
        "On a DaemonSet's pod: evict it when its node is removed, or leave it. It is stronger than "
        "`--daemonset-eviction-for-empty-nodes` and `--daemonset-eviction-for-occupied-nodes`.",
    ),
    ObjectKey(
        "pods",
        "label",
        "scheduling.x-k8s.io/pod-group",
        "name of a PodGroup of the coscheduling plugin",
        "The pod is one of a gang, which gets nodes for its minimum of pods or none ([gangs](gangs.md)).",
        "Does not read it.",
    ),
    ObjectKey(
        "pods",
        "annotation",
        "scheduling.k8s.io/group-name",
        "name of a PodGroup of Volcano",
        "The pod is one of a gang, as above.",
        "Does not read it.",
    ),
    ObjectKey(
        "pods",
        "label",
        "kueue.x-k8s.io/pod-group-name",
        "name of a group of plain pods of Kueue",
        "The pod is one of a gang, as above. The next annotation is needed, too.",
        "Does not read it.",
    ),
    ObjectKey(
        "pods",
        "annotation",
        "kueue.x-k8s.io/pod-group-total-count",
        "number of pods",
        "How many pods the group has.",
        "Does not read it.",
    ),
    ObjectKey(
        "pods",
        "annotation",
        "autoscaling.x-k8s.io/consume-provisioning-request",
        "name of a ProvisioningRequest in the pod's namespace",
        "The pod takes the room of that request and buys no node itself. The next annotation is needed, too.",
    ),
    ObjectKey(
        "pods",
        "annotation",
        "autoscaling.x-k8s.io/provisioning-class-name",
        "class of that ProvisioningRequest",
        "Needed beside the annotation above.",
    ),
    ObjectKey(
        "pods",
        "annotation",
        f"{CA}consume-provisioning-request",
        "as above",
        "The older name of `autoscaling.x-k8s.io/consume-provisioning-request`.",
    ),
    ObjectKey(
        "pods",
        "annotation",
        f"{CA}provisioning-class-name",
        "as above",
        "The older name of `autoscaling.x-k8s.io/provisioning-class-name`.",
        NONE,
    ),
    ObjectKey(
        "pods",
        "annotation",
        "kubernetes.io/config.mirror",
        "any",
        "A mirror pod: it never keeps its node and is never evicted.",
        KUBERNETES,
    ),
    ObjectKey(
        "pods",
        "annotation",
        "kubernetes.io/config.source",
        "any but `api`",
        "A static pod: no room is looked for when its node goes.",
        KUBERNETES,
    ),
    ObjectKey(
        "pods",
        "annotation",
        "controller.kubernetes.io/pod-deletion-cost",
        "an integer",
        "The higher, the more must be saved where consolidation evicts the pod (docs/consolidation.md).",
    ),
    ObjectKey("pods", "annotation", "podtype", "`fakepod`", "The pod is never evicted."),
    ObjectKey(
        "nodes",
        "annotation",
        f"{CA}scale-down-disabled",
        "`true`",
        "The node is never removed as unneeded. Other values: no effect.",
    ),
    ObjectKey(
        "nodes",
        "annotation",
        "delay-deletion.cluster-autoscaler.kubernetes.io/",
        "any key with this prefix",
        "The drained node is not deleted until the annotation is gone, or `--node-deletion-delay-timeout` is over.",
    ),
    ObjectKey(
        "nodes",
        "annotation",
        "nodewright.io/cordoned",
        "written by nodewright",
        "nodewright cordoned this node: only then it uncordons it when a removal fails.",
        NONE,
    ),
    ObjectKey(
        "nodes",
        "label",
        "type",
        "`virtual-kubelet`",
        "The node does not count for `--cores-total`, `--memory-total`, `--gpu-total` and CapacityQuotas.",
    ),
    ObjectKey(
        "nodes",
        "label",
        f"{CA}template-node",
        "`true`, in plans only",
        "A planned node has it, and no real one: pods that must not cause a scale-up can avoid it by node affinity.",
    ),
    ObjectKey(
        "nodes",
        "taint",
        "ToBeDeletedByClusterAutoscaler",
        "written by nodewright, NoSchedule; the value is the time in epoch seconds",
        "The node is being removed.",
    ),
    ObjectKey(
        "nodes",
        "taint",
        "DeletionCandidateOfClusterAutoscaler",
        "written by nodewright, PreferNoSchedule; the value is the time in epoch seconds",
        "The node is unneeded and may be removed (`--max-bulk-soft-taint-count`).",
    ),
    ObjectKey(
        "nodes",
        "taint",
        "startup-taint.cluster-autoscaler.kubernetes.io/",
        "any key with this prefix",
        "The node is still starting, as with `--startup-taint`.",
    ),
    ObjectKey(
        "nodes",
        "taint",
        "ignore-taint.cluster-autoscaler.kubernetes.io/",
        "any key with this prefix",
        "The same under an older name, as with `--ignore-taint`.",
    ),
    ObjectKey(
        "nodes",
        "taint",
        "status-taint.cluster-autoscaler.kubernetes.io/",
        "any key with this prefix",
        "It says something of this node only: the group's next node is planned without it, as with `--status-taint`.",
    ),
    ObjectKey(
        "nodes",
        "taint",
        "readiness.k8s.io/",
        "any key with this prefix",
        "The node readiness controller says something of this node only: the group's next node is planned without it, and a new node with "
        "it is still starting.",
        KUBERNETES,
    ),
    ObjectKey(
        "namespaces",
        "label",
        "kubernetes.io/metadata.name",
        "the namespace's name",
        "The selector of a ProvisioningClass may use it, with all other labels of the namespace.",
        NONE,
    ),
    ObjectKey(
        "the status ConfigMap",
        "annotation",
        f"{CA}last-updated",
        "written by nodewright",
        "When the status was last written.",
    ),
)

# Keys with a meaning of Kubernetes or of one cloud, that nodewright follows as kube-scheduler and the kubelet do.
STANDARD_KEYS = frozenset(
    (
        "beta.kubernetes.io/fluentd-ds-ready",
        "beta.kubernetes.io/instance-type",
        "cloud.google.com/impending-node-termination",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kops.k8s.io/instancegroup",
        "kubectl.kubernetes.io/last-applied-configuration",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.cloudprovider.kubernetes.io/shutdown",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.kubernetes.io/",
        "node.kubernetes.io/instance-type",
        "node.kubernetes.io/unschedulable",
        "pv.kubernetes.io/bind-completed",
        "storage.alpha.kubernetes.io/migrated-plugins",
        "topology.ebs.csi.aws.com/zone",
        "topology.gke.io/zone",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
    )
)
# Texts of the same form that are no keys of metadata: resource names, provisioners, condition types, strategies.
OTHER_TEXTS = frozenset(
    (
        "authentication.k8s.io/v1",
        "authorization.k8s.io/v1",
        "buffer.x-k8s.io/active-capacity",
        "cluster-autoscaler.kubernetes.io/valid",
        "deviceclass.resource.kubernetes.io/",
        "example.com/made-by",
        "kubernetes.io/",
        "kubernetes.io/aws-ebs",
        "kubernetes.io/azure-disk",
        "kubernetes.io/azure-file",
        "kubernetes.io/cinder",
        "kubernetes.io/gce-pd",
        "kubernetes.io/job-controller",
        "kubernetes.io/no-provisioner",
        "kubernetes.io/portworx-volume",
        "kubernetes.io/vsphere-volume",
        "nvidia.com/gpu",
    )
)
