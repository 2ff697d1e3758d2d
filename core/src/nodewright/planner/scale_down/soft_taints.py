"""Which nodes get the soft taint of a deletion candidate, and which lose it (behaviour/down.md A16)."""

from collections.abc import Collection
from itertools import islice

import numpy as np

from nodewright.clusterstate.state import ClusterState
from nodewright.model.node import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT
from nodewright.snapshot.column import Mask
from nodewright.snapshot.node_table import NodeTable
from nodewright.snapshot.snapshot import Snapshot


def choose_marks(
    state: ClusterState, unneeded: Collection[str], snapshot: Snapshot, most: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Nodes to mark and nodes to unmark, together at most ``most``; taking marks off goes first.

    A mark that is there is never renewed, so that it tells since when. Nodes under deletion are left as they are.
    """
    if not most:
        return (), ()
    soft, hard = _having(snapshot, DELETION_CANDIDATE_TAINT), _having(snapshot, TO_BE_DELETED_TAINT)
    marked = (snapshot.name(row) for row in np.flatnonzero(soft & ~hard & snapshot.alive).tolist())
    stale = (name for name in marked if name not in unneeded and name in state.group_of_node)
    unmark = tuple(islice(stale, most))
    rows = sorted(snapshot.row(name) for name in unneeded)
    fresh = (snapshot.name(row) for row in rows if not soft[row] and not hard[row])
    return tuple(islice(fresh, most - len(unmark))), unmark


def _having(snapshot: Snapshot, key: str) -> Mask:
    def of_nodes(table: NodeTable, window: slice) -> Mask:
        nodes = (table.template(row) for row in range(window.start, window.stop))
        return np.array([any(taint.key == key for taint in node.spec.taints) for node in nodes], dtype=np.bool_)

    having: Mask = snapshot.column(("taint", key), of_nodes)
    return having
