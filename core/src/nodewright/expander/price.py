"""The price expander: the cheapest way to run the pods, with a penalty for nodes far from the preferred size."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import tanh

from nodewright.expander.option import Option

_MIB = 2**20
# Resources of a stand-by pod. They are added to price and work, so that a price is never divided by almost zero.
_STANDBY = {"cpu": 500, "memory": 500 * _MIB}
_GPU_UNFITNESS = 1000.0
# Factor on the cost of an option whose group must be created first.
_NOT_EXISTING = 2.0
# (nodes in the cluster, cores): up to this cluster size a node with this number of cores is preferred.
_PREFERRED_CORES = ((2, 1), (6, 2), (20, 4), (60, 8), (200, 16))
_LARGEST_PREFERRED_CORES = 32


@dataclass(frozen=True)
class UnitPrices:
    """The price of a millicore and of a byte of memory in the cheapest group, in USD an hour.

    Half of a node's price counts for its cpu, the other half for its memory.
    """

    millicore: float
    byte: float

    def of(self, amounts: dict[str, int]) -> float:
        return amounts.get("cpu", 0) * self.millicore + amounts.get("memory", 0) * self.byte


def find_unit_prices(nodes: Iterable[tuple[float, int, int]]) -> UnitPrices:
    """Compute unit prices from (USD an hour, millicores, bytes) of each group that has a price."""
    priced = [(price, cpu, memory) for price, cpu, memory in nodes if cpu > 0 and memory > 0]
    millicore = min((price / 2 / cpu for price, cpu, _ in priced), default=0.0)
    byte = min((price / 2 / memory for price, _, memory in priced), default=0.0)
    return UnitPrices(millicore, byte)


def cheapest(options: Sequence[Option], units: UnitPrices, cluster_nodes: int) -> list[Option]:
    """Return the options with the lowest price per unit of work.

    Options without a price are left out. If no option has a price, all are returned: unknown prices stop no scale-up.
    """
    scores = [(option, _score(option, units, cluster_nodes)) for option in options]
    lowest = min((score for _, score in scores if score is not None), default=None)
    return [option for option, score in scores if score == lowest]


def _score(option: Option, units: UnitPrices, cluster_nodes: int) -> float | None:
    if option.price is None:
        return None
    standby = units.of(_STANDBY)
    work = units.of(option.requested) + standby
    price = option.price + standby
    penalty = 1.0 if option.exists else _NOT_EXISTING
    return penalty * _unfitness(option, cluster_nodes) * (price / work if work else price)


def _unfitness(option: Option, cluster_nodes: int) -> float:
    """Return how far the node is from the preferred size; this weighs less the more nodes are added at once."""
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
