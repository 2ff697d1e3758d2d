"""For how long nodes have not been needed, and for how long they must (behaviour/down.md A3.5, A9)."""

from collections.abc import Iterable, Mapping

from nodewright.clusterstate.state import ClusterState, ScaleDownMemory
from nodewright.model.node import DELETION_CANDIDATE_TAINT
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.settings import Settings
from nodewright.planner.scale_down.taints import tainted_at
from nodewright.snapshot.snapshot import Snapshot


def since_before(
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


def too_early(state: ClusterState, name: str, since: float) -> Unremovable | None:
    """Why a node that is not needed must still wait; being exactly old enough is not enough."""
    needed = needed_seconds(state, name)
    if needed <= 0 or since + needed < state.now:
        return None
    ready = is_ready_node(state, name)
    what = "unneeded" if ready else "unready and unneeded"
    code = UnremovableCode.NOT_UNNEEDED_LONG_ENOUGH if ready else UnremovableCode.NOT_UNREADY_LONG_ENOUGH
    return Unremovable(code=code, message=f"{what} for {state.now - since:g} s, removable after {needed:g} s")
