"""A scale-up option: a group that could grow, by how many nodes, and the pods that this would help."""

from dataclasses import dataclass

from nodewright.model.group import GroupRef
from nodewright.model.node import Node
from nodewright.model.pod import Pod


@dataclass(frozen=True, kw_only=True, eq=False)
class Option:
    """Grow one group by ``node_count`` nodes like ``node``; ``pods`` are the pending pods that this helps.

    ``hourly_price`` is in USD for one node; None: unknown. ``paid_nodes`` of the nodes are paid already and cost nothing.
    ``requested`` is the sum of the pods' requests: ``cpu`` in millicores, ``memory`` in bytes. ``exists``: the group exists;
    if false it must be created first.
    """

    group: GroupRef
    node: Node
    node_count: int
    pods: tuple[Pod, ...]
    requested: dict[str, int]
    hourly_price: float | None = None
    paid_nodes: int = 0
    has_gpu: bool = False
    exists: bool = True

    @property
    def price(self) -> float | None:
        """Return what all its nodes cost, in USD an hour; None: unknown."""
        return self.hourly_price * (self.node_count - self.paid_nodes) if self.hourly_price is not None else None
