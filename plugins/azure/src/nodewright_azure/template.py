"""The node that the next machine of a scale set becomes, from Azure's data of the set and its size."""

import re
from collections.abc import Mapping

import msgspec

from nodewright.spec import NodeTemplate, ProviderError, Quantity
from nodewright.spec.group_options import read_taints
from nodewright_azure.shapes import MachineProfile, OsDisk, ScaleSet, VmPool, pool_of
from nodewright_azure.tags import labels_of, plain_tags, resources_of, tags_of, taints_of

GPU_LABEL = "accelerator"
GPU_RESOURCE = "nvidia.com/gpu"
GPU_TYPES = ("nvidia", "nvidia-tesla-k80", "nvidia-tesla-p100", "nvidia-tesla-v100")
_FPGA_RESOURCE = "xilinx.com/fpga-xilinx_u250_gen3x16_xdma_shell_2_1-0"
_AKS = "kubernetes.azure.com/"
_PODS = 110
_NO_ZONE = "0"
_FPGAS = re.compile(r"standard_np[0-9]")
# The sizes that AKS labels; neither fractions of an A10 nor AMD's GPUs are among them.
_NVIDIA = re.compile(r"standard_(?:nc|nd|nv)(?!.*(?:_a10_v5|as_v4|_v710|mi300))")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of a machine size."""

    cpus: int
    memory_bytes: int
    gpus: int = 0
    architecture: str = "amd64"


def make_template(scale_set: ScaleSet, machine: Machine, *, zone: str = "", predict_labels: bool) -> NodeTemplate:
    """Return the template node, in ``zone`` or the set's first one; raise ProviderError for a set without location or size."""
    if zone:
        scale_set = msgspec.structs.replace(scale_set, zones=(zone,))
    if not scale_set.size:
        raise ProviderError(f"{scale_set.name} has no size of machines", code="noSku")
    if not scale_set.location:
        raise ProviderError(f"{scale_set.name} has no location", code="noLocation")
    tags, size = tags_of(scale_set.tags), scale_set.size
    if scale_set.pool is not None:
        return _pool_template(scale_set, scale_set.pool, machine, size)
    profile = scale_set.properties.virtual_machine_profile or MachineProfile()
    disk = profile.storage_profile.os_disk if profile.storage_profile is not None else None
    windows = profile.os_profile is not None and profile.os_profile.windows_configuration is not None
    generic = _generic_labels(scale_set, machine, "windows" if windows else "linux", size)
    labels = plain_tags(tags) | generic | labels_of(tags)
    if predict_labels:
        labels |= _predicted_labels(tags, disk, size)
    capacity = _capacity(machine, disk, size) | resources_of(tags)
    return NodeTemplate(allocatable=capacity, capacity=capacity, labels=labels, taints=taints_of(tags))


def _pool_template(scale_set: ScaleSet, pool: VmPool, machine: Machine, size: str) -> NodeTemplate:
    """Return the template of a VM pool. Its own labels replace those that follow from the machine size."""
    labels = _generic_labels(scale_set, machine, pool.os_type, size) | {f"{_AKS}agentpool": pool.name} | pool.labels
    pairs = (text.split("=") for text in dict.fromkeys(",".join(pool.taints).split(",")))
    taints = read_taints((pair[0], pair[1]) for pair in pairs if len(pair) == 2)
    capacity = _capacity(machine, None, size)
    return NodeTemplate(allocatable=capacity, capacity=capacity, labels=labels, taints=taints)


def _generic_labels(scale_set: ScaleSet, machine: Machine, system: str, size: str) -> dict[str, str]:
    region = (scale_set.location or "").lower()
    zone = f"{region}-{scale_set.zones[0]}" if scale_set.zones else ""
    return {
        "kubernetes.io/arch": machine.architecture,
        "beta.kubernetes.io/arch": machine.architecture,
        "kubernetes.io/os": system,
        "beta.kubernetes.io/os": system,
        "node.kubernetes.io/instance-type": size,
        "beta.kubernetes.io/instance-type": size,
        "topology.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": zone or _NO_ZONE,
        "failure-domain.beta.kubernetes.io/zone": zone or _NO_ZONE,
        "topology.disk.csi.azure.com/zone": zone,
    }


def _predicted_labels(tags: Mapping[str, str], disk: OsDisk | None, size: str) -> dict[str, str]:
    """Return the labels that AKS sets on the node."""
    labels: dict[str, str] = {}
    pool = pool_of(tags)
    if pool:
        labels |= {"agentpool": pool, f"{_AKS}agentpool": pool}
    if disk is not None:
        kind = "ephemeral" if disk.diff_disk_settings is not None else "managed"
        labels |= {"storageprofile": kind, f"{_AKS}storageprofile": kind}
        tier = disk.managed_disk.storage_account_type if disk.managed_disk is not None else ""
        if tier:
            labels |= {"storagetier": tier, f"{_AKS}storagetier": tier}
    if _NVIDIA.match(size.lower()):
        labels |= {"accelerator": "nvidia", f"{_AKS}accelerator": "nvidia"}
    return labels


def _capacity(machine: Machine, disk: OsDisk | None, size: str) -> dict[str, Quantity]:
    accelerator = _FPGA_RESOURCE if _FPGAS.match(size.lower()) else GPU_RESOURCE
    capacity = {
        "cpu": Quantity.of(machine.cpus),
        "memory": Quantity.of(machine.memory_bytes),
        "pods": Quantity.of(_PODS),
        accelerator: Quantity.of(machine.gpus),
    }
    if disk is not None and disk.disk_size_gb is not None:
        capacity["ephemeral-storage"] = Quantity.of(disk.disk_size_gb << 30)
    return capacity
