"""The whole plan of one loop (design.md §3, behaviour/up.md §1.2)."""

from collections.abc import Callable, Mapping
from random import Random

from nodewright.model.action import DecreaseTargetSize, DeleteInstances, IncreaseSize
from nodewright.model.group import GroupRef
from nodewright.model.limits import make_resource_limits
from nodewright.model.pod import Pod
from nodewright.model.reason import ScaleUpResult
from nodewright.model.settings import Settings, SizeCorrection
from nodewright.planner.candidates import Ground
from nodewright.planner.correction import Restored, restore_as_seed, restore_promptly
from nodewright.planner.correction_ca import restore_as_ca
from nodewright.planner.gate import count_ready_nodes, reason_to_wait
from nodewright.planner.hints import Hints
from nodewright.planner.min_size import plan_min_sizes
from nodewright.planner.pending import (
    drop_passed_over,
    find_daemons,
    find_pending,
    find_recreated,
    split_young,
    take_fitting,
)
from nodewright.planner.plan import Plan, PlannedAction, ScaleDownReport, ScaleUpReport
from nodewright.planner.quota import Quota
from nodewright.planner.salvo import plan_rounds
from nodewright.planner.scale_down import forget_unneeded, plan_scale_down
from nodewright.planner.scale_up import ScaleUp
from nodewright.planner.template import make_templates
from nodewright.planner.upcoming import add_upcoming
from nodewright.registry.accelerators import Accelerators
from nodewright.registry.state import ClusterState
from nodewright.snapshot.observation import GroupSeen

UNHEALTHY = "cluster is unhealthy: too many nodes are not ready"
ALL_NEW = "all pods that wait are very new, and more may come"
NO_READY_NODES = "cluster has no ready nodes, and --scale-up-from-zero is off"

_RESTORE: Mapping[SizeCorrection, Callable[[ClusterState, Settings], Restored]] = {
    "prompt": restore_promptly,
    "seed": restore_as_seed,
    "ca": restore_as_ca,
}


def make_plan(state: ClusterState, settings: Settings, random: Random) -> Plan:
    """What to do now, and why. Pure: the same state, settings and chance give the same plan."""
    restored = _RESTORE[settings.size_correction](state, settings)
    state, actions = restored.state, list[PlannedAction](restored.actions)
    if not state.healthy:
        return Plan(actions=tuple(actions), halted=UNHEALTHY, scale_down=forget_unneeded(state, settings))
    if not settings.loop.scale_up_from_zero and not count_ready_nodes(state, settings):
        kept = () if settings.is_ca else tuple(actions)
        return Plan(actions=kept, halted=NO_READY_NODES, scale_down=forget_unneeded(state, settings))
    if restored.cut_short:
        return Plan(actions=tuple(actions), cut_short=restored.cut_short)
    pods = find_pending(state.observation.pending, settings.pods)
    old, young = split_young(pods, settings.pods, state.now)
    old += find_recreated(state.observation.snapshot, state.observation.removing, settings.pods)
    removes, enforces = settings.scale_down.scale_down_enabled, settings.scale_up.enforce_node_group_min_size
    if not old and not enforces and not removes:
        return Plan(actions=tuple(actions), waiting=tuple(young))
    # CA plans on as if its corrections had been carried out; here their outcome is awaited.
    awaits = settings.size_correction != "ca"
    corrected = frozenset(action.group for action in restored.actions if awaits and not _gives_way(action, settings))
    ground = _prepare(state, settings, corrected)
    return _plan_loop(ground, actions, old, young, random)


def _plan_loop(ground: Ground, actions: list[PlannedAction], old: list[Pod], young: list[Pod], random: Random) -> Plan:
    """Growth for pods that have waited long enough, minimum sizes and removals; ``actions`` are the corrections."""
    settings = ground.settings
    removes = settings.scale_down.scale_down_enabled
    hints = Hints(before=ground.state.memory.scale_down.pending_hints) if removes else None
    daemons = find_daemons(old)
    fitting, left = take_fitting(ground.snapshot, old, hints)
    reports = _scale_up(ground, [pod for pod in left if id(pod) not in daemons] if daemons else left, random, actions)
    min_size = None
    if settings.scale_up.enforce_node_group_min_size:
        grown = {expansion.group: expansion.target for report in reports for expansion in report.expansions}
        increases, min_size = plan_min_sizes(ground, grown)
        actions += increases
    actions = _growth_first(actions, settings)
    if settings.size_correction == "prompt":
        actions.sort(key=lambda action: isinstance(action, DeleteInstances))  # pods wait for no deletion that hangs
    return Plan(
        actions=tuple(actions),
        scale_up=reports[0],
        salvo=tuple(reports[1:]),
        min_size=min_size,
        fitting=tuple(fitting),
        waiting=tuple(young),
        scale_down=_scale_down(ground, actions, reports, hints) if hints is not None else ScaleDownReport(),
    )


def _gives_way(action: PlannedAction, settings: Settings) -> bool:
    """Is it the removal of machines that never joined? It may wait, for a budget or a second look too, and pods may not."""
    return settings.size_correction == "prompt" and isinstance(action, DeleteInstances) and not action.failure_ids


def _growth_first(actions: list[PlannedAction], settings: Settings) -> list[PlannedAction]:
    """One write a group: where pods or the minimum want it to grow, what may wait does."""
    growing = {action.group for action in actions if isinstance(action, IncreaseSize)}
    return [action for action in actions if action.group not in growing or not _gives_way(action, settings)]


def _scale_down(
    ground: Ground, actions: list[PlannedAction], reports: list[ScaleUpReport], hints: Hints
) -> ScaleDownReport:
    """Plan removals, in the picture that holds pods that fit; groups that grow for pods now have just grown."""
    grown = {expansion.group for report in reports for expansion in report.expansions}
    wait = ALL_NEW if reports[0].result == ScaleUpResult.IN_COOLDOWN else ""
    seen = ground.state.observation.groups
    targets = {action.group: _target_after(action, seen[action.group]) for action in actions}
    report = plan_scale_down(ground, targets, grown, wait)
    return report.with_memory(pending_hints=hints.fresh)


def _target_after(action: PlannedAction, group: GroupSeen) -> int:
    """The target once the action is done; a cloud refuses a decrease below the machines that exist."""
    if isinstance(action, DeleteInstances):
        return action.expected_target - len(action.instance_ids)
    if isinstance(action, DecreaseTargetSize) and action.target < len(group.instances or ()):
        return action.expected_target
    return action.target


def _prepare(state: ClusterState, settings: Settings, corrected: frozenset[GroupRef]) -> Ground:
    """The picture to plan in: expendable pods gone, machines on their way there."""
    templates = make_templates(state, settings.templates)
    snapshot = state.observation.snapshot.fork()
    drop_passed_over(snapshot, settings)
    add_upcoming(snapshot, state, templates)
    accelerators = Accelerators.of(state.observation.providers.values())
    return Ground(
        state=state,
        settings=settings,
        snapshot=snapshot,
        templates=templates,
        quota=Quota(snapshot, make_resource_limits(settings.limits), accelerators),
        accelerators=accelerators,
        corrected=corrected,
    )


def _scale_up(ground: Ground, pods: list[Pod], random: Random, actions: list[PlannedAction]) -> list[ScaleUpReport]:
    """Plan growth for pods that fit nowhere."""
    if not pods:
        return [ScaleUpReport()]
    wait = reason_to_wait(ground, pods)
    if wait is not None:
        return [ScaleUp(ground, pods, random).postpone(wait)]
    increases, reports = plan_rounds(ground, pods, random)
    actions += increases
    return reports
