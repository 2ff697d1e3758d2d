"""Instance types as AWS described them when this version was made, for when DescribeInstanceTypes cannot be called.

The table is ``instance_types.csv``, in the order of the names; its facts are those that moto 5.2.5 has from AWS. ``interfaces`` are those of the default network card.
"""

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from nodewright_aws.shapes import (
    Gpu,
    GpuInfo,
    InstanceTypeInfo,
    MemoryInfo,
    NetworkCard,
    NetworkInfo,
    ProcessorInfo,
    VCpuInfo,
)


def bundled_type(name: str) -> InstanceTypeInfo | None:
    """Return the instance type; None: it is not in the table."""
    row = _rows().get(name)
    return _read(row) if row is not None else None


@cache
def _rows() -> Mapping[str, Mapping[str, str]]:
    text = files("nodewright_aws").joinpath("instance_types.csv").read_text(encoding="utf-8")
    return {row["type"]: row for row in csv.DictReader(text.splitlines())}


def _read(row: Mapping[str, str]) -> InstanceTypeInfo:
    card = NetworkCard(maximum_network_interfaces=int(row["interfaces"]))
    return InstanceTypeInfo(
        instance_type=row["type"],
        v_cpu_info=VCpuInfo(default_v_cpus=int(row["vcpus"])),
        memory_info=MemoryInfo(size_in_mib=int(row["memory_mib"])),
        processor_info=ProcessorInfo(supported_architectures=(row["architecture"],)),
        gpu_info=GpuInfo(gpus=(Gpu(count=int(row["gpus"])),)),
        network_info=NetworkInfo(ipv4_addresses_per_interface=int(row["addresses"]), network_cards=(card,)),
    )
