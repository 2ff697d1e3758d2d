"""Which nodes get the soft taint of a deletion candidate, and which lose it (behaviour/down.md A16)."""

from collections.abc import Collection, Iterable
from itertools import islice

from nodewright.model.node import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT, Node
from nodewright.registry.state import ClusterState


def choose_marks(
    state: ClusterState, unneeded: Collection[str], nodes: Iterable[Node], most: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Nodes to mark and nodes to unmark, together at most ``most``; taking marks off goes first.

    A mark that is there is never renewed, so that it tells since when. Nodes under deletion are left as they are.
    """
    if not most:
        return (), ()
    own = [node for node in nodes if node.name in state.group_of_node and not _has(node, TO_BE_DELETED_TAINT)]
    stale = (node.name for node in own if node.name not in unneeded and _has(node, DELETION_CANDIDATE_TAINT))
    unmark = tuple(islice(stale, most))
    fresh = (node.name for node in own if node.name in unneeded and not _has(node, DELETION_CANDIDATE_TAINT))
    return tuple(islice(fresh, most - len(unmark))), unmark


def _has(node: Node, key: str) -> bool:
    return any(taint.key == key for taint in node.spec.taints)
