"""An option: one group that could grow, by how much, and which pods that would help."""

from dataclasses import dataclass

from nodewright.model.group import GroupRef
from nodewright.model.node import Node
from nodewright.model.pod import Pod


@dataclass(frozen=True, kw_only=True, eq=False)
class Option:
    """Grow one group by ``node_count`` nodes like ``node``; ``pods`` are the pending pods that this helps.

    ``hourly_price`` is USD for one node; None: unknown. ``requested`` is what all pods together request, by resource, in
    millicores and bytes. ``exists``: the group exists and need not be created first.
    """

    group: GroupRef
    node: Node
    node_count: int
    pods: tuple[Pod, ...]
    requested: dict[str, int]
    hourly_price: float | None = None
    has_gpu: bool = False
    exists: bool = True
