"""The node that the next instance of a group becomes, from its instance template and machine type."""

import re
from collections.abc import Iterator, Mapping

from nodewright.spec import NodeTemplate, ProviderError, Quantity, Taint
from nodewright_gce.kube_env import KubeEnv, Template, loose_pairs, parse_pairs
from nodewright_gce.refs import Ref
from nodewright_gce.reserved import (
    ARM,
    COS,
    GIB,
    SSD_BYTES,
    UBUNTU,
    WINDOWS,
    Eviction,
    System,
    boot_storage,
    kernel_memory,
    read_eviction,
    ssd_storage,
)
from nodewright_gce.shapes import MachineType

GPU_LABEL = "cloud.google.com/gke-accelerator"
GPU_RESOURCE = "nvidia.com/gpu"
GPU_TYPES = (
    "nvidia-tesla-k80",
    "nvidia-tesla-p100",
    "nvidia-tesla-v100",
    "nvidia-tesla-p4",
    "nvidia-tesla-t4",
)
LOCAL_SSD_COUNT = "cluster-autoscaler/gce/local-ssd-count"
LOCAL_SSD_STORAGE = "cluster-autoscaler/gce/ephemeral-storage-local-ssd"
BOOT_DISK_TYPE = "cluster-autoscaler/gce/boot-disk-type"
BOOT_DISK_SIZE = "cluster-autoscaler/gce/boot-disk-size"
_RESOURCE_LABEL = "clusterautoscaler-nodetemplate-resources."
_STORAGE = "ephemeral-storage"
_PODS = 110
_DISTRIBUTIONS = {name: name for name in (COS, UBUNTU, *WINDOWS)} | {
    "cos_containerd": COS,
    "ubuntu_containerd": UBUNTU,
    "": COS,
}
_ZERO = Quantity(0)
_CUSTOM = "custom"
_SHARED_CPU = ("micro", "small", "medium")
_NUMBER = re.compile(r"[-+]?[0-9]{1,18}")


def make_template(ref: Ref, template: Template, machine: MachineType) -> NodeTemplate:
    """Return the template node; raise ProviderError that says what is wrong with the instance template.

    In CA small disks lead to amounts below zero. They are zero here: pods that do not request the resource still fit.
    """
    if template.trouble:
        raise ProviderError(f"instance template {template.name}: {template.trouble}", code="badTemplate")
    env = template.env
    system = _system(template)
    ssds = _ssd_count(env)
    capacity = _capacity(template, machine, system) | _storage(template, system, ssds)
    labels = parse_pairs(_newer(env, "node_labels", env.old_labels), "node_labels")
    capacity |= dict(_extended(env, labels))
    taints = _taints(env)
    return NodeTemplate(
        capacity=_above_zero(capacity),
        allocatable=_above_zero(_allocatable(capacity, env)),
        labels=labels | _generic_labels(ref, template.machine_type, system),
        annotations=dict(_annotations(template)),
        taints=taints,
    )


def _system(template: Template) -> System:
    env, os = template.env, template.env.variables.get("os", "linux")
    distribution = _DISTRIBUTIONS.get(env.variables.get("os_distribution", ""))
    if env.misses("os") or os not in ("linux", "windows"):
        raise ProviderError(f"instance template {template.name}: its kube-env names no known os", code="badTemplate")
    if distribution is None:
        raise ProviderError(
            f"instance template {template.name}: its kube-env names no known os_distribution", code="badTemplate"
        )
    arch = ARM if env.variables.get("arch") == ARM else "amd64"
    return System(os=os, distribution=distribution, arch=arch)


def _capacity(template: Template, machine: MachineType, system: System) -> dict[str, Quantity]:
    memory = machine.memory_mb << 20
    capacity = {
        "cpu": Quantity.of(machine.guest_cpus),
        "memory": Quantity.of(memory - kernel_memory(memory, system)),
        "pods": Quantity.of(_PODS),
    }
    if template.accelerators:
        count = sum(one.count for one in template.accelerators if one.kind.startswith("nvidia-"))
        capacity[GPU_RESOURCE] = Quantity.of(count)
    return capacity


def _storage(template: Template, system: System, ssds: int) -> dict[str, Quantity]:
    """Return the ephemeral storage: local SSDs if kube-env says so, otherwise the boot disk, unless that is blocked."""
    if ssds > 0:
        if sum(disk.is_local_ssd for disk in template.disks) < ssds:
            raise ProviderError(
                f"instance template {template.name}: it has fewer local SSDs than ephemeral_storage_local_ssd_count",
                code="badTemplate",
            )
        return {_STORAGE: Quantity.of(ssds * SSD_BYTES - ssd_storage(ssds, system))}
    if _is_boot_disk_barred(template.env):
        return {}
    for disk in template.disks:
        if disk.boot and disk.initialize_params is not None:
            size = disk.initialize_params.disk_size_gb * GIB
            return {_STORAGE: Quantity.of(max(0, size - boot_storage(size, system)))} if size > 0 else {}
    raise ProviderError(f"instance template {template.name}: it has no boot disk with a size", code="badTemplate")


def _is_boot_disk_barred(env: KubeEnv) -> bool:
    """Return whether pods may not use the boot disk; they then use local SSDs as a rule."""
    return env.get("BLOCK_EPH_STORAGE_BOOT_DISK") == "true"


def _ssd_count(env: KubeEnv) -> int:
    try:
        return int(env.variables.get("ephemeral_storage_local_ssd_count", "0"))
    except ValueError:
        return 0


def _extended(env: KubeEnv, labels: Mapping[str, str]) -> Iterator[tuple[str, Quantity]]:
    """Yield extended resources, those of labels last. As in CA, what is not a quantity is ignored."""
    told = list(loose_pairs(env.get("extended_resources")).items())
    told += [
        (key.removeprefix(_RESOURCE_LABEL), value) for key, value in labels.items() if key.startswith(_RESOURCE_LABEL)
    ]
    for name, text in told:
        try:
            yield name, Quantity.of(text)
        except ValueError:
            continue


def _allocatable(capacity: Mapping[str, Quantity], env: KubeEnv) -> dict[str, Quantity]:
    """Return capacity minus reserved resources; without a valid kube-reserved the whole capacity, as in CA."""
    reserved = _reserved(env)
    if reserved is None:
        return dict(capacity)
    eviction = read_eviction(loose_pairs(env.get("evictionHard")))
    return {
        name: _less_eviction(name, whole, whole - reserved.get(name, _ZERO), eviction)
        for name, whole in capacity.items()
    }


def _less_eviction(name: str, whole: Quantity, left: Quantity, eviction: Eviction) -> Quantity:
    if name == "memory":
        return Quantity.of(left.value - eviction.memory)
    if name == _STORAGE:
        return Quantity.of(left.value - int(eviction.storage * max(0, whole.value)))
    return left


def _reserved(env: KubeEnv) -> dict[str, Quantity] | None:
    text = env.variables.get("kube_reserved", env.old_reserved)
    if env.is_empty or text is None:
        return None
    try:
        pairs = parse_pairs(text, "kube_reserved")
    except ProviderError:
        return None
    found = {}
    for name in ("cpu", "memory", _STORAGE):
        try:
            amount = Quantity.of(pairs.get(name, "0"))
        except ValueError:
            continue
        if not amount < _ZERO:
            found[name] = amount
    return found


def _taints(env: KubeEnv) -> tuple[Taint, ...]:
    taints = []
    for key, text in parse_pairs(_newer(env, "node_taints", env.old_taints), "node_taints").items():
        value, colon, effect = text.partition(":")
        if not colon:
            raise ProviderError(f"node_taints in kube-env: '{key}={text}' names no effect", code="badKubeEnv")
        taints.append(Taint(key=key, value=value, effect=effect))
    return tuple(taints)


def _newer(env: KubeEnv, name: str, older: str) -> str:
    return env.variables.get(name, older)


def _generic_labels(ref: Ref, machine_type: str, system: System) -> dict[str, str]:
    if not ref.place.region:
        raise ProviderError(f"zone {ref.zone} is not a zone like us-central1-a", code="badZone")
    return {
        "kubernetes.io/arch": system.arch,
        "kubernetes.io/os": system.os,
        "node.kubernetes.io/instance-type": machine_type,
        "topology.kubernetes.io/region": ref.place.region,
        "topology.kubernetes.io/zone": ref.zone,
        "topology.gke.io/zone": ref.zone,
        "kubernetes.io/hostname": f"{ref.name}-template",
    }


def _annotations(template: Template) -> Iterator[tuple[str, str]]:
    """Yield the data of disks that a price needs; of several boot disks the last one counts, as in CA."""
    local = sum(disk.is_local_ssd for disk in template.disks)
    if local:
        yield LOCAL_SSD_COUNT, str(local)
    boot = [disk.initialize_params for disk in template.disks if disk.boot and disk.initialize_params is not None]
    if boot:
        yield BOOT_DISK_TYPE, boot[-1].disk_type
        yield BOOT_DISK_SIZE, str(boot[-1].disk_size_gb)
    if _is_boot_disk_barred(template.env):
        yield LOCAL_SSD_STORAGE, "true"


def _above_zero(amounts: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {name: max(amount, _ZERO) for name, amount in amounts.items()}


def is_custom(name: str) -> bool:
    """Return whether the name has the form ``[family-]custom-<cpus>-<MiB>[-ext]``."""
    return _CUSTOM in name.split("-")[:2] and "-" in name


def family_of(name: str) -> str:
    """Return the family of a machine type; a custom type without a family is of n1."""
    family = name.partition("-")[0]
    return "n1" if family == _CUSTOM else family


def parse_custom(name: str) -> MachineType:
    """Return the custom machine type of this name; raise ProviderError if cpus or memory are not numbers."""
    parts = name.split("-")
    start = parts.index(_CUSTOM)
    cpus, memory = (*parts[start + 1 : start + 3], "", "")[:2]
    if family_of(name) == "e2" and cpus in _SHARED_CPU:
        cpus = "2"
    if not _NUMBER.fullmatch(cpus) or not _NUMBER.fullmatch(memory):
        raise ProviderError(f"machine type {name} is not of the form custom-<cpus>-<MiB>", code="unknownType")
    return MachineType(name=name, guest_cpus=int(cpus), memory_mb=int(memory))
