"""Removals that would only be undone, or that disturb the same pods again and again (issue 5, point 3).

CA knows neither; nor does it know quarantines, which groups are in where something else died with a machine.
"""

from collections import Counter

from nodewright.clusterstate.activity import MOVES_WINDOW
from nodewright.clusterstate.state import ClusterState
from nodewright.model.cluster import Job
from nodewright.model.meta import OwnerReference
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.settings import Settings
from nodewright.planner.scale_down.load import Load
from nodewright.planner.scale_down.trial import Removable
from nodewright.snapshot.workloads import Workloads


def reason_to_wait(state: ClusterState, found: Removable, settings: Settings) -> Unremovable | None:
    """Why a node that could go should not now, given what removals did of late; None when it may."""
    ref, memory, now = state.group_of_node[found.name], state.memory.scale_down, state.now
    quarantined, flapping = memory.quarantined_until.get(ref, 0.0), memory.flapping.get(ref)
    if settings.is_ca:
        return None
    if quarantined > now:
        text = f"group {ref} is left alone for {quarantined - now:.0f} s: machines went that nobody had asked to go"
        return Unremovable(code=UnremovableCode.QUARANTINED, message=text)
    if flapping is not None and flapping.until > now:
        text = (
            f"group {ref} grew again soon after it had shrunk, {flapping.turns} times running, the last time "
            f"{now - flapping.last:.0f} s ago; it keeps its nodes for another {flapping.until - now:.0f} s"
        )
        return Unremovable(code=UnremovableCode.FLAPPING, message=text)
    return _given_back(state, found.name) or _moved_too_often(
        state, found.moving, settings.scale_down.max_pod_moves_per_hour
    )


def _given_back(state: ClusterState, name: str) -> Unremovable | None:
    """Whether the last attempt to remove the node failed, and the pause after it is not over."""
    held = state.memory.scale_down.setbacks.get(name)
    if held is None or held.until <= state.now:
        return None
    times = f", {held.times} times running" if held.times > 1 else ""
    text = (
        f"the last attempt to remove it failed{times} ({held.message}); "
        f"the next one may begin in {held.until - state.now:.0f} s"
    )
    return Unremovable(code=UnremovableCode.GIVEN_BACK, message=text)


def _moved_too_often(state: ClusterState, moving: Load, most: int) -> Unremovable | None:
    """Whether the pods of some controller would have been moved more than ``most`` times each within an hour."""
    held = state.memory.scale_down.moves
    if not most or not held:
        return None
    count = Counter([kind.owner for kind in moving.kinds])
    for pod, kind in zip(moving.pods, moving.kinds, strict=True):
        key, owner = kind.owner, pod.metadata.controller
        if owner is None or key not in held:
            continue
        moved = sum(move.pods for move in held[key] if move.at + MOVES_WINDOW > state.now)
        replicas = _replicas(state.observation.workloads, pod.metadata.namespace, owner) or count[key]
        if moved + count[key] > most * replicas:
            text = (
                f"{owner.kind} {pod.metadata.namespace}/{owner.name} has {replicas} pods, and removals moved {moved} "
                f"of them within the last hour; no pod is to be moved more than {most} times"
            )
            return Unremovable(code=UnremovableCode.FLAPPING, pod=pod.key, message=text)
    return None


def _replicas(workloads: Workloads, namespace: str, owner: OwnerReference) -> int:
    """How many pods a controller keeps; 0 where that is not known."""
    controller = (workloads.controllers or {}).get((owner.kind, f"{namespace}/{owner.name}"))
    if isinstance(controller, Job):
        return controller.spec.parallelism or 1
    wanted = getattr(controller.spec, "replicas", None) if controller is not None else None
    return wanted or 0
