"""Soft taints: a hint to schedulers that a node may go soon (behaviour/down.md A16)."""

from collections.abc import Sequence

from nodewright.actuation.ports import ClusterWrites
from nodewright.actuation.removals.marks import NodeEdit, has_taint, soft_tainted, soft_untainted
from nodewright.model.clock import Clock
from nodewright.model.errors import KubeApiError
from nodewright.model.node import TO_BE_DELETED_TAINT, Node
from nodewright.model.settings import ScaleDownSettings


def move_soft_taints(
    cluster: ClusterWrites, clock: Clock, *, mark: Sequence[str], unmark: Sequence[str], settings: ScaleDownSettings
) -> None:
    """Take them off, then put them on, until attempts or time are used up; the rest waits for the next loop."""
    began = clock.now()

    def add(node: Node) -> Node:
        return node if has_taint(node, TO_BE_DELETED_TAINT) else soft_tainted(node, began)

    def drop(node: Node) -> Node:
        return node if has_taint(node, TO_BE_DELETED_TAINT) else soft_untainted(node)

    edits: list[tuple[str, NodeEdit]] = [*((name, drop) for name in unmark), *((name, add) for name in mark)]
    for name, edit in edits[: settings.max_bulk_soft_taint_count]:
        if clock.now() - began >= settings.max_bulk_soft_taint_time:
            return
        try:
            cluster.edit_node(name, edit)
        except KubeApiError:
            continue
