"""The node that the next instance of a group becomes, from the data of group, launch template and instance type."""

from collections.abc import Mapping

import msgspec

from nodewright.spec import NodeTemplate, ProviderError, Quantity, Taint
from nodewright_aws.eks_nodes import allocatable as allocatable_on_eks
from nodewright_aws.eks_nodes import applies_to, max_pods, usable_memory
from nodewright_aws.options import EksNodes
from nodewright_aws.shapes import EksNodegroup, Group, InstanceRequirements, InstanceTypeInfo
from nodewright_aws.tags import labels_of, resources_of, tag_texts, taints_of

GPU_LABEL = "k8s.amazonaws.com/accelerator"
GPU_RESOURCE = "nvidia.com/gpu"
GPU_TYPES = (
    "nvidia-tesla-k80",
    "nvidia-tesla-p100",
    "nvidia-tesla-v100",
    "nvidia-tesla-t4",
    "nvidia-tesla-a100",
    "nvidia-a10g",
    "nvidia-l4",
    "nvidia-l40s",
)
_PODS = 110
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The instance type that a group starts. ``requirements`` come from a policy that names no types."""

    kind: InstanceTypeInfo
    requirements: InstanceRequirements | None = None


def make_template(
    group: Group, machine: Machine, nodegroup: EksNodegroup | None, region: str, eks: EksNodes, zone: str = ""
) -> NodeTemplate:
    """Return the template node, in ``zone`` or the group's first one; raise ProviderError for a group without a zone.

    What tags say of resources is both the capacity and what is allocatable.
    """
    if not group.availability_zones:
        raise ProviderError(f"group {group.name} has no availability zone", code="noZone")
    labels = _generic_labels(machine.kind, zone or group.availability_zones[0], region) | labels_of(group.tags)
    taints = list(taints_of(group.tags))
    capacity, allocatable = _resources(machine, nodegroup, eks)
    tagged = resources_of(tag_texts(group.tags))
    managed = _managed_taints(nodegroup) if nodegroup is not None else None
    if nodegroup is not None and managed is not None:
        labels |= _managed_labels(nodegroup)
        taints += managed
        tagged |= resources_of(nodegroup.tags)
    return NodeTemplate(
        allocatable=allocatable | tagged, capacity=capacity | tagged, labels=labels, taints=tuple(taints)
    )


def managed_by(group: Group) -> tuple[str, str] | None:
    """Return cluster and name of the EKS node group to which the group belongs; None: it belongs to none."""
    labels = labels_of(group.tags)
    cluster, name = labels.get("cluster-name", ""), labels.get("nodegroup-name", "")
    return (cluster, name) if cluster and name else None


def _generic_labels(kind: InstanceTypeInfo, zone: str, region: str) -> dict[str, str]:
    architectures = kind.processor_info.supported_architectures
    return {
        "kubernetes.io/arch": "arm64" if architectures[:1] == ("arm64",) else "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": kind.instance_type,
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": zone,
        "topology.ebs.csi.aws.com/zone": zone,
    }


def _resources(
    machine: Machine, nodegroup: EksNodegroup | None, eks: EksNodes
) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    """Return capacity and allocatable resources. As in CA the whole machine is both, unless the nodes are set up as by EKS."""
    kind, wanted = machine.kind, machine.requirements or InstanceRequirements()
    cpus = kind.v_cpu_info.default_v_cpus if wanted.v_cpu_count.min is None else wanted.v_cpu_count.min
    memory = (kind.memory_info.size_in_mib if wanted.memory_mib.min is None else wanted.memory_mib.min) << 20
    gpus = sum(gpu.count for gpu in kind.gpu_info.gpus)
    asks_for_gpus = "nvidia" in wanted.accelerator_manufacturers and "gpu" in wanted.accelerator_types
    if asks_for_gpus and wanted.accelerator_count.min is not None:
        gpus = wanted.accelerator_count.min
    of_eks = applies_to(nodegroup, eks)
    pods = (max_pods(kind.network_info, cpus, eks) if of_eks else None) or _PODS
    memory = usable_memory(memory, eks) if of_eks else memory
    capacity = {
        "cpu": Quantity.of(cpus),
        "memory": Quantity.of(memory),
        "pods": Quantity.of(pods),
        GPU_RESOURCE: Quantity.of(gpus),
    }
    return capacity, allocatable_on_eks(capacity, cpus, memory, pods) if of_eks else capacity


def _managed_labels(nodegroup: EksNodegroup) -> Mapping[str, str]:
    """Return the node group's labels; those that EKS sets itself, where it tells them, replace labels of users."""
    own = {
        "diskSize": str(nodegroup.disk_size) if nodegroup.disk_size is not None else None,
        "amiType": nodegroup.ami_type,
        "eks.amazonaws.com/capacityType": nodegroup.capacity_type,
        "k8sVersion": nodegroup.version,
        "eks.amazonaws.com/nodegroup": nodegroup.nodegroup_name,
    }
    return nodegroup.labels | {key: value for key, value in own.items() if value}


def _managed_taints(nodegroup: EksNodegroup) -> list[Taint] | None:
    """Return the node group's taints; None if an effect is unknown: then, as in CA, the whole node group is ignored."""
    taints = []
    for taint in nodegroup.taints:
        if taint.effect not in _EFFECTS:
            return None
        if taint.key is not None and taint.value is not None:
            taints.append(Taint(key=taint.key, value=taint.value, effect=_EFFECTS[taint.effect]))
    return taints
