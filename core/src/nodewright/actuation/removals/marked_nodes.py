"""Nodes with the mark of a removal: tainted while they are to go, and given back when they stay after all."""

from collections.abc import Collection

from nodewright.actuation.ports import ClusterWrites
from nodewright.actuation.removals.marks import hard_tainted, hard_untainted
from nodewright.actuation.removals.step import EVICTION_RETRY_SECONDS
from nodewright.model.clock import Clock
from nodewright.model.errors import KubeApiError
from nodewright.model.node import Node
from nodewright.model.settings import Settings


class MarkedNodes:
    """Writes the marks. What could not be taken off is owed, and tried again later; ``now`` in epoch seconds."""

    def __init__(self, cluster: ClusterWrites, clock: Clock) -> None:
        self._cluster, self._clock = cluster, clock
        # Nodes that are to be given back, and when that is tried again.
        self._owed: dict[str, float] = {}

    def due(self) -> Collection[float]:
        """When something that is owed is tried again (epoch seconds)."""
        return self._owed.values()

    def mark(self, name: str, now: float, settings: Settings) -> tuple[Node | None, str]:
        """The node as it was, or why it could not be tainted."""
        cordon = settings.drain.cordon_node_before_terminating
        try:
            node = self._cluster.edit_node(name, lambda held: hard_tainted(held, now, cordon=cordon))
        except KubeApiError as error:
            self._owed[name] = now + EVICTION_RETRY_SECONDS  # it may be written, and only the answer lost
            return None, str(error)
        self._owed.pop(name, None)
        return node, "the node is gone"

    def give_back(self, name: str, settings: Settings) -> None:
        """Take the taint off again; while that cannot be done it is owed."""
        uncordon, whoever = settings.drain.cordon_node_before_terminating, settings.is_ca
        try:
            self._cluster.edit_node(name, lambda held: hard_untainted(held, uncordon=uncordon, whoever=whoever))
        except KubeApiError:
            self._owed[name] = self._clock.now() + EVICTION_RETRY_SECONDS
        else:
            self._owed.pop(name, None)

    def repay(self, now: float, settings: Settings) -> None:
        """Give back what is owed and due."""
        for name in [name for name, due in self._owed.items() if due <= now]:
            self.give_back(name, settings)
