"""Kubernetes events: those of one loop, from its state, plan and outcomes, and those of removals.

Reasons and messages follow cluster-autoscaler where it has the same event: users' alerts match on them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from nodewright.actuation.cloud_writes import WriteOutcome
from nodewright.actuation.ports import NORMAL, POD_KIND, STATUS_KIND, STATUS_NAME, WARNING, Event
from nodewright.clusterstate.backoff import NO_MACHINE
from nodewright.clusterstate.readiness import describe_unhealthy
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.expander import CONFIG_MAP
from nodewright.model.action import (
    CreateNodeGroup,
    DecreaseTargetSize,
    DeleteInstances,
    DeleteNodeGroup,
    DeletionCause,
    Done,
    Failed,
    GroupWrite,
    IncreaseSize,
    grown_groups,
    has_refused_growth,
)
from nodewright.model.capacity_buffer import KIND as BUFFER_KIND
from nodewright.model.duration import format_duration, format_moment
from nodewright.model.group import GroupRef
from nodewright.model.move import MoveStage, name_nodes
from nodewright.model.plan import Expansion, MisfitNode, Plan, ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.model.reason import ScaleUpResult, Unhelped
from nodewright.model.removal import NodeRemoval, RemovalEnded, RemovalResult
from nodewright.planner.provisioning_requests.pods import is_stand_in
from nodewright.validate import PlanViolation

_MAX_MESSAGES = 3


def loop_events(state: ClusterState, plan: Plan, outcomes: Sequence[WriteOutcome]) -> Iterator[Event]:
    """Yield the events of a loop: failures, the engine's reaction to them, and for each pending pod its scale-up."""
    for group in state.groups.values():
        yield from _failure_events(group)
    if plan.halted:
        yield _of_status("ClusterUnhealthy", plan.halted, WARNING)
    elif state.memory.unhealthy is not None:
        yield _of_status("ClusterUnhealthy", describe_unhealthy(state.memory.unhealthy, state.now), WARNING)
    if plan.scale_down.missing_pods:
        yield _of_status("PodsMissing", f"No node is removed: {plan.scale_down.missing_pods}", WARNING)
    for misfit in plan.misfits:
        yield _misfit_event(misfit)
    yield from _template_events(state)
    yield from _notice_events(state, plan)
    yield from _move_events(plan)
    yield from _waiting_events(plan)
    reports = [
        report for report in (plan.scale_up, *plan.salvo, *plan.spare, plan.hedge, plan.min_size) if report is not None
    ]
    expansions = {expansion.group: expansion for report in reports for expansion in report.expansions}
    for outcome in outcomes:
        yield from _outcome_events(outcome, expansions, state)
    for report in (plan.scale_up, *plan.salvo):
        for ref, reason in report.probed.items():
            yield _of_status("ProbedGroup", f"Group {ref} is {reason}; other groups take the rest")
        yield from _cost_events(report, outcomes)
        yield from _pod_events(report, outcomes)
    if plan.hedge is not None:
        yield from _pod_events(plan.hedge, outcomes)


def _template_events(state: ClusterState) -> Iterator[Event]:
    for ref, wrong in state.wrong_templates.items():
        what = f"The provider's template of group {ref} differs from its real nodes; new nodes are planned like these"
        yield _of_status("TemplateCorrected", f"{what}: {'; '.join(wrong)}", WARNING)


def _notice_events(state: ClusterState, plan: Plan) -> Iterator[Event]:
    """Yield an event for each node of which a cloud gave notice since the last loop."""
    for leaving in plan.leaving:
        notice = state.interrupted[leaving.node]
        if notice.since == state.now:
            when = f" at {format_moment(leaving.deadline)}" if leaving.deadline is not None else ""
            message = f"The cloud interrupts this machine{when} ({leaving.kind}): {notice.id}"
            yield _of_node(leaving.node, "InterruptionNotice", message, WARNING)


def buffer_events(plan: Plan, outcomes: Sequence[WriteOutcome]) -> Iterator[Event]:
    """Yield an event for each buffer for which groups grow or which no group helps, worded as in cluster-autoscaler."""
    grown = grown_groups(outcomes)
    for report in plan.spare:
        done = " ".join(str(one) for one in report.expansions if one.group in grown)
        for name, count in Counter(map(_buffer_name, report.triggered)).items() if done else ():
            message = f"capacity buffer {count} fake pods triggered scale-up: [{{{done}}}]"
            yield Event(kind=BUFFER_KIND, name=name, reason="TriggeredScaleUp", message=message)
    if grown or has_refused_growth(outcomes):
        return
    unhelped = Counter(_buffer_name(one.pod) for report in plan.spare for one in report.unhelped)
    reasons = {one.buffer.key: one.why for one in plan.buffers.allocations}
    for name, count in unhelped.items():
        message = f"capacity buffer {count} fake pods didn't trigger scale-up: {reasons.get(name, '')}"
        yield Event(kind=BUFFER_KIND, name=name, reason="NotTriggerScaleUp", message=message)


def _buffer_name(pod: Pod) -> str:
    """Return the ``namespace/name`` of the buffer that a virtual pod belongs to."""
    controller = pod.metadata.controller
    return f"{pod.metadata.namespace}/{controller.name if controller is not None else ''}"


def violation_events(violations: Iterable[PlanViolation]) -> Iterator[Event]:
    """Yield an event for each planned action that the independent check refused."""
    for violation in violations:
        message = f"Dropped a planned {type(violation.action).__name__} of {violation.action.group}: {violation.rule}"
        yield _of_status("PlanViolation", message, WARNING)


def wall_clock_event(whose: str, seconds: float, *, is_used: bool) -> Event:
    """Return the event of a clock that was set by ``seconds`` (negative: back) while the process ran.

    ``is_used``: the daemon follows this clock.
    """
    way = "forward" if seconds > 0 else "back"
    effect = (
        "Durations are not affected. Other times approach the new time by a tenth of the time that passes; after a restart "
        "they follow it at once"
        if is_used
        else "Only the log follows: the API server's time is used"
    )
    message = f"{whose[0].upper()}{whose[1:]} jumped {way} by {format_duration(round(abs(seconds)))}. {effect}"
    return _of_status("WallClockJumped", message, WARNING)


def saved_state_events(warning: str) -> Iterator[Event]:
    """Yield an event if the memory that an earlier process saved cannot be used."""
    if warning:
        yield _of_status("StateNotUsable", warning, WARNING)


def _waiting_events(plan: Plan) -> Iterator[Event]:
    if plan.partial:
        yield _of_status("PlanIsPartial", plan.partial, WARNING)
    if plan.paused:
        waiting = f"; {len(plan.held_back)} planned writes wait" if plan.held_back else ""
        yield _of_status("Paused", f"Writes to clouds are {plan.paused}{waiting}", WARNING)
        return
    for held in plan.held_back:
        if held.event and isinstance(held.action, DeleteInstances):
            count, group = len(held.action.instance_ids), held.action.group
            message = f"{count} machines of group {group} are not deleted: {held.reason}"
            yield _of_status(held.event, message, WARNING)


def _move_events(plan: Plan) -> Iterator[Event]:
    for move in plan.moves:
        match move.stage:
            case MoveStage.PROPOSED if not move.reason.has_score:
                yield _of_status("MoveStarted", f"Move {move.id} {move.exchange} ({move.reason})")
            case MoveStage.PROPOSED:
                saves = f"it saves ${move.savings:.4f} an hour, score {move.score:.2f}"
                yield _of_status("ConsolidationApproved", f"Move {move.id} {move.exchange}; {saves}")
            case MoveStage.DONE:
                yield _of_status("MoveDone", f"Move {move.id} removed {move.nodes}")
            case MoveStage.ABANDONED:
                yield _of_status("MoveAbandoned", f"Move {move.id} of {move.nodes} was abandoned: {move.why}", WARNING)
    rejected = plan.rejected_move
    if rejected is not None:
        what = f"Replacing {name_nodes(rejected.sources)} would save ${rejected.savings:.4f} an hour"
        yield _of_status("ConsolidationRejected", f"{what}, and is not done: {rejected.why}")


def _misfit_event(misfit: MisfitNode) -> Event:
    what = f"Node {misfit.node} of group {misfit.group} was added for pods like {misfit.pod} and does not take them"
    until = f"the group is not grown for such pods before {format_moment(misfit.until)}"
    return _of_status("AddedNodeDoesNotFit", f"{what}: {misfit.reason}; {until}", WARNING)


def _failure_events(group: GroupState) -> Iterator[Event]:
    late = group.timed_out + len(group.newly_late)
    if late:
        patience = format_duration(max(round(group.time_given), group.seen.options.max_node_provision_seconds))
        message = f"{late} nodes added to group {group.ref} failed to register within {patience}"
        yield _of_status("ScaleUpTimedOut", message, WARNING)
    if group.taken_back:
        what = f"{group.taken_back} machines were accepted, and the target size is {group.seen.target} again"
        yield _of_status("FailedToScaleUpGroup", f"Scale-up failed for group {group.ref}: {what}", WARNING)
    if group.shortfall:
        what = f"Scale-up failed for group {group.ref}: {group.shortfall}"
        yield _of_status("FailedToScaleUpGroup", what, WARNING)
    if group.newly_unready:
        patience = format_duration(group.seen.options.max_node_startup_seconds)
        message = f"{len(group.newly_unready)} nodes added to group {group.ref} were not ready within {patience}"
        yield _of_status("ScaleUpTimedOut", message, WARNING)
    if group.vanished:
        message = (
            f"Machines of group {group.ref} disappeared that nodewright did not delete: {', '.join(group.vanished)}"
        )
        quarantine = "they disappeared while others were deleted, so for some time no node of the group is removed"
        yield _of_status("GroupQuarantined", f"{message}; {quarantine}", WARNING)
    if group.withdrawal_failed:
        message = f"The cloud accepted to withdraw machines of group {group.ref}, but its target size did not change"
        yield _of_status("FailedToRevertScaleUp", message, WARNING)
    for report in group.newly_disputed:
        why = f"{report.code}: {report.message}" if report.message else report.code
        message = f"The cloud reports machine {report.instance_id} of group {group.ref} as a failed creation ({why})"
        kept = "the machine has run, so it is kept and counts as a machine of the group"
        yield _of_status("RunningMachineReportedFailed", f"{message}; {kept}", WARNING)
    kinds: dict[tuple[str, str], list[str]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for failure in group.new_failures:
        kind = (str(failure.error_class), failure.code)
        counts[kind] += failure.count
        kinds.setdefault(kind, []).append(failure.message)
    for kind, messages in kinds.items():
        said = list(dict.fromkeys(messages))
        shown = ", ".join(said[:_MAX_MESSAGES]) + (", ..." if len(said) > _MAX_MESSAGES else "")
        what = f"Failed adding {counts[kind]} nodes to group {group.ref} due to {'.'.join(kind)}"
        yield _of_status("ScaleUpFailed", f"{what}; source errors: {shown}", WARNING)


def _outcome_events(
    outcome: WriteOutcome, expansions: dict[GroupRef, Expansion], state: ClusterState
) -> Iterator[Event]:
    match outcome.action:
        case IncreaseSize():
            yield from _increase_events(outcome, outcome.action, expansions, state)
        case DecreaseTargetSize() | DeleteInstances() if isinstance(outcome, Failed) and outcome.is_busy:
            if outcome.action.group not in state.memory.deferrals:
                what = f"Correction of the size of group {outcome.action.group} waits because the cloud is busy"
                yield _of_status("SizeCorrectionDeferred", f"{what}: {outcome.message}", WARNING)
        case DecreaseTargetSize() if not isinstance(outcome, Done):
            message = f"Failed to withdraw machines of group {outcome.action.group}: {outcome.message}"
            yield _of_status("FailedToRevertScaleUp", message, WARNING)
        case DeleteInstances():
            yield from _deletion_events(outcome, outcome.action, state)
        case CreateNodeGroup() | DeleteNodeGroup():
            yield from _group_events(outcome, outcome.action)


def _increase_events(
    outcome: WriteOutcome, action: IncreaseSize, expansions: dict[GroupRef, Expansion], state: ClusterState
) -> Iterator[Event]:
    """Yield the events of a size increase. A busy cloud is reported when it starts to be busy, not for each call."""
    if not (isinstance(outcome, Failed) and outcome.is_busy):
        yield _increase_event(outcome, action, expansions)
    elif action.group not in state.memory.deferrals:
        message = f"Scale-up of group {action.group} waits because the cloud is busy: {outcome.message}"
        yield _of_status("ScaleUpDeferred", message, WARNING)
    if action.hedged and isinstance(outcome, Done) and outcome.accepted:
        hedged = min(action.hedged, outcome.accepted)
        yield _of_status("HedgedScaleUp", f"{hedged} of the new nodes of group {action.group} are {action.reason}")


def _increase_event(outcome: WriteOutcome, action: IncreaseSize, expansions: dict[GroupRef, Expansion]) -> Event:
    group, current = action.group, action.expected_target
    if isinstance(outcome, Done) and outcome.accepted:
        limit = f" (max: {expansions[group].maximum})" if group in expansions else ""
        size = current + outcome.accepted
        return _of_status("ScaledUpGroup", f"Scale-up: group {group} size set to {size} instead of {current}{limit}")
    why = NO_MACHINE if isinstance(outcome, Done) else outcome.message
    return _of_status("FailedToScaleUpGroup", f"Scale-up failed for group {group}: {why}", WARNING)


def _group_events(outcome: WriteOutcome, action: GroupWrite) -> Iterator[Event]:
    """Yield the events of created and deleted node groups, worded as in cluster-autoscaler."""
    made = isinstance(action, CreateNodeGroup)
    if not isinstance(outcome, Done):
        reason, verb = ("FailedToCreateNodeGroup", "create") if made else ("FailedToDeleteNodeGroup", "delete")
        message = f"NodeAutoprovisioning: attempt to {verb} node group {action.group} failed: {outcome.message}"
        yield _of_status(reason, message, WARNING)
    elif outcome.accepted and made:
        message = f"NodeAutoprovisioning: created new node group {action.group} ({action.reason})"
        yield _of_status("CreatedNodeGroup", message)
    elif outcome.accepted:
        message = f"NodeAutoprovisioning: node group {action.group} removed ({action.reason})"
        yield _of_status("DeletedNodeGroup", message)


def _deletion_events(outcome: WriteOutcome, action: DeleteInstances, state: ClusterState) -> Iterator[Event]:
    """Yield events for deleted instances. Deleting a failed instance is silent; failing to delete it is reported."""
    reason = "CleanUpFailed" if action.failure_ids else "DeleteUnregisteredFailed"
    for instance_id in action.instance_ids:
        tried = state.memory.deletion_tried.get((action.group, instance_id))
        if not isinstance(outcome, Done):
            yield _of_status(reason, f"Failed to remove node {instance_id}: {outcome.message}", WARNING)
        elif not outcome.accepted:
            yield _of_status(reason, f"Failed to remove node {instance_id}: the cloud accepted no deletion", WARNING)
        elif tried is not None:
            ago = format_duration(round(state.now - tried))
            message = f"Node {instance_id} still exists, {ago} after its deletion was requested; requested again"
            yield _of_status(reason, message, WARNING)
        elif action.cause == DeletionCause.NEVER_READY:
            message = f"Removed node of machine {instance_id}: it {action.reason}"
            yield _of_status("DeleteNeverReady", message)
        elif not action.failure_ids:
            message = f"Removed unregistered node {instance_id}: {action.reason}"
            yield _of_status("DeleteUnregistered", message)


def _pod_events(report: ScaleUpReport, outcomes: Sequence[WriteOutcome]) -> Iterator[Event]:
    grown = grown_groups(outcomes)
    done = {expansion.group: str(expansion) for expansion in report.expansions if expansion.group in grown}
    if done:
        every = "} {".join(done.values())
        own = {id(pod): done.get(node.group, "") for node in report.nodes for pod in node.pods}
        yield from dict.fromkeys(
            _about(pod, "TriggeredScaleUp", f"{_called(pod)} triggered scale-up: [{{{what}}}]")
            for pod in report.triggered
            if (what := own.get(id(pod), every))
        )
    for warning in report.warnings:
        yield Event(
            kind="ConfigMap",
            name=f"kube-system/{CONFIG_MAP}",
            reason="PriorityConfigMapInvalid",
            message=warning,
            type=WARNING,
        )
    if report.result == ScaleUpResult.NODE_LIMIT:
        yield _of_status("MaxNodesTotalReached", "Max total nodes in cluster reached", WARNING)
    if not done and not has_refused_growth(outcomes):
        messages: dict[int, str] = {}  # by the identity of the reasons, which pods of one class share
        for unhelped in report.unhelped:
            message = messages.get(id(unhelped.reasons))
            if message is None:
                message = messages[id(unhelped.reasons)] = _why_not(unhelped, report.result)
            yield _about(unhelped.pod, "NotTriggerScaleUp", message)


def _cost_events(report: ScaleUpReport, outcomes: Sequence[WriteOutcome]) -> Iterator[Event]:
    """Yield an event that says what a mix of groups costs, if one of them grew."""
    if report.cost is None or not {node.group for node in report.nodes} & grown_groups(outcomes):
        return
    pods = sum(len(node.pods) for node in report.nodes)
    what = f"{report.expander} chose {len(report.nodes)} new nodes for {pods} pods"
    cut = "; its time (--least-cost-budget) was up" if report.cost.is_cut else ""
    # The bound is for all pods, and the nodes only for some if one plan may not add more.
    bound = f", where the lower bound is {report.cost.bound:.3f}" if report.cost.bound is not None else ""
    yield _of_status("ScaleUpCost", f"{what}, at {report.cost.price:.3f} USD an hour{bound}{cut}")


def _called(pod: Pod) -> str:
    return "request" if is_stand_in(pod) else "pod"


def _why_not(unhelped: Unhelped, result: ScaleUpResult) -> str:
    """Return why no group helps the pod: each reason with the number of groups that it holds for."""
    if result == ScaleUpResult.NODE_LIMIT:
        return "pod didn't trigger scale-up: max total nodes in cluster reached"
    counted = Counter(str(reason) for reason in unhelped.reasons.values())
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(counted.items()))
    return f"pod didn't trigger scale-up: {listed}"


def _of_status(reason: str, message: str, kind: str = "Normal") -> Event:
    return Event(kind=STATUS_KIND, name=STATUS_NAME, reason=reason, message=message, type=kind)


def _about(pod: Pod, reason: str, message: str) -> Event:
    """Return an event about the pod.

    A pod that stands in for a ProvisioningRequest does not exist in the API server: the event is about the request.
    """
    owner = pod.metadata.controller
    if owner is not None and is_stand_in(pod):
        return Event(kind=owner.kind, name=f"{pod.metadata.namespace}/{owner.name}", reason=reason, message=message)
    return Event(kind=POD_KIND, name=pod.key, reason=reason, message=message, controller=owner)


def removal_started_events(removal: NodeRemoval) -> tuple[Event, ...]:
    """Return the events of a removal that has started: one on the status object and one on the node."""
    if removal.drains:
        what = f"Scale-down: removing node {removal.node}, utilization: {removal.utilization:.4g}, "
        event = _of_status("ScaleDown", f"{what}pods to reschedule: {', '.join(removal.pods)}")
    else:
        event = _of_status("ScaleDownEmpty", f"Scale-down: removing empty node {removal.node}")
    return event, _of_node(removal.node, "ScaleDown", "marked the node as toBeDeleted/unschedulable")


def removal_ended_event(over: RemovalEnded) -> Event:
    """Return the event on a node about the end of its removal."""
    node, message = over.removal.node, over.message
    match over.result:
        case RemovalResult.OK:
            return _of_node(node, "ScaleDown", "node removed by cluster autoscaler")
        case RemovalResult.FAILED_TO_MARK:
            problem = f"failed to mark the node as toBeDeleted/unschedulable: {message}"
        case RemovalResult.FAILED_TO_EVICT:
            problem = f"failed to drain the node: {message}"
        case _:
            problem = f"failed to delete the node: {message}"
    return _of_node(node, "ScaleDownFailed", problem, WARNING)


def eviction_event(pod: str) -> Event:
    """Return the event on a pod that is about to be evicted (``namespace/name``)."""
    return Event(kind=POD_KIND, name=pod, reason="ScaleDown", message="deleting pod for node scale down")


def eviction_failed_event(pod: str) -> Event:
    """Return the event on a pod that could not be evicted, or did not terminate."""
    message = "failed to delete pod for ScaleDown"
    return Event(kind=POD_KIND, name=pod, reason="ScaleDownFailed", message=message, type=WARNING)


def deletion_delay_expired_event(node: str) -> Event:
    """Return the event on a node that is deleted although a delay-deletion annotation is still present."""
    message = "delay-deletion annotation still present after the timeout; deleting anyway"
    return _of_node(node, "ScaleDown", message, WARNING)


def missing_pods_event(node: str, controllers: Iterable[str], seconds: float) -> Event:
    """Return the event on a node that is deleted although controllers still count pods that are listed nowhere."""
    message = (
        f"{', '.join(sorted(controllers))} counted more ready pods than are listed for {format_duration(round(seconds))}; "
        "deleting anyway"
    )
    return _of_node(node, "ScaleDown", message, WARNING)


def taint_removed_event(node: str, key: str) -> Event:
    """Return the event on a node from which a stale taint was removed."""
    return _of_node(node, "ClusterAutoscalerCleanup", f"removed {key} taint from node {node}")


def _of_node(name: str, reason: str, message: str, kind: str = NORMAL) -> Event:
    return Event(kind="Node", name=name, reason=reason, message=message, type=kind)
