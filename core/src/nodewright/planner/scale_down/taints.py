"""The time that a mark on a node tells (behaviour/down.md A13)."""

from nodewright.model.node import Node
from nodewright.predicates.selectors import parse_int64


def tainted_at(node: Node, key: str) -> float | None:
    """When a node got its taint (epoch seconds); None without one, or where its value is no time."""
    value = next((taint.value for taint in node.spec.taints if taint.key == key), "")
    moment = parse_int64(value)
    return float(moment) if moment is not None else None
