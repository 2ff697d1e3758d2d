"""The exact optimum of a small case: the least price for each number of pods, by every whole filling of every machine.

It shares no code with the planner. Spread over zones is not in it, so it is a lower bound for pods with such a constraint.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_cases import Case, Workload
from nodewright.model.quantity import Quantity

_ZONE, _TYPE = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"


class NodeToFill(NamedTuple):
    """A node to fill: what it offers, how many pods of each workload it takes at most, and its price."""

    free: tuple[float, ...]
    most: tuple[int, ...]
    price: float


def cheapest_price(case: Case) -> float:
    """Return the least price per hour of new nodes with which every pending pod has a place. For under 30 pods."""
    if case.maxima:
        raise ValueError(f"{case.name}: maxima of types are not looked at")
    waiting = [workload for workload in case.workloads if workload.pending]
    names = sorted({"pods", *(name for workload in waiting for name in workload.requests)})
    requests = np.array([[amount({"pods": "1", **one.requests}, name) for name in names] for one in waiting])
    counts = np.indices([one.pending + 1 for one in waiting]).reshape(len(waiting), -1).T
    shape = [one.pending + 1 for one in waiting]
    prices = np.full(len(counts), math.inf)
    for node in new_nodes(case, waiting, names):
        possible = _possible(node, counts, requests)
        prices[possible] = np.minimum(prices[possible], node.price)
    found = _with_new_nodes(counts, shape, prices)
    for node in existing_nodes(case, waiting, names):
        room = np.where(_possible(node, counts, requests), 0.0, math.inf)
        fillings = counts[_largest(room, shape)]
        found = np.min([found[_flat(np.maximum(0, counts - filling), shape)] for filling in fillings], axis=0)
    return float(found[-1])


def _with_new_nodes(counts: NDArray[np.int_], shape: Sequence[int], prices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what new nodes cost for each number of pods, the price of one node for them given (infinity: none takes them)."""
    largest = _largest(prices, shape)
    fillings, costs = counts[largest], prices[largest]
    found = np.zeros(len(counts))
    for state in range(1, len(counts)):
        # The first pod that waits goes on some node: every other order of buying is the same.
        useful = fillings[:, np.flatnonzero(counts[state])[0]] > 0
        after = _flat(np.maximum(0, counts[state] - fillings[useful]), shape)
        found[state] = (found[after] + costs[useful]).min(initial=math.inf)
    return found


def _largest(prices: NDArray[np.float64], shape: Sequence[int]) -> NDArray[np.bool_]:
    """Return for each number of pods whether a node takes them, and none takes one more of them for the same price."""
    shaped = prices.reshape(shape)
    grows = np.zeros(shaped.shape, dtype=bool)
    for axis, size in enumerate(shape):
        before = tuple(slice(0, size - 1) if n == axis else slice(None) for n in range(len(shape)))
        after = tuple(slice(1, size) if n == axis else slice(None) for n in range(len(shape)))
        grows[before] |= shaped[after] <= shaped[before]
    found: NDArray[np.bool_] = np.isfinite(prices) & ~grows.reshape(-1)
    return found


def _flat(counts: NDArray[np.int_], shape: Sequence[int]) -> NDArray[np.intp]:
    found: NDArray[np.intp] = np.ravel_multi_index(tuple(counts.T), shape)
    return found


def _possible(node: NodeToFill, counts: NDArray[np.int_], requests: NDArray[np.float64]) -> NDArray[np.bool_]:
    fits: NDArray[np.bool_] = np.all(counts @ requests <= np.array(node.free), axis=1)
    found: NDArray[np.bool_] = fits & np.all(counts <= np.array(node.most), axis=1)
    return found


def new_nodes(case: Case, waiting: Sequence[Workload], names: Sequence[str]) -> Iterator[NodeToFill]:
    """Yield a node of each type in each zone; of nodes that are alike the cheapest."""
    cheapest: dict[tuple[tuple[float, ...], tuple[int, ...]], float] = {}
    for one in case.types:
        for offer in one.offers:
            labels = {**one.labels, _TYPE: one.name, _ZONE: offer.zone}
            free = tuple(amount(one.allocatable, name) for name in names)
            key = (free, tuple(_most(workload, labels) for workload in waiting))
            cheapest[key] = min(offer.price, cheapest.get(key, math.inf))
    yield from (NodeToFill(free, most, price) for (free, most), price in cheapest.items())


def existing_nodes(case: Case, waiting: Sequence[Workload], names: Sequence[str]) -> Iterator[NodeToFill]:
    types = {one.name: one for one in case.types}
    for node in case.nodes:
        kind, placed = types[node.type], {one.name: one.placed.get(node.name, 0) for one in case.workloads}
        labels = {**kind.labels, _TYPE: kind.name, _ZONE: node.zone}
        used = [
            sum(placed[one.name] * amount({"pods": "1", **one.requests}, name) for one in case.workloads)
            for name in names
        ]
        free = tuple(amount(kind.allocatable, name) - taken for name, taken in zip(names, used, strict=True))
        most = tuple(max(0, _most(one, labels) - placed[one.name] * _is_limited(one)) for one in waiting)
        yield NodeToFill(free, most, 0.0)


def amount(texts: dict[str, str], name: str) -> float:
    return float(Quantity.of(texts[name]).nano) if name in texts else 0.0


def _most(workload: Workload, labels: dict[str, str]) -> int:
    """Return how many pods of a workload one node with these labels takes, whatever its size."""
    if not workload.selector.items() <= labels.items():
        return 0
    return min(
        workload.pending,
        1 if workload.anti_hostname else workload.pending,
        workload.max_skew if "hostname" in workload.spread else workload.pending,
    )


def _is_limited(workload: Workload) -> bool:
    return workload.anti_hostname or "hostname" in workload.spread
