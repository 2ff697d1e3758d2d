"""Explain why a node is still there, and what would happen to its pods if it were drained."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from math import isfinite

import msgspec

from nodewright.clusterstate.readiness import is_ready
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.action import DeleteInstances
from nodewright.model.duration import format_moment
from nodewright.model.group import GroupRef
from nodewright.model.move import MovePause
from nodewright.model.node import Node
from nodewright.model.plan import Plan
from nodewright.model.policy import Policy
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.removal import NodeRemoval, RemovalStage
from nodewright.model.settings import ScaleDownSettings, Settings
from nodewright.planner.consolidation.sources import why_outside
from nodewright.planner.context import PlanningContext
from nodewright.planner.explain.node_move import explain_move
from nodewright.planner.explain.planned_snapshot import planned_snapshot
from nodewright.planner.explain.pods import PodAfterDrain, explain_pods
from nodewright.planner.late_machines import startup_deadlines
from nodewright.planner.scale_down.drainability import DrainOutcome
from nodewright.planner.scale_down.unneeded import needed_seconds
from nodewright.planner.scale_down.utilization import Measure, utilization_of
from nodewright.snapshot.snapshot import Snapshot


class NodeNote(StrEnum):
    """The texts of ``NodeExplanation.note`` that are written here (docs/behaviour/reasons.md); others come with the plan."""

    SCALE_DOWN_OFF = "scale-down is off (--scale-down-enabled=false)"
    NOT_STARTED = "it has not started yet: it counts as a machine on its way until then"
    NOT_PLANNED = "no removals were planned in this loop"
    POD_WOULD_KEEP_IT = "as things are now, pod {pod} would keep it ({code})"
    POD_WOULD_FIND_NO_NODE = "as things are now, pod {pod} would find no other node"
    COULD_BE_EMPTIED = "as things are now, it could be emptied"


class NodeOutcome(StrEnum):
    """The outcome of a plan for a node.

    GOING: its removal is under way. GOES: its removal starts with this plan. UNNEEDED: it may be removed later. STAYS: it
    cannot be removed. NOT_EVALUATED: scale-down did not look at it.
    """

    GOING = "going"
    GOES = "goes"
    UNNEEDED = "unneeded"
    STAYS = "stays"
    NOT_EVALUATED = "not_evaluated"


class GroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a node group, in machines; ``target`` is None if it is not known.

    ``whole``: the group is scaled to zero or to its maximum only.
    """

    ref: GroupRef
    min_size: int
    max_size: int
    target: int | None
    ready: int
    whole: bool


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Utilization of a node: the share requested of its scarcest resource, and the threshold below which it is unneeded.

    ``ratio`` is None if it is not finite (pods request a resource of which the node has none) or if there is a ``problem``.
    """

    ratio: float | None
    resource: str
    threshold: float
    problem: str = ""


class Timers(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds since the epoch; None: there is none.

    The node has been unneeded since ``unneeded_since`` and may be removed after ``removable_at``. No removal begins in
    the cluster before ``cooldown_until``. A node that could not be drained is simulated again at ``recheck_at``.
    ``last_failed_at`` is when the last attempt to remove the node failed. The machine of a node that is not ready by
    ``never_ready_until`` is deleted.
    """

    unneeded_since: float | None = None
    removable_at: float | None = None
    cooldown_until: float | None = None
    recheck_at: float | None = None
    last_failed_at: float | None = None
    never_ready_until: float | None = None


class NodeExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The reason for which a node is still there, according to the plan made at ``now`` (seconds since the epoch).

    ``reason`` is why it stays or waits. ``removal`` is the removal that is planned or under way, ``stage`` how far that
    has come. ``last_failure`` is why the last attempt failed, ``disputed`` why the cloud reports its machine as a failed
    creation although it ran. ``interruption`` says when the cloud takes its machine, ``move`` which move removes it or why
    none does, ``outdated`` why the node is to be replaced, and what prevents that now. ``note`` explains a node without
    ``reason`` and ``removal``, or says what a new simulation would find for a node that is simulated again later.
    """

    node: str
    now: float
    outcome: NodeOutcome
    is_ready: bool
    reason: Unremovable | None = None
    note: str = ""
    removal: NodeRemoval | None = None
    stage: RemovalStage | None = None
    group: GroupFacts | None = None
    usage: Usage | None = None
    timers: Timers = Timers()
    last_failure: str = ""
    disputed: str = ""
    interruption: str = ""
    move: str = ""
    outdated: str = ""
    pods: tuple[PodAfterDrain, ...] = ()


def explain_node(
    state: ClusterState, plan: Plan, settings: Settings, name: str, growing: PlanningContext | None = None
) -> NodeExplanation | None:
    """Return why a node stays or when it goes, and what would happen to its pods; None if there is no such node.

    ``plan`` was made for ``state`` with ``settings``. ``growing`` is the context in which its growth was planned; it shows what
    a move of the node would save (None: the explanation does not say what a move would save).
    """
    observed = state.observation.snapshot
    row = observed.find_row(name)
    if row is None:
        return None
    snapshot, policy = planned_snapshot(state, plan, settings.pods, settings.policy), settings.policy
    node, report = observed.node(row), plan.scale_down
    is_seen = name in snapshot
    outcome, removing = outcome_of(state, plan, name), state.observation.removing.get(name)
    planned = next((removal for removal in report.removals if removal.node == name), None)
    reason = report.unremovable.get(name) or report.passed_over.get(name)
    shown = reason if outcome in (NodeOutcome.UNNEEDED, NodeOutcome.STAYS) else None
    pods = explain_pods(snapshot, name, state, plan, settings.drain, policy) if is_seen else ()
    return NodeExplanation(
        node=name,
        now=state.now,
        outcome=outcome,
        is_ready=is_ready(node, settings.templates),
        reason=shown,
        note=_places_now(shown, pods)
        if removing or planned or shown
        else _note(state, plan, settings.scale_down, node),
        removal=removing.removal if removing is not None else planned,
        stage=removing.stage if removing is not None else None,
        group=_group(state, name),
        usage=_usage(snapshot, name, state, settings.scale_down, policy) if is_seen else None,
        timers=_timers(state, plan, name),
        last_failure=back.message if (back := state.memory.scale_down.removal_failures.get(name)) is not None else "",
        disputed=_disputed(state, node),
        interruption=_interruption(state, plan, name),
        move=_move(state, plan, settings, name, growing),
        outdated=_outdated(plan, name),
        pods=pods,
    )


def outcome_of(state: ClusterState, plan: Plan, name: str) -> NodeOutcome:
    """Return what the plan does with an existing node."""
    return outcome_finder(state, plan)(name)


def outcome_finder(state: ClusterState, plan: Plan) -> Callable[[str], NodeOutcome]:
    """Return a function that returns what the plan does with an existing node."""
    report, going = plan.scale_down, state.observation.removing
    leaving = {removal.node for removal in report.removals}

    def find(name: str) -> NodeOutcome:
        if name in going:
            return NodeOutcome.GOING
        if name in leaving:
            return NodeOutcome.GOES
        if name in report.unneeded:
            return NodeOutcome.UNNEEDED
        return (
            NodeOutcome.STAYS if name in report.unremovable or name in report.passed_over else NodeOutcome.NOT_EVALUATED
        )

    return find


def _disputed(state: ClusterState, node: Node) -> str:
    """Return the cloud's message if it reports the node's machine as a failed creation although it ran; else empty."""
    ref = state.group_of_node.get(node.name)
    reports = state.groups[ref].seen.disputed if ref is not None and ref in state.groups else ()
    own = node.spec.provider_id.lower()
    found = next((one for one in reports if (one.instance_id or "").lower() == own), None)
    return ": ".join(filter(None, (found.code, found.message))) if found is not None else ""


def _interruption(state: ClusterState, plan: Plan, name: str) -> str:
    """Return when the cloud takes the node's machine and when the node is drained; empty if there is no notice."""
    notice = state.interrupted.get(name)
    if notice is None:
        return ""
    leaving = next((one for one in plan.leaving if one.node == name), None)
    told = f"{notice.kind}, {f'at {format_moment(notice.deadline)}' if notice.deadline is not None else 'no deadline'}"
    if leaving is None:
        return f"{told}; nothing is planned about it in this loop"
    if leaving.is_draining:
        return f"{told}; it is drained"
    latest = f", at {format_moment(leaving.drain_by)} at the latest" if isfinite(leaving.drain_by) else ""
    return f"{told}; it is drained once its pods have places on ready nodes{latest}"


def _move(state: ClusterState, plan: Plan, settings: Settings, name: str, growing: PlanningContext | None) -> str:
    """Return which move removes the node, or what one would save and why none does; empty: there is nothing to say."""
    move = next((one for one in plan.moves if name in one.left and not one.stage.is_over), None)
    if move is not None:
        return f"{move.describe()}, disruption {move.disruption:.2f}; if it does not go on until {format_moment(move.deadline)}, it is abandoned"
    memory, ref = state.memory.moves, state.group_of_node.get(name)
    outside = why_outside(state, ref) if ref is not None and settings.seeks_moves else ""
    said = f"none gives it up for cheaper nodes: {outside}" if outside else ""
    if paused := _while_paused(memory.pauses.get(name), state.now):
        said = f"none gives it up {paused}"
    is_priced = ref is not None and not outside and name not in state.interrupted
    if growing is not None and settings.seeks_moves and is_priced:
        said = explain_move(growing, memory, settings.moves, plan, name, said)
    resting = _while_paused(memory.returns.get(name), state.now)
    back = f"none gives it up for a preferred group {resting}" if resting else ""
    return "; ".join(filter(None, (said, back)))


def _while_paused(pause: MovePause | None, now: float) -> str:
    """Return until when a node has a pause, and why; empty: it has none."""
    if pause is None or pause.until <= now:
        return ""
    return f"before {format_moment(pause.until)}: {pause.why}"


def _outdated(plan: Plan, name: str) -> str:
    found = next((one for one in plan.outdated if one.node == name), None)
    if found is None:
        return ""
    return f"{found.reason}: {found.why}" + (f"; it stays for now: {found.held}" if found.held else "")


def _note(state: ClusterState, plan: Plan, settings: ScaleDownSettings, node: Node) -> str:
    """Return why scale-down says nothing about a node, or why a planned removal of it waits."""
    held = _held_back(plan, node)
    if held:
        return held
    if not settings.scale_down_enabled:
        return NodeNote.SCALE_DOWN_OFF
    if plan.halted or plan.cut_short:
        return plan.halted or plan.cut_short
    ref = state.group_of_node.get(node.name)
    is_starting = ref is not None and node.name in state.groups[ref].readiness.not_started
    return NodeNote.NOT_STARTED if is_starting else NodeNote.NOT_PLANNED


def _places_now(reason: Unremovable | None, pods: Iterable[PodAfterDrain]) -> str:
    """Return what a new simulation would find for a node that is not simulated again yet; empty for any other node."""
    if reason is None or reason.code != UnremovableCode.RECENTLY_UNREMOVABLE:
        return ""
    for pod in pods:
        if pod.code is not None:
            return NodeNote.POD_WOULD_KEEP_IT.format(pod=pod.pod, code=pod.code)
        if pod.outcome is DrainOutcome.MOVE and not pod.place:
            return NodeNote.POD_WOULD_FIND_NO_NODE.format(pod=pod.pod)
    return NodeNote.COULD_BE_EMPTIED


def _held_back(plan: Plan, node: Node) -> str:
    """Return why a planned removal of the node is held back; empty if none is."""
    own = node.spec.provider_id.lower()
    for held in plan.held_back:
        if isinstance(held.action, DeleteInstances) and own in {one.lower() for one in held.action.instance_ids}:
            return held.reason
    return ""


def _group(state: ClusterState, name: str) -> GroupFacts | None:
    ref = state.group_of_node.get(name)
    return facts_of(state.groups[ref]) if ref is not None and ref in state.groups else None


def facts_of(group: GroupState) -> GroupFacts:
    """Return the sizes of a group."""
    return GroupFacts(
        ref=group.ref,
        min_size=group.seen.group.min_size,
        max_size=group.seen.group.max_size,
        target=group.seen.target,
        ready=len(group.readiness.ready),
        whole=group.seen.options.zero_or_max_node_scaling,
    )


def _usage(
    snapshot: Snapshot, name: str, state: ClusterState, settings: ScaleDownSettings, policy: Policy
) -> Usage | None:
    """Return the utilization as scale-down eligibility measures it; None for a node without a group."""
    ref = state.group_of_node.get(name)
    if ref is None or ref not in state.groups:
        return None
    options, row = state.groups[ref].seen.options, snapshot.row(name)
    measure = Measure.of(state, settings, policy)
    found = utilization_of(snapshot, row, measure, ignore_daemonsets=options.ignore_daemonsets_utilization)
    is_gpu = bool(measure.accelerators.count(snapshot.node(row))[0])
    return Usage(
        ratio=found.ratio if isfinite(found.ratio) and not found.problem else None,
        resource=found.resource,
        threshold=options.scale_down_gpu_utilization_threshold if is_gpu else options.scale_down_utilization_threshold,
        problem=found.problem,
    )


def _timers(state: ClusterState, plan: Plan, name: str) -> Timers:
    report, now = plan.scale_down, state.now
    since, memory = report.unneeded.get(name), state.memory.scale_down
    recheck, last_failure = memory.rechecks.get(name), memory.removal_failures.get(name)
    return Timers(
        unneeded_since=since,
        removable_at=since + needed_seconds(state, name) if since is not None else None,
        cooldown_until=report.cooldown_until if report.cooldown_until > now else None,
        recheck_at=recheck.at if recheck is not None and recheck.at > now else None,
        last_failed_at=last_failure.at if last_failure is not None else None,
        never_ready_until=_never_ready_until(state, name),
    )


def _never_ready_until(state: ClusterState, name: str) -> float | None:
    ref = state.group_of_node.get(name)
    group = state.groups.get(ref) if ref is not None else None
    return startup_deadlines(group, state).get(name) if group is not None else None
