"""What a node of Amazon EKS offers of its machine: how many pods, and how much memory and CPU for them.

Pods get addresses of the machine's network interfaces, so their number follows from the instance type. The kubelet reserves
memory for each of them. Sources: "Choose an optimal Amazon EC2 node instance type" in the EKS user guide (number of pods, its cap
in managed node groups), the EKS AMI (kube-reserved, eviction), and Karpenter (memory that the hypervisor and the kernel take).
"""

from collections.abc import Mapping

from nodewright.spec import Quantity
from nodewright_aws.options import EksNodes
from nodewright_aws.shapes import EksNodegroup, NetworkInfo

# A prefix is a block of so many addresses, in the place of one.
_PREFIX = 16
# The pods of the host's network that each node has: the network plugin and kube-proxy.
_ON_HOST_NETWORK = 2
_SMALL_CPUS, _SMALL_CAP, _LARGE_CAP = 30, 110, 250
_MIB = 1 << 20
_RESERVED_MEMORY, _RESERVED_A_POD, _EVICTION = 255 * _MIB, 11 * _MIB, 100 * _MIB
# Of the first CPU, of the second, of the third and fourth, of each further one: parts of 10,000.
_RESERVED_CPU = ((1, 600), (1, 100), (2, 50))
_RESERVED_FURTHER_CPU = 25


def applies_to(nodegroup: EksNodegroup | None, options: EksNodes) -> bool:
    """Return whether the group's nodes are set up as EKS does it.

    "auto": those of managed node groups, unless their image is the user's own, or one of Windows.
    """
    if options.apply != "auto":
        return options.apply == "always"
    image = (nodegroup.ami_type or "") if nodegroup is not None else ""
    return bool(image) and image != "CUSTOM" and not image.startswith("WINDOWS")


def max_pods(network: NetworkInfo, cpus: int, options: EksNodes) -> int | None:
    """Return the number of pods; None: the network interfaces of the instance type are not known."""
    if options.max_pods:
        return options.max_pods
    if not network.interfaces or not network.ipv4_addresses_per_interface:
        return None
    interfaces = max(0, network.interfaces - 1) if options.custom_networking else network.interfaces
    addresses = (network.ipv4_addresses_per_interface - 1) * (_PREFIX if options.prefix_delegation else 1)
    cap = _SMALL_CAP if cpus <= _SMALL_CPUS else _LARGE_CAP
    return min(interfaces * addresses + _ON_HOST_NETWORK, cap)


def usable_memory(memory: int, options: EksNodes) -> int:
    """Return the bytes that the kubelet sees of the memory of the instance type."""
    return memory - int(memory * options.vm_memory_overhead)


def allocatable(capacity: Mapping[str, Quantity], cpus: int, memory: int, pods: int) -> dict[str, Quantity]:
    """Return the capacity less what the kubelet reserves, and keeps free, on a node with so many CPUs, bytes and pods."""
    left = max(0, memory - _RESERVED_MEMORY - _RESERVED_A_POD * pods - _EVICTION)
    return {
        **capacity,
        "cpu": Quantity.of(f"{cpus * 1000 - _reserved_millis(cpus)}m"),
        "memory": Quantity.of(left),
    }


def _reserved_millis(cpus: int) -> int:
    parts, left = 0, cpus
    for number, part in _RESERVED_CPU:
        parts += min(number, left) * part
        left -= min(number, left)
    return (parts + left * _RESERVED_FURTHER_CPU) // 10
