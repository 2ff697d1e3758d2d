"""Unneeded nodes: since when, how long a node must be unneeded, and the soft taints that show it."""

from collections.abc import Collection, Iterable, Mapping
from itertools import islice

import numpy as np

from nodewright.clusterstate.memory import ScaleDownMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.model.node import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT, Node
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.predicates.selectors import parse_int64
from nodewright.snapshot.column import Mask
from nodewright.snapshot.node_table import NodeTable
from nodewright.snapshot.snapshot import Snapshot


def restored_unneeded_since(
    memory: ScaleDownMemory, snapshot: Snapshot, names: Iterable[str], ttl: float, now: float
) -> Mapping[str, float]:
    """Return node name → since when it is unneeded, as the last loop left it (epoch seconds).

    With a ``ttl`` (``--node-deletion-candidate-ttl``, seconds), the first loop of a new engine also reads soft taints that
    are younger than that. Memory takes precedence over taints. A taint with a time in the future counts as set now.
    """
    if memory.updated_at or not ttl:
        return memory.unneeded_since
    times = ((name, tainted_at(snapshot.node(snapshot.row(name)), DELETION_CANDIDATE_TAINT)) for name in names)
    return {name: min(at, now) for name, at in times if at is not None and at + ttl >= now} | dict(
        memory.unneeded_since
    )


def is_ready_node(state: ClusterState, name: str) -> bool:
    """Return whether the node counts as ready in its group."""
    return name in state.groups[state.group_of_node[name]].readiness.ready_names


def needed_seconds(state: ClusterState, name: str) -> float:
    """Return how many seconds a node must be unneeded before it is removed: by its group's options, also for unready nodes."""
    options = state.groups[state.group_of_node[name]].seen.options
    ready = is_ready_node(state, name)
    return options.scale_down_unneeded_seconds if ready else options.scale_down_unready_seconds


def reason_not_old_enough(state: ClusterState, name: str, since: float) -> Unremovable | None:
    """Return why an unneeded node must still wait; None once it has been unneeded for longer than necessary."""
    needed = needed_seconds(state, name)
    if needed <= 0 or since + needed < state.now:
        return None
    ready = is_ready_node(state, name)
    what = "unneeded" if ready else "unready and unneeded"
    code = UnremovableCode.NOT_UNNEEDED_LONG_ENOUGH if ready else UnremovableCode.NOT_UNREADY_LONG_ENOUGH
    return Unremovable(code=code, message=f"{what} for {state.now - since:g} s, must be for more than {needed:g} s")


def tainted_at(node: Node, key: str) -> float | None:
    """Return when a node got its taint (epoch seconds); None without the taint, or if its value is not a time."""
    value = next((taint.value for taint in node.spec.taints if taint.key == key), "")
    moment = parse_int64(value)
    return float(moment) if moment is not None else None


def choose_soft_taints(
    state: ClusterState, unneeded: Collection[str], snapshot: Snapshot, most: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the nodes to taint and the nodes to untaint as deletion candidates, together at most ``most``.

    Untainting goes first. An existing taint is never renewed: its time says since when the node is unneeded. Nodes under
    deletion keep their taints.
    """
    if not most:
        return (), ()
    soft, hard = _have_taint(snapshot, DELETION_CANDIDATE_TAINT), _have_taint(snapshot, TO_BE_DELETED_TAINT)
    tainted = (snapshot.name(row) for row in np.flatnonzero(soft & ~hard & snapshot.alive).tolist())
    stale = (name for name in tainted if name not in unneeded and name in state.group_of_node)
    untaint = tuple(islice(stale, most))
    rows = sorted(snapshot.row(name) for name in unneeded)
    fresh = (snapshot.name(row) for row in rows if not soft[row] and not hard[row])
    return tuple(islice(fresh, most - len(untaint))), untaint


def _have_taint(snapshot: Snapshot, key: str) -> Mask:
    def of_nodes(table: NodeTable, window: slice) -> Mask:
        nodes = (table.template(row) for row in range(window.start, window.stop))
        return np.array([any(taint.key == key for taint in node.spec.taints) for node in nodes], dtype=np.bool_)

    mask: Mask = snapshot.column(("taint", key), of_nodes)
    return mask
