"""Why is this node still there (issue 5, point 5)?"""

from collections.abc import Iterable
from math import isfinite

from nodewright.clusterstate.readiness import is_ready
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.action import DeleteInstances
from nodewright.model.node import Node
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.settings import Settings
from nodewright.planner.explain.outlook import outlook
from nodewright.planner.explain.picture import memory_of, planned_picture
from nodewright.planner.explain.values import GroupFacts, NodeExplanation, NodeFate, PodOutlook, Timers, Usage
from nodewright.planner.plan import Plan
from nodewright.planner.registration_deadline import last_moments_to_start
from nodewright.planner.scale_down.drainability import DrainOutcome
from nodewright.planner.scale_down.unneeded import needed_seconds
from nodewright.planner.scale_down.utilization import Measure, utilization_of
from nodewright.snapshot.snapshot import Snapshot

_OFF = "scale-down is off (--scale-down-enabled=false)"
_STARTING = "it has not started yet: it counts as a machine on its way until then"
_NOT_PLANNED = "no removals were planned in this loop"


def explain_node(state: ClusterState, plan: Plan, settings: Settings, name: str) -> NodeExplanation | None:
    """Why a node stays or when it goes, and what would become of its pods; None for a node that is not there.

    ``plan`` is what was planned for ``state`` under ``settings``.
    """
    there = state.observation.snapshot
    row = there.find_row(name)
    if row is None:
        return None
    picture, node, report = planned_picture(state, plan, settings), there.node(row), plan.scale_down
    is_seen = name in picture
    fate, removing = fate_of(state, plan, name), state.observation.removing.get(name)
    planned = next((removal for removal in report.removals if removal.node == name), None)
    reason = report.unremovable.get(name) or report.passed_over.get(name)
    told = reason if fate in (NodeFate.UNNEEDED, NodeFate.STAYS) else None
    pods = outlook(picture, name, state, plan, settings) if is_seen else ()
    return NodeExplanation(
        node=name,
        now=state.now,
        fate=fate,
        is_ready=is_ready(node, settings.templates),
        reason=told,
        note=_as_things_are(told, pods) if removing or planned or told else _note(state, plan, settings, node),
        removal=removing.removal if removing is not None else planned,
        stage=removing.stage if removing is not None else None,
        group=_group(state, name),
        usage=_usage(picture, name, state, settings) if is_seen else None,
        timers=_timers(state, plan, name),
        setback=back.message if (back := memory_of(state, plan).setbacks.get(name)) is not None else "",
        disputed=_disputed(state, node),
        pods=pods,
    )


def fate_of(state: ClusterState, plan: Plan, name: str) -> NodeFate:
    """What becomes of a node that is there."""
    report = plan.scale_down
    if name in state.observation.removing:
        return NodeFate.GOING
    if any(removal.node == name for removal in report.removals):
        return NodeFate.GOES
    if name in report.unneeded:
        return NodeFate.UNNEEDED
    return NodeFate.STAYS if name in report.unremovable or name in report.passed_over else NodeFate.UNJUDGED


def _disputed(state: ClusterState, node: Node) -> str:
    """Return what the cloud says of a machine that it calls failed although it ran; empty where it does not."""
    ref = state.group_of_node.get(node.name)
    reports = state.groups[ref].seen.disputed if ref is not None and ref in state.groups else ()
    own = node.spec.provider_id.lower()
    found = next((one for one in reports if (one.instance_id or "").lower() == own), None)
    return ": ".join(filter(None, (found.code, found.message))) if found is not None else ""


def _note(state: ClusterState, plan: Plan, settings: Settings, node: Node) -> str:
    """What is to be said of a node of which scale-down says nothing, or of one that it would remove and may not."""
    held = _held_back(plan, node)
    if held:
        return held
    if not settings.scale_down.scale_down_enabled:
        return _OFF
    if plan.halted or plan.cut_short:
        return plan.halted or plan.cut_short
    ref = state.group_of_node.get(node.name)
    is_starting = ref is not None and node.name in state.groups[ref].readiness.not_started
    return _STARTING if is_starting else _NOT_PLANNED


def _as_things_are(reason: Unremovable | None, pods: Iterable[PodOutlook]) -> str:
    """Of a node that is not looked at again yet: what another look would find."""
    if reason is None or reason.code != UnremovableCode.RECENTLY_UNREMOVABLE:
        return ""
    for pod in pods:
        if pod.code is not None:
            return f"as things are now, pod {pod.pod} would keep it ({pod.code})"
        if pod.fate is DrainOutcome.MOVE and not pod.place:
            return f"as things are now, pod {pod.pod} would find no other node"
    return "as things are now, it could be emptied"


def _held_back(plan: Plan, node: Node) -> str:
    """Why the node's removal was planned and waits."""
    own = node.spec.provider_id.lower()
    for held in plan.held_back:
        if isinstance(held.action, DeleteInstances) and own in {one.lower() for one in held.action.instance_ids}:
            return held.reason
    return ""


def _group(state: ClusterState, name: str) -> GroupFacts | None:
    ref = state.group_of_node.get(name)
    return facts_of(state.groups[ref]) if ref is not None and ref in state.groups else None


def facts_of(group: GroupState) -> GroupFacts:
    """The numbers of a group."""
    return GroupFacts(
        ref=group.ref,
        min_size=group.seen.group.min_size,
        max_size=group.seen.group.max_size,
        target=group.seen.target,
        ready=len(group.readiness.ready),
        whole=group.seen.options.zero_or_max_node_scaling,
    )


def _usage(picture: Snapshot, name: str, state: ClusterState, settings: Settings) -> Usage | None:
    """As eligibility measures it; a node without a group is measured by no threshold."""
    ref = state.group_of_node.get(name)
    if ref is None or ref not in state.groups:
        return None
    options, row, measure = state.groups[ref].seen.options, picture.row(name), Measure.of(state, settings)
    found = utilization_of(picture, row, measure, ignore_daemonsets=options.ignore_daemonsets_utilization)
    is_gpu = bool(measure.accelerators.count(picture.node(row))[0])
    return Usage(
        ratio=found.ratio if isfinite(found.ratio) and not found.problem else None,
        resource=found.resource,
        threshold=options.scale_down_gpu_utilization_threshold if is_gpu else options.scale_down_utilization_threshold,
        problem=found.problem,
    )


def _timers(state: ClusterState, plan: Plan, name: str) -> Timers:
    report, now = plan.scale_down, state.now
    since, memory = report.unneeded.get(name), memory_of(state, plan)
    recheck, setback = memory.recheck_at.get(name), memory.setbacks.get(name)
    return Timers(
        unneeded_since=since,
        removable_at=since + needed_seconds(state, name) if since is not None else None,
        cooldown_until=report.cooldown_until if report.cooldown_until > now else None,
        recheck_at=recheck if recheck is not None and recheck > now else None,
        given_back_at=setback.at if setback is not None else None,
        never_ready_until=_never_ready_until(state, name),
    )


def _never_ready_until(state: ClusterState, name: str) -> float | None:
    ref = state.group_of_node.get(name)
    group = state.groups.get(ref) if ref is not None else None
    return last_moments_to_start(group, state).get(name) if group is not None else None
