"""What the cluster must keep: cores, memory and devices, as nodes go one after the other."""

from collections import Counter
from collections.abc import Collection, Iterator

from nodewright.model.limits import make_resource_limits
from nodewright.model.node import Node
from nodewright.model.settings import LimitSettings
from nodewright.snapshot.observation import Observation
from nodewright.validate.devices import Devices


class Minima:
    """The least amounts, and what is left; nodes of the names ``gone`` count no more."""

    def __init__(self, seen: Observation, settings: LimitSettings, gone: Collection[str]) -> None:
        limits = make_resource_limits(settings)
        least = {"cpu": limits.min_cores, "memory": limits.min_memory_bytes, **limits.min_gpu}
        self._least = {name: amount for name, amount in least.items() if amount > 0}
        self._devices = Devices(seen)
        self._left: Counter[str] = Counter()
        for _, node in seen.snapshot.nodes() if self._least else ():
            if node.name not in gone and node.metadata.labels.get("type") != "virtual-kubelet":
                for name, amount in self._offers(node).items():
                    self._left[name] += amount

    def take(self, node: Node) -> Iterator[str]:
        """The minima that are broken without the node; it counts as gone from now on."""
        for name, amount in self._offers(node).items() if self._least else ():
            self._left[name] -= amount
            if amount and self._left[name] < self._least.get(name, 0):
                yield f"{name} of the cluster would fall below its minimum of {self._least[name]}"

    def _offers(self, node: Node) -> dict[str, int]:
        """Of cores and memory what the machine has, of devices what pods may use, or will once they have appeared."""
        held = node.status.capacity
        offers: dict[str, int] = {name: held[name].value for name in ("cpu", "memory") if name in held}
        kind, devices = self._devices.of(node)
        return {**offers, kind: devices} if kind in self._least else offers
