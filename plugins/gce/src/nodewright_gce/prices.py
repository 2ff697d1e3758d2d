"""Prices of machines: a table in USD per hour (disks: per GiB and hour), and CA's rules for types without a row.

The figures are Google's list prices in us-central1, as in cluster-autoscaler's table. A type without a row is priced by its
cpus and its memory, at the rates of its family. The option ``prices_per_hour`` adds rows.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from nodewright.spec import NodeTemplate, Price, Quantity
from nodewright_gce.options import OwnPrice
from nodewright_gce.reserved import GIB
from nodewright_gce.template import (
    BOOT_DISK_SIZE,
    BOOT_DISK_TYPE,
    GPU_LABEL,
    GPU_RESOURCE,
    LOCAL_SSD_COUNT,
    LOCAL_SSD_STORAGE,
    family_of,
)

_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_SPOT_LABELS = ("cloud.google.com/gke-preemptible", "cloud.google.com/gke-spot")
_BOOT_DISK_LABEL, _SSD_LABEL = "cloud.google.com/gke-boot-disk", "cloud.google.com/gke-ephemeral-storage-local-ssd"
_BOOT_DISK, _BOOT_GIB, _SSD_GIB = "pd-balanced", 100.0, 375
_SPOT_FACTOR = 0.00698 / 0.033174
_MONTH = 720.0
_ZERO = Quantity(0)
SOURCE = "Google's list prices in us-central1, bundled"
# The table has no date of its own; the newest family in it, N4, came in August 2024.
AS_OF = datetime(2024, 8, 31, tzinfo=UTC).timestamp()


class Prices(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Rows by machine type, family, accelerator or disk type. ``*_factor``: the price of a spot machine as a share.

    ``own`` are the machine types whose rows the operator configured.
    """

    base_cpu: float = 0.033174
    base_memory_gib: float = msgspec.field(default=0.004446, name="baseMemoryGiB")
    base_gpu: float = 0.7
    base_preemptible_factor: float = _SPOT_FACTOR
    instance: Mapping[str, float] = {}
    preemptible_instance: Mapping[str, float] = {}
    cpu_by_family: Mapping[str, float] = {}
    memory_gib_by_family: Mapping[str, float] = msgspec.field(default={}, name="memoryGiBByFamily")
    preemptible_factor_by_family: Mapping[str, float] = {}
    custom_cpu_by_family: Mapping[str, float] = {}
    custom_memory_gib_by_family: Mapping[str, float] = msgspec.field(default={}, name="customMemoryGiBByFamily")
    custom_preemptible_factor_by_family: Mapping[str, float] = {}
    gpu: Mapping[str, float] = {}
    preemptible_gpu: Mapping[str, float] = {}
    boot_disk_gib: Mapping[str, float] = msgspec.field(default={}, name="bootDiskGiB")
    local_ssd_gib: float = msgspec.field(default=0.08 / _MONTH, name="localSsdGiB")
    spot_local_ssd_gib: float = msgspec.field(default=0.048 / _MONTH, name="spotLocalSsdGiB")
    own: frozenset[str] = frozenset()

    def with_own(self, own: Mapping[str, OwnPrice]) -> "Prices":
        """Return the prices with these rows added. A row without a spot price has its regular price for spot too."""
        regular = {name: price.regular for name, price in own.items()}
        spot = {name: price.regular if price.spot is None else price.spot for name, price in own.items()}
        return msgspec.structs.replace(
            self,
            own=frozenset(own),
            instance={**self.instance, **regular},
            preemptible_instance={**self.preemptible_instance, **spot},
        )


LIST_PRICES = Prices(
    instance={
        "a2-highgpu-1g": 3.673385,
        "c2-standard-16": 0.8352,
        "c3-standard-8": 0.41776,
        "e2-highcpu-16": 0.39576,
        "e2-medium": 0.03351,
        "f1-micro": 0.0076,
        "g2-standard-4": 0.76,
        "n1-standard-1": 0.0475,
        "n1-standard-2": 0.095,
        "n1-standard-4": 0.19,
        "n1-standard-8": 0.38,
        "n2-standard-8": 0.3885,
        "n2d-standard-4": 0.169,
    },
    preemptible_instance={
        "a2-highgpu-1g": 1.102016,
        "c2-standard-16": 0.2021,
        "c3-standard-8": 0.037904,
        "e2-highcpu-16": 0.11873,
        "e2-medium": 0.01005,
        "f1-micro": 0.0035,
        "g2-standard-4": 0.23,
        "n1-standard-1": 0.01,
        "n1-standard-2": 0.02,
        "n1-standard-4": 0.04,
        "n1-standard-8": 0.08,
        "n2-standard-8": 0.094,
        "n2d-standard-4": 0.017044,
    },
    cpu_by_family={
        "a2": 0.031611,
        "c2": 0.03398,
        "c3": 0.03398,
        "e2": 0.021811,
        "g2": 0.024988,
        "n1": 0.031611,
        "n2": 0.031611,
        "n2d": 0.027502,
        "n4": 0.030821,
    },
    memory_gib_by_family={
        "a2": 0.004237,
        "c2": 0.00455,
        "c3": 0.00456,
        "e2": 0.002923,
        "g2": 0.002927,
        "n1": 0.004237,
        "n2": 0.004237,
        "n2d": 0.003686,
        "n4": 0.004131,
    },
    preemptible_factor_by_family={
        "a2": 0.2999905096327228,
        "c2": 0.24190700412007063,
        "c3": 0.09081812831077105,
        "e2": 0.299986245472468,
        "g2": 0.29998399231631184,
        "n1": 0.21052798076618898,
        "n2": 0.24200436556894753,
        "n2d": 0.1008290306159552,
        "n4": 0.2587845949190487,
    },
    custom_cpu_by_family={"e2": 0.02289, "n1": 0.033174, "n2": 0.033174, "n2d": 0.028877},
    custom_memory_gib_by_family={"e2": 0.003067, "n1": 0.004446, "n2": 0.004446, "n2d": 0.00387},
    custom_preemptible_factor_by_family={
        "e2": 0.3,
        "n1": 0.2104057394344969,
        "n2": 0.24175559172846206,
        "n2d": 0.10070298161166326,
    },
    gpu={
        "nvidia-l4": 0.0,
        "nvidia-tesla-a100": 0.0,
        "nvidia-tesla-k80": 0.45,
        "nvidia-tesla-p100": 1.46,
        "nvidia-tesla-t4": 0.35,
    },
    preemptible_gpu={
        "nvidia-l4": 0.0,
        "nvidia-tesla-a100": 0.0,
        "nvidia-tesla-k80": 0.0375,
        "nvidia-tesla-p100": 0.43,
        "nvidia-tesla-t4": 0.11,
    },
    boot_disk_gib={"pd-balanced": 0.1 / _MONTH, "pd-ssd": 0.17 / _MONTH, "pd-standard": 0.04 / _MONTH},
)


def is_spot(node: NodeTemplate) -> bool:
    """Return whether the nodes of a template are spot or preemptible machines."""
    return any(node.labels.get(label) == "true" for label in _SPOT_LABELS)


def node_price(prices: Prices, node: NodeTemplate) -> Price:
    """Return the price of one node with its disks and accelerators."""
    capacity = node.capacity or node.allocatable
    spot = is_spot(node)
    kind = next((node.labels[label] for label in _TYPE_LABELS if label in node.labels), None)
    hourly = _machine_price(prices, capacity, kind, spot=spot)
    hourly += _disks_price(prices, node, spot=spot)
    hourly += _gpu_price(prices, node, spot=spot)
    is_own = kind in prices.own
    return Price(
        per_hour=hourly, source="prices_per_hour" if is_own else SOURCE, as_of=None if is_own else AS_OF, spot=spot
    )


def why_unpriced(prices: Prices, node: NodeTemplate) -> str:
    """Return why the node has no price; "": it has one.

    If a machine type includes its accelerators and has no row, the price by cpus and memory would be far too low.
    """
    kind = next((node.labels[label] for label in _TYPE_LABELS if label in node.labels), "")
    inclusive = prices.gpu.get(node.labels.get(GPU_LABEL, "")) == 0 and GPU_RESOURCE in node.allocatable
    return f"prices_per_hour has no {kind}" if inclusive and kind not in prices.instance else ""


def _machine_price(prices: Prices, capacity: Mapping[str, Quantity], kind: str | None, *, spot: bool) -> float:
    if kind is None:
        return _by_amount(prices, capacity, None)
    row = (prices.preemptible_instance if spot else prices.instance).get(kind)
    if row is not None:
        return row
    return _by_amount(prices, capacity, kind) * (_spot_factor(prices, kind) if spot else 1.0)


def _by_amount(prices: Prices, amounts: Mapping[str, Quantity], kind: str | None) -> float:
    family = family_of(kind) if kind is not None else ""
    custom = kind is not None and "custom" in kind
    cpus = prices.custom_cpu_by_family if custom else prices.cpu_by_family
    memory = prices.custom_memory_gib_by_family if custom else prices.memory_gib_by_family
    return (
        amounts.get("cpu", _ZERO).milli / 1000 * cpus.get(family, prices.base_cpu)
        + amounts.get("memory", _ZERO).value / GIB * memory.get(family, prices.base_memory_gib)
        + amounts.get("ephemeral-storage", _ZERO).value / GIB * prices.boot_disk_gib.get(_BOOT_DISK, 0.0)
    )


def _spot_factor(prices: Prices, kind: str) -> float:
    table: Any = prices.preemptible_factor_by_family
    if "custom" in kind:
        table = prices.custom_preemptible_factor_by_family
    return float(table.get(family_of(kind), _SPOT_FACTOR))


def _disks_price(prices: Prices, node: NodeTemplate, *, spot: bool) -> float:
    """Return the price of the disks per hour; a disk type without a row costs nothing, as in CA."""
    size = _number(node.annotations.get(BOOT_DISK_SIZE, ""), _BOOT_GIB)
    disk = node.labels.get(_BOOT_DISK_LABEL) or node.annotations.get(BOOT_DISK_TYPE) or _BOOT_DISK
    price = size * prices.boot_disk_gib.get(disk, 0.0)
    if "true" in (node.annotations.get(LOCAL_SSD_STORAGE), node.labels.get(_SSD_LABEL)):
        ssd = prices.spot_local_ssd_gib if spot else prices.local_ssd_gib
        price += _number(node.annotations.get(LOCAL_SSD_COUNT, ""), 0.0) * _SSD_GIB * ssd
    return price


def _gpu_price(prices: Prices, node: NodeTemplate, *, spot: bool) -> float:
    gpus = (node.capacity or node.allocatable).get(GPU_RESOURCE, _ZERO).milli / 1000
    table = prices.preemptible_gpu if spot else prices.gpu
    return gpus * table.get(node.labels.get(GPU_LABEL, ""), prices.base_gpu)


def _number(text: str, default: float) -> float:
    try:
        return float(text)
    except ValueError:
        return default
