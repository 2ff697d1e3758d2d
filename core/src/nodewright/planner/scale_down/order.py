"""Which nodes may be candidates for removal, and in what order they are looked at (behaviour/down.md A2)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nodewright.model.group import GroupRef
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.settings import ScaleDownSettings, Settings
from nodewright.planner.scale_down.drainability import judge_pods
from nodewright.registry.state import ClusterState, ScaleDownMemory
from nodewright.snapshot.snapshot import Snapshot
from nodewright.snapshot.workloads import Workloads

_UNLISTED = Workloads()


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """``names`` in the order of nodes; ``passed_over`` says why the others of the nodes are none."""

    names: tuple[str, ...] = ()
    passed_over: Mapping[str, Unremovable] = field(default_factory=dict)


def find_candidates(state: ClusterState, names: Iterable[str], settings: Settings) -> Candidates:
    """Nodes whose group could do with one less, and may be asked to."""
    obstacles = {ref: _obstacle(state, ref, settings) for ref in state.groups}
    found: list[str] = []
    passed_over: dict[str, Unremovable] = {}
    for name in names:
        ref = state.group_of_node.get(name)
        if name in state.observation.removing:
            passed_over[name] = _UNDER_WAY
        elif ref is None:
            passed_over[name] = _NO_GROUP
        elif (obstacle := obstacles[ref]) is not None:
            passed_over[name] = obstacle
        else:
            found.append(name)
    return Candidates(names=tuple(found), passed_over=passed_over)


def in_order(
    names: Sequence[str], snapshot: Snapshot, settings: Settings, memory: ScaleDownMemory, now: float
) -> list[str]:
    """Empty nodes first, then those that were not needed before; among equals, in the order given."""

    def rank(name: str) -> tuple[bool, bool, bool]:
        verdict = judge_pods(snapshot.pods(snapshot.row(name)), _UNLISTED, None, settings.drain, now)
        return not verdict.is_empty, bool(verdict.on_completion), name not in memory.unneeded_since

    return sorted(names, key=rank)


def larger_first(names: Sequence[str], state: ClusterState, similar: Mapping[GroupRef, int]) -> list[str]:
    """Nodes of one rank, those of groups that are larger than their like first."""
    sizes = {ref: state.groups[ref].seen.target or 0 for ref in similar}
    order = np.argsort([-sizes.get(state.group_of_node[name], 0) for name in names], kind="stable")
    return [names[index] for index in order.tolist()]


_UNDER_WAY = Unremovable(code=UnremovableCode.BEING_DELETED, message="its removal is under way")
_NO_GROUP = Unremovable(code=UnremovableCode.NOT_AUTOSCALED, message="it belongs to no node group")


def _obstacle(state: ClusterState, ref: GroupRef, settings: Settings) -> Unremovable | None:
    """Why no node of a group may go, whichever it is."""
    seen, memory = state.observation.groups[ref], state.memory.scale_down
    if not seen.is_known or seen.target is None:
        return Unremovable(code=UnremovableCode.UNEXPECTED, message=f"group {ref} cannot be read: {seen.problem}")
    if seen.target <= seen.group.min_size:
        text = f"group {ref} has {seen.target} nodes and may have no less than {seen.group.min_size}"
        return Unremovable(code=UnremovableCode.MIN_SIZE_REACHED, message=text)
    return _local_delay(ref, memory, settings.scale_down, state.now)


def _local_delay(ref: GroupRef, memory: ScaleDownMemory, settings: ScaleDownSettings, now: float) -> Unremovable | None:
    """With delays for each group of its own: a group that grew, shrank or failed to of late is left alone."""
    if not settings.scale_down_delay_type_local:
        return None
    delays = (
        ("grew", memory.grown_at, settings.scale_down_delay_after_add),
        ("shrank", memory.shrunk_at, settings.scale_down_delay_after_delete),
        ("failed to shrink", memory.failed_at, settings.scale_down_delay_after_failure),
    )
    for what, moments, delay in delays:
        if ref in moments and moments[ref] + delay > now:
            text = f"group {ref} {what} less than {delay:g} s ago"
            return Unremovable(code=UnremovableCode.IN_COOLDOWN, message=text)
    return None
