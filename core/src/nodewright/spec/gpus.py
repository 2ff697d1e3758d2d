"""PUBLIC, for plugins: the devices that NVIDIA's driver of dynamic resource allocation publishes for a machine's GPUs.

The table is from NVIDIA's documents, and not compared with real nodes. The first real node of a group replaces what it says.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from nodewright.model.devices import Device, DeviceAttribute, DeviceCapacity, ResourcePool, ResourceSliceSpec
from nodewright.model.group import NodeTemplate
from nodewright.model.quantity import Quantity

NVIDIA_DRIVER = "gpu.nvidia.com"
_GPU_RESOURCE = "nvidia.com/gpu"


class GpuModel(NamedTuple):
    """A model of GPU: the attributes productName, architecture and cudaComputeCapability, and its memory."""

    product: str
    architecture: str
    compute: str
    memory_mib: int


MODELS = MappingProxyType(
    {
        "p4": GpuModel("Tesla P4", "Pascal", "6.1.0", 7_680),
        "p100": GpuModel("Tesla P100-PCIE-16GB", "Pascal", "6.0.0", 16_384),
        "v100-16gb": GpuModel("Tesla V100-SXM2-16GB", "Volta", "7.0.0", 16_384),
        "v100-32gb": GpuModel("Tesla V100-SXM2-32GB", "Volta", "7.0.0", 32_768),
        "v100-pcie": GpuModel("Tesla V100-PCIE-16GB", "Volta", "7.0.0", 16_384),
        "t4": GpuModel("Tesla T4", "Turing", "7.5.0", 15_360),
        "a10g": GpuModel("NVIDIA A10G", "Ampere", "8.6.0", 23_028),
        "a100-40gb": GpuModel("NVIDIA A100-SXM4-40GB", "Ampere", "8.0.0", 40_960),
        "a100-80gb": GpuModel("NVIDIA A100-SXM4-80GB", "Ampere", "8.0.0", 81_920),
        "a100-pcie": GpuModel("NVIDIA A100 80GB PCIe", "Ampere", "8.0.0", 81_920),
        "l4": GpuModel("NVIDIA L4", "Ada Lovelace", "8.9.0", 23_034),
        "l40s": GpuModel("NVIDIA L40S", "Ada Lovelace", "8.9.0", 46_068),
        "h100": GpuModel("NVIDIA H100 80GB HBM3", "Hopper", "9.0.0", 81_559),
        "h100-nvl": GpuModel("NVIDIA H100 NVL", "Hopper", "9.0.0", 95_830),
        "h200": GpuModel("NVIDIA H200", "Hopper", "9.0.0", 143_771),
        "b200": GpuModel("NVIDIA B200", "Blackwell", "10.0.0", 183_359),
    }
)


def with_gpus(template: NodeTemplate, model: str) -> NodeTemplate:
    """Return the template with a device for each of its NVIDIA GPUs; unchanged if ``model`` is none of the table.

    The resource nvidia.com/gpu goes: NVIDIA's device plugin offers it, which does not run beside the driver.
    """
    known = MODELS.get(model)
    count = (template.capacity or template.allocatable).get(_GPU_RESOURCE)
    if known is None or count is None or count.milli <= 0:
        return template
    devices = tuple(_device(f"gpu-{number}", known) for number in range(count.milli // 1000))
    own = ResourceSliceSpec(driver=NVIDIA_DRIVER, pool=ResourcePool(name=NVIDIA_DRIVER), devices=devices)
    return replace(
        template,
        capacity=_without_gpus(template.capacity),
        allocatable=_without_gpus(template.allocatable),
        slices=(*template.slices, own),
    )


def _without_gpus(resources: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {name: amount for name, amount in resources.items() if name != _GPU_RESOURCE}


def _device(name: str, model: GpuModel) -> Device:
    return Device(
        name=name,
        attributes={
            "type": DeviceAttribute(string="gpu"),
            "brand": DeviceAttribute(string="Tesla" if model.product.startswith("Tesla") else "Nvidia"),
            "productName": DeviceAttribute(string=model.product),
            "architecture": DeviceAttribute(string=model.architecture),
            "cudaComputeCapability": DeviceAttribute(version=model.compute),
        },
        capacity={"memory": DeviceCapacity(value=Quantity.of(model.memory_mib << 20))},
    )
