"""What the whole cluster may still grow by: cores, memory, GPUs (behaviour/up.md §4.9)."""

from collections.abc import Iterable, Mapping

import numpy as np

from nodewright.model.limits import ResourceLimits
from nodewright.model.node import Node
from nodewright.registry.accelerators import Accelerators
from nodewright.snapshot.column import Ints
from nodewright.snapshot.node_table import NodeTable
from nodewright.snapshot.snapshot import Snapshot


class Quota:
    """Room under the cluster's limits, used up as expansions are planned."""

    def __init__(self, snapshot: Snapshot, limits: ResourceLimits, accelerators: Accelerators) -> None:
        self._accelerators = accelerators
        most = {"cpu": limits.max_cores, "memory": limits.max_memory_bytes, **limits.max_gpu}
        there = totals(snapshot, most, accelerators)
        self._left = {name: amount - there[name] for name, amount in most.items()}

    def allowed(self, node: Node, wanted: int) -> tuple[int, tuple[str, ...]]:
        """How many of ``wanted`` such nodes fit under the limits, and the resources that stand in the way."""
        allowed, exceeded = wanted, []
        for name, amount in self._amounts(node).items():
            left = max(0, self._left[name])
            if left < amount * wanted:
                allowed = min(allowed, left // amount)
                exceeded.append(name)
        return allowed, tuple(exceeded)

    def fork(self) -> "Quota":
        """The same room, to be tried out."""
        forked = Quota.__new__(Quota)
        forked._accelerators, forked._left = self._accelerators, dict(self._left)
        return forked

    def consume(self, node: Node, count: int) -> None:
        for name, amount in self._amounts(node).items():
            self._left[name] -= amount * count

    def _amounts(self, node: Node) -> Mapping[str, int]:
        amounts = node_amounts(node, self._accelerators)
        return {name: amount for name, amount in amounts.items() if amount > 0 and name in self._left}


def node_amounts(node: Node, accelerators: Accelerators) -> Mapping[str, int]:
    """What a node counts for under limits: cores, bytes, and devices by the type of its accelerators."""
    kind, devices = accelerators.count(node)
    return {"cpu": _capacity(node, "cpu"), "memory": _capacity(node, "memory"), kind: devices}


def totals(snapshot: Snapshot, names: Iterable[str], accelerators: Accelerators) -> dict[str, int]:
    """What all nodes together count for, of each resource or type of accelerator."""
    return {
        name: _total(snapshot, name) if name in ("cpu", "memory") else _devices(snapshot, accelerators, name)
        for name in names
    }


def _total(snapshot: Snapshot, name: str) -> int:
    column: Ints = snapshot.column(("capacity", name), lambda table, window: _capacities(table, window, name))
    return sum(column[snapshot.alive].tolist())


def _capacities(table: NodeTable, window: slice, name: str) -> Ints:
    rows = range(window.start, window.stop)
    return np.array([_capacity(table.node(row), name) for row in rows], dtype=np.int64)


def _capacity(node: Node, name: str) -> int:
    """Whole cores or bytes; a virtual kubelet's node counts nothing."""
    if node.metadata.labels.get("type") == "virtual-kubelet" or name not in node.status.capacity:
        return 0
    return node.status.capacity[name].value


def _devices(snapshot: Snapshot, accelerators: Accelerators, kind: str) -> int:
    counted = (accelerators.count(node) for _, node in snapshot.nodes())
    return sum(devices for found, devices in counted if found == kind)
