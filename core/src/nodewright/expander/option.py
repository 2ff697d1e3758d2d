"""An expansion that could be chosen."""

from dataclasses import dataclass

from nodewright.model.group import GroupRef
from nodewright.model.node import Node
from nodewright.model.pod import Pod


@dataclass(frozen=True, kw_only=True, eq=False)
class Option:
    """Grow one group: by how many nodes like ``node``, and which pending pods that helps.

    ``hourly_price`` is USD for one node, None where unknown. ``requested`` is what the pods ask in all, by
    resource, in millicores and bytes. ``exists``: the group need not be made first.
    """

    group: GroupRef
    node: Node
    node_count: int
    pods: tuple[Pod, ...]
    requested: dict[str, int]
    hourly_price: float | None = None
    has_gpu: bool = False
    exists: bool = True
