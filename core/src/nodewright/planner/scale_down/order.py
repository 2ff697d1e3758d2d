"""Which nodes may be candidates for removal, and in what order they are looked at (behaviour/down.md A2)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from nodewright.clusterstate.state import ClusterState, ScaleDownMemory
from nodewright.model.group import GroupRef
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.settings import ScaleDownSettings, Settings
from nodewright.planner.candidates import ScaleUpContext
from nodewright.planner.scale_down.drain_rules import SAFE_TO_EVICT, DrainabilityRules
from nodewright.planner.scale_down.drainability import Verdicts, judge_load
from nodewright.planner.scale_down.eligibility import NO_GROUP
from nodewright.planner.scale_down.larger import Balance
from nodewright.planner.scale_down.load import PodKind, find_kinds, find_loads
from nodewright.snapshot.roll import find_rolls
from nodewright.snapshot.workloads import Workloads


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """``names`` in the order of nodes; ``passed_over`` says why the others of the nodes are none.

    ``count`` includes those whose removal is under way.
    """

    names: tuple[str, ...] = ()
    count: int = 0
    passed_over: Mapping[str, Unremovable] = field(default_factory=dict)


def find_candidates(state: ClusterState, names: Iterable[str], settings: Settings) -> Candidates:
    """Nodes whose group could do with one less, and may be asked to."""
    obstacles = {ref: _obstacle(state, ref, settings) for ref in state.groups}
    group_of_node, removing, names = state.group_of_node, state.observation.removing, tuple(names)
    if not removing and not any(obstacles.values()) and None not in map(group_of_node.get, names):
        return Candidates(names=names, count=len(names))  # as in most loops
    found: list[str] = []
    passed_over: dict[str, Unremovable] = {}
    going = 0
    for name in names:
        ref = group_of_node.get(name)
        obstacle = obstacles[ref] if ref is not None else NO_GROUP
        under_way = name in removing
        going += under_way and obstacle is None
        if under_way:
            passed_over[name] = _UNDER_WAY
        elif obstacle is not None:
            passed_over[name] = obstacle
        else:
            found.append(name)
    return Candidates(names=tuple(found), count=len(found) + going, passed_over=passed_over)


def in_order(names: Sequence[str], ground: ScaleUpContext, balance: Balance | None) -> list[str]:
    """Empty nodes first, then those that were not needed before; among equals, in the order given, or balanced."""
    snapshot = ground.snapshot
    verdicts = Verdicts(
        DrainabilityRules(Workloads(), None, ground.settings.drain, ground.state.now, ground.settings.is_ca)
    )
    before = ground.state.memory.scale_down.unneeded_since
    rows = [snapshot.row(name) for name in names]

    def rank(name: str, row: int, kinds: Iterable[PodKind]) -> tuple[bool, bool, bool]:
        if _is_ordinary(kinds):
            return True, False, name not in before
        verdict = judge_load(find_loads(snapshot, (row,))[0], verdicts)
        return not verdict.is_empty, bool(verdict.on_completion), name not in before

    found = [roll.once(find_kinds) for roll in find_rolls(snapshot, rows)]
    ranks = {name: rank(name, row, kinds) for name, row, kinds in zip(names, rows, found, strict=True)}
    ranked = sorted(names, key=ranks.__getitem__)
    if balance is None:
        return ranked
    return [name for _, equals in groupby(ranked, ranks.__getitem__) for name in balance.ordered(list(equals))]


def _is_ordinary(kinds: Iterable[PodKind]) -> bool:
    """Whether some pod is to be moved or blocks, whatever the time and the settings, and none is to be waited for."""
    found = False
    for kind in kinds:
        pod, annotations = kind.pod, kind.pod.metadata.annotations
        if annotations.get(SAFE_TO_EVICT) == "on-completion":
            return False
        found = found or not (pod.metadata.deletion_timestamp or pod.is_mirror or pod.is_daemonset_pod)
    return found


_UNDER_WAY = Unremovable(code=UnremovableCode.BEING_DELETED, message="its removal is under way")


def _obstacle(state: ClusterState, ref: GroupRef, settings: Settings) -> Unremovable | None:
    """Why no node of a group may go, whichever it is."""
    observed, seen, memory = state.observation.groups[ref], state.groups[ref].seen, state.memory.scale_down
    if not observed.is_known or seen.target is None:
        return Unremovable(code=UnremovableCode.UNEXPECTED, message=f"group {ref} cannot be read: {observed.problem}")
    if ref in state.left_out:
        text = f"the cluster is unhealthy, and group {ref} is at fault: no node of it goes until it is better"
        return Unremovable(code=UnremovableCode.UNHEALTHY_GROUP, message=text)
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
