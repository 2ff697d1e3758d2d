"""The price expander: the cheapest way to run the pods, damped towards nodes of a fitting size (up.md §4.8)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import tanh

from nodewright.expander.option import Option

_MIB = 2**20
# A pod that stands for what will come later, so that nearly free options do not divide by nothing.
_STANDBY = {"cpu": 500, "memory": 500 * _MIB}
_GPU_UNFITNESS = 1000.0
# How much more an option seems to cost whose group would have to be made.
_NOT_EXISTING = 2.0
# Up to so many nodes in the cluster, a node of so many cores is preferred.
_PREFERRED_CORES = ((2, 1), (6, 2), (20, 4), (60, 8), (200, 16))
_LARGEST_PREFERRED_CORES = 32


@dataclass(frozen=True)
class UnitPrices:
    """What the cheapest group asks for a millicore and a byte, USD an hour; half a node's price is its cpu's."""

    millicore: float
    byte: float

    def of(self, amounts: dict[str, int]) -> float:
        return amounts.get("cpu", 0) * self.millicore + amounts.get("memory", 0) * self.byte


def find_unit_prices(nodes: Iterable[tuple[float, int, int]]) -> UnitPrices:
    """Unit prices from (USD an hour, millicores, bytes) of every group that has a price."""
    priced = [(price, cpu, memory) for price, cpu, memory in nodes if cpu > 0 and memory > 0]
    millicore = min((price / 2 / cpu for price, cpu, _ in priced), default=0.0)
    byte = min((price / 2 / memory for price, _, memory in priced), default=0.0)
    return UnitPrices(millicore, byte)


def cheapest(options: Sequence[Option], units: UnitPrices, cluster_nodes: int) -> list[Option]:
    """Those with the lowest price per unit of work.

    Options without a price are left out, unless none has one: prices that cannot be had stop no scale-up.
    """
    scores = [(option, _score(option, units, cluster_nodes)) for option in options]
    lowest = min((score for _, score in scores if score is not None), default=None)
    return [option for option, score in scores if score == lowest]


def _score(option: Option, units: UnitPrices, cluster_nodes: int) -> float | None:
    if option.hourly_price is None:
        return None
    standby = units.of(_STANDBY)
    work = units.of(option.requested) + standby
    price = option.hourly_price * option.node_count + standby
    penalty = 1.0 if option.exists else _NOT_EXISTING
    return penalty * _unfitness(option, cluster_nodes) * (price / work if work else price)


def _unfitness(option: Option, cluster_nodes: int) -> float:
    """How far the node is from the preferred size; weighs less the more nodes are bought at once."""
    if option.has_gpu:
        return _GPU_UNFITNESS
    capacity = option.node.status.capacity
    cores = capacity["cpu"].milli / 1000 if "cpu" in capacity else 0.0
    if not cores:
        return _GPU_UNFITNESS
    preferred = _preferred_cores(cluster_nodes)
    raw = max(preferred / cores, cores / preferred)
    return (raw - 1) * (1 - tanh((option.node_count - 1) / 15)) + 1


def _preferred_cores(cluster_nodes: int) -> int:
    return next((cores for nodes, cores in _PREFERRED_CORES if cluster_nodes <= nodes), _LARGEST_PREFERRED_CORES)
