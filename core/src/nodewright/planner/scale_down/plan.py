"""Scale-down as a whole: what could go, since when, and what goes now (behaviour/down.md A1, A3)."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nodewright.model.group import GroupRef
from nodewright.model.reason import ScaleDownResult, Unremovable, UnremovableCode
from nodewright.model.settings import Settings
from nodewright.planner.candidates import Ground
from nodewright.planner.plan import ScaleDownReport
from nodewright.planner.scale_down.choose import Choice, choose
from nodewright.planner.scale_down.cooldown import cooldown_until
from nodewright.planner.scale_down.eligibility import find_eligible
from nodewright.planner.scale_down.examine import Examination, examine, update_interval
from nodewright.planner.scale_down.order import find_candidates, in_order
from nodewright.planner.scale_down.soft_taints import choose_marks
from nodewright.planner.scale_down.unneeded import since_before
from nodewright.registry.state import ClusterState, ScaleDownMemory


def forget_unneeded(state: ClusterState, settings: Settings) -> ScaleDownReport:
    """What a loop leaves that finds the cluster unfit: whatever was unneeded is needed until it is seen anew."""
    if not settings.scale_down.scale_down_enabled:
        return ScaleDownReport()
    memory = state.memory.scale_down
    return ScaleDownReport(memory=replace(memory, unneeded_since={}, updated_at=memory.updated_at or state.now))


def plan_scale_down(ground: Ground, grown: Iterable[GroupRef], wait: str) -> ScaleDownReport:
    """What could go and what goes; nothing does while there is something to ``wait`` for.

    ``grown`` are groups that grow in this loop.
    """
    state, settings, held = ground.state, ground.settings, ground.state.memory.scale_down
    nodes = [node for _, node in state.observation.snapshot.nodes() if node.name in ground.snapshot]
    before = since_before(held, nodes, settings, state.now)
    memory = replace(held, unneeded_since=before, grown_at={**held.grown_at, **dict.fromkeys(grown, state.now)})
    state = replace(state, memory=replace(state.memory, scale_down=memory))
    candidates = find_candidates(state, (node.name for node in nodes), settings)
    eligible = find_eligible(ground.snapshot, candidates.names, state, settings)
    names = in_order(eligible.names, ground.snapshot, settings, memory, state.now)
    destinations = (node.name for node in nodes if node.name not in state.observation.removing)
    found = examine(ground.snapshot, names, destinations, state, settings)
    since = {node.name: before.get(node.name, state.now) for node in found.removable}
    until, why = cooldown_until(memory, settings.scale_down)
    wait = wait or (why if until > state.now else "")
    waiting = {name: Unremovable(code=UnremovableCode.IN_COOLDOWN, message=wait) for name in since}
    choice = Choice(waiting=waiting) if wait else choose(ground, found.removable, since, eligible.utilization)
    marks = choose_marks(state, since.keys(), nodes, settings.scale_down.max_bulk_soft_taint_count)
    recheck_at = _recheck_at(memory, ground, found, settings)
    return ScaleDownReport(
        result=_result(choice, bool(candidates.names), bool(wait)),
        removals=choice.removals,
        unneeded=since,
        unremovable={**eligible.unremovable, **found.unremovable, **choice.stay},
        passed_over={**candidates.passed_over, **found.skipped, **choice.waiting},
        utilization=eligible.utilization,
        mark=marks[0],
        unmark=marks[1],
        cooldown_until=until,
        memory=replace(
            held,
            unneeded_since=since,
            recheck_at=recheck_at,
            hints=found.hints,
            interval=update_interval(memory, settings, state.now),
            updated_at=state.now,
        ),
    )


def _result(choice: Choice, any_candidates: bool, waits: bool) -> ScaleDownResult:
    if waits:
        return ScaleDownResult.IN_COOLDOWN
    if not any_candidates:
        return ScaleDownResult.NO_CANDIDATES
    return ScaleDownResult.STARTED if choice.removals else ScaleDownResult.NO_NODE_DELETED


def _recheck_at(memory: ScaleDownMemory, ground: Ground, found: Examination, settings: Settings) -> Mapping[str, float]:
    """When nodes that a simulation showed to be needed are looked at again."""
    now, later = ground.state.now, settings.scale_down.unremovable_node_recheck_timeout
    held = {name: at for name, at in memory.recheck_at.items() if at > now and name in ground.snapshot}
    return held | dict.fromkeys(found.unremovable, now + later)
