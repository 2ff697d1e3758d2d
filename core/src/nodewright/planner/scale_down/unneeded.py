"""For how long nodes have not been needed, and for how long they must (behaviour/down.md A3.5, A9).

The time that a mark on a node tells (behaviour/down.md A13).

Which nodes get the soft taint of a deletion candidate, and which lose it (behaviour/down.md A16)."""

from collections.abc import Collection, Iterable, Mapping
from itertools import islice

import numpy as np

from nodewright.clusterstate.memory import ScaleDownMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.model.node import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT, Node
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.settings import Settings
from nodewright.predicates.selectors import parse_int64
from nodewright.snapshot.column import Mask
from nodewright.snapshot.node_table import NodeTable
from nodewright.snapshot.snapshot import Snapshot


def restored_unneeded_since(
    memory: ScaleDownMemory, snapshot: Snapshot, names: Iterable[str], settings: Settings, now: float
) -> Mapping[str, float]:
    """Return since when nodes have not been needed, as the last loop left it.

    A new engine that keeps to CA's ways begins with what soft taints say that are younger than their time to live;
    ours knows better from its memory. A taint of the future is one of now.
    """
    ttl = settings.scale_down.node_deletion_candidate_ttl
    if memory.updated_at or not ttl:
        return memory.unneeded_since
    times = ((name, tainted_at(snapshot.node(snapshot.row(name)), DELETION_CANDIDATE_TAINT)) for name in names)
    return {name: min(at, now) for name, at in times if at is not None and at + ttl >= now} | dict(
        memory.unneeded_since
    )


def is_ready_node(state: ClusterState, name: str) -> bool:
    return name in state.groups[state.group_of_node[name]].readiness.ready_names


def needed_seconds(state: ClusterState, name: str) -> float:
    """How long a node of a group must have been unneeded: longer for one that is not ready."""
    options = state.groups[state.group_of_node[name]].seen.options
    ready = is_ready_node(state, name)
    return options.scale_down_unneeded_seconds if ready else options.scale_down_unready_seconds


def reason_not_old_enough(state: ClusterState, name: str, since: float) -> Unremovable | None:
    """Why a node that is not needed must still wait; being exactly old enough is not enough."""
    needed = needed_seconds(state, name)
    if needed <= 0 or since + needed < state.now:
        return None
    ready = is_ready_node(state, name)
    what = "unneeded" if ready else "unready and unneeded"
    code = UnremovableCode.NOT_UNNEEDED_LONG_ENOUGH if ready else UnremovableCode.NOT_UNREADY_LONG_ENOUGH
    return Unremovable(code=code, message=f"{what} for {state.now - since:g} s, removable after {needed:g} s")


def tainted_at(node: Node, key: str) -> float | None:
    """When a node got its taint (epoch seconds); None without one, or where its value is no time."""
    value = next((taint.value for taint in node.spec.taints if taint.key == key), "")
    moment = parse_int64(value)
    return float(moment) if moment is not None else None


def choose_soft_taints(
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
