"""Plan the growth of one loop: for pending pods, for ProvisioningRequests, and up to minimum sizes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from nodewright.clusterstate.accelerators import Accelerators
from nodewright.clusterstate.readiness import is_ready
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import IncreaseSize
from nodewright.model.group import GroupRef
from nodewright.model.plan import Expansion, ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.model.reason import Rejection, ScaleUpResult, SkipCode, SkipReason
from nodewright.model.settings import TemplateSettings
from nodewright.planner.context import PlanningContext, deadline
from nodewright.planner.gangs.find_gangs import Gang
from nodewright.planner.gangs.serve import ServedGangs, serve_gangs, why_not_now
from nodewright.planner.provisioning_requests.arbitration import find_due, plan_provider_calls, serve
from nodewright.planner.provisioning_requests.ca import ChosenRequest, examine
from nodewright.planner.provisioning_requests.classes import Mode
from nodewright.planner.provisioning_requests.state import (
    NO_CHANGES,
    ProvisioningRequestState,
    RequestChanges,
    join_changes,
)
from nodewright.planner.scale_up.options import skip_reason
from nodewright.planner.scale_up.orchestrator import ScaleUp, increases
from nodewright.planner.scale_up.pending_pods import split_young, take_fitting
from nodewright.planner.scale_up.planned_nodes import grown

# The reasons against a group that pass within a few loops.
_PASSING = {
    SkipCode.CORRECTED,
    SkipCode.DEFERRED,
    SkipCode.NOT_CHOSEN,
    SkipCode.NO_TIME,
    SkipCode.PROBATION,
    SkipCode.WAITING,
}


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The growth of one loop. ``reports`` has at least one report.

    ``is_put_off``: all pending pods are very new, and more may come. ``context``: the cluster with the existing room
    that requests got; ``held``: pods of requests that got such room; ``finds_room``: a request was served by existing
    room alone. ``bought``: the cluster with new nodes for requests (None: there are none), without those of
    ``unplaced``. ``fitting``: pods that have room on nodes bought for others in this loop. ``is_over``: no pod or request
    still waits for its turn. ``changes``: the decisions about requests.
    """

    context: PlanningContext
    actions: list[IncreaseSize] = field(default_factory=list)
    reports: list[ScaleUpReport] = field(default_factory=lambda: [ScaleUpReport()])
    is_put_off: bool = False
    held: tuple[Pod, ...] = ()
    finds_room: bool = False
    bought: PlanningContext | None = None
    unplaced: Sequence[ScaleUpReport] = ()
    fitting: tuple[Pod, ...] = ()
    is_over: bool = True
    changes: RequestChanges = NO_CHANGES


def await_purchase(pods: Iterable[Pod], reports: Iterable[ScaleUpReport]) -> bool:
    """Return whether a later loop may buy a node for one of these pods, which fit nowhere now.

    Pods that no group helps, or only groups that failed or are at a limit, do not count: they may wait forever. Pods that
    no report names wait for their turn.
    """
    waiting = {id(pod) for pod in pods}
    lasting = set[int]()  # pods of one class share their reasons
    for report in reports if waiting else ():
        if any(id(pod) in waiting for pod in report.awaiting):
            return True
        for one in report.unhelped:
            if id(one.pod) in waiting:
                if id(one.reasons) not in lasting and any(map(_is_passing, one.reasons.values())):
                    return True
                lasting.add(id(one.reasons))
                waiting.remove(id(one.pod))
    return bool(waiting)


def _is_passing(why: Rejection | SkipReason) -> bool:
    return isinstance(why, SkipReason) and why.code in _PASSING


def context_after(growth: Growth) -> PlanningContext | None:
    """Return a copy of the context after all growth; None if its pods cannot be placed or a pod waits for its turn."""
    waits = any(report.awaiting or report.partial for report in growth.reports)
    if waits or growth.is_put_off or not growth.is_over:
        return None
    base = growth.bought or growth.context
    after, is_told = _with_growth(replace(base, snapshot=base.snapshot.fork()), growth.unplaced)
    return after if is_told else None


def grow(context: PlanningContext, pods: Sequence[Pod], random: Random, *, may_wait: bool = True) -> Growth:
    """Plan growth for pods that fit nowhere. Without ``may_wait`` ignore reasons to wait.

    Plan one expansion. With --salvo-scale-up plan more until no pod is left, none helps or the time is up.
    """
    if not pods:
        return Growth(context=context)
    wait = reason_to_wait(context, pods) if may_wait else None
    if wait is not None:
        report = ScaleUp(context, pods, random).postpone(wait)
        return Growth(context=context, reports=[report], is_put_off=wait == ScaleUpResult.IN_COOLDOWN)
    settings = context.settings.scale_up
    is_over = deadline(context.state.elapsed, settings.salvo_scale_up_budget)
    actions, reports = list[IncreaseSize](), list[ScaleUpReport]()
    current: PlanningContext | None = context
    while current is not None and pods:
        more, report = ScaleUp(current, pods, random).plan()
        actions += more
        reports.append(report)
        if not (settings.salvo_scale_up and more):
            break
        handled = {id(pod) for pod in report.triggered}
        pods = [pod for pod in pods if id(pod) not in handled]
        if pods and is_over():
            said = f"time was up (--salvo-scale-up-budget) with {len(pods)} pods left: the next loop goes on with them"
            reports[-1] = replace(report, partial="; ".join(filter(None, (report.partial, said))))
            break
        current = grown(current, report)
    return Growth(context=context, actions=actions, reports=reports, unplaced=reports)


def grow_with_gangs(
    context: PlanningContext,
    pods: Sequence[Pod],
    gangs: Sequence[Gang],
    requests: ProvisioningRequestState,
    random: Random,
    *,
    has_new_nodes: bool = False,
) -> Growth:
    """Plan growth for gangs and pods by priority. At equal priority gangs go first.

    Gangs wait for the next loop if it is not yet known where pods of a higher priority will run. ``has_new_nodes``: the
    context's snapshot has nodes that are bought in this loop; their room is used before more are bought.
    """
    if not gangs:
        return _grow_beside(context, pods, random, has_new_nodes=has_new_nodes)
    idle = [gang for gang in gangs if gang.is_young or why_not_now(gang, requests)]
    if idle:  # pods need not wait for gangs that get nothing now
        due = [gang for gang in gangs if gang not in idle]
        growth = grow_with_gangs(context, pods, due, requests, random, has_new_nodes=has_new_nodes)
        return after_gangs(growth, context, serve_gangs(context, idle, requests, random))
    urgent = [pod for pod in pods if (pod.spec.priority or 0) > gangs[0].priority]
    if not urgent:
        highest = max((pod.spec.priority or 0 for pod in pods), default=None)
        now = [gang for gang in gangs if highest is None or gang.priority >= highest]
        served = serve_gangs(context, now, requests, random)
        is_new = has_new_nodes or bool(served.actions)
        rest = grow_with_gangs(served.context, pods, gangs[len(now) :], requests, random, has_new_nodes=is_new)
        return after_gangs(rest, context, served)
    first = _grow_beside(context, urgent, random, has_new_nodes=has_new_nodes)
    after = context_after(first)
    if after is None:
        return replace(first, is_over=False)
    chosen = set(map(id, urgent))
    others, is_new = [pod for pod in pods if id(pod) not in chosen], has_new_nodes or bool(first.actions)
    rest = grow_with_gangs(after, others, gangs, requests, random, has_new_nodes=is_new)
    return replace(
        rest,
        context=context,
        fitting=(*first.fitting, *rest.fitting),
        actions=[*first.actions, *rest.actions],
        reports=[*first.reports, *rest.reports],
        bought=rest.bought or (after if first.actions else None),
    )


def _grow_beside(context: PlanningContext, pods: Sequence[Pod], random: Random, *, has_new_nodes: bool) -> Growth:
    """Plan growth for pods. With ``has_new_nodes`` they first take the room that is left on nodes bought for others."""
    if not has_new_nodes:
        return grow(context, pods, random)
    fitting, left = take_fitting(context.snapshot, pods)
    return replace(grow(context, left, random), fitting=tuple(fitting))


def after_gangs(growth: Growth, context: PlanningContext, served: ServedGangs) -> Growth:
    """Return the growth together with that for gangs. Its context is the one without new nodes."""
    if not served.reports:
        return growth
    return replace(
        growth,
        context=context,
        actions=[*served.actions, *growth.actions],
        reports=[*growth.reports, *served.reports],
        bought=growth.bought or (served.context if served.actions else None),
    )


def grow_fairly(
    context: PlanningContext,
    pods: Sequence[Pod],
    gangs: Sequence[Gang],
    requests: ProvisioningRequestState,
    random: Random,
) -> Growth:
    """Plan growth for gangs, pods and requests. None of them gets the nodes that another one gets.

    Requests for existing room are served first: these pods do not fit there. Gangs and pods follow by priority. If
    requests also want new nodes, gangs go first, and pods and requests take turns.
    """
    called = plan_provider_calls(requests)
    requests = requests.apply(called)
    checked = serve(context, requests, random, Mode.CHECK)
    requests, context = requests.apply(checked.changes), checked.context
    due, next_change = find_due(requests)
    before = join_changes([called, checked.changes, RequestChanges(next_change=next_change)])
    if not any(requests.mode(request) == Mode.ATOMIC for request in due):
        growth = grow_with_gangs(context, pods, gangs, requests, random) if gangs else grow(context, pods, random)
        return replace(growth, finds_room=checked.finds_room, changes=before)
    with_gangs = serve_gangs(context, gangs, requests, random)
    existing, context = context, with_gangs.context
    goes_first = not pods or requests.memory.prefers_requests
    if goes_first:
        served = serve(context, requests, random, Mode.ATOMIC)
        growth = grow(served.context, pods, random)
        actions, unplaced, is_told = [*served.actions, *growth.actions], growth.unplaced, True
    else:
        growth = grow(context, pods, random)
        after, is_told = _with_growth(context, growth.reports)
        served = serve(after, requests, random, Mode.ATOMIC)
        actions, unplaced = [*growth.actions, *served.actions], ()
    turn = RequestChanges(prefers_requests=bool(pods) and not goes_first)
    growth = Growth(
        changes=join_changes([before, served.changes, turn]),
        context=existing,
        actions=actions,
        reports=[*growth.reports, *served.reports],
        is_put_off=growth.is_put_off,
        held=tuple(served.held),
        finds_room=checked.finds_room or served.finds_room,
        bought=served.context,
        unplaced=unplaced,
        is_over=is_told,
    )
    return after_gangs(growth, existing, with_gangs)


def _with_growth(context: PlanningContext, reports: Iterable[ScaleUpReport]) -> tuple[PlanningContext, bool]:
    """Return the context after growth for pods, and whether it has all of it: growth is left out if its pods have no place."""
    is_told = True
    for report in reports:
        if report.expansions:
            after = grown(context, report)
            context, is_told = after or context, is_told and after is not None
    return context, is_told


def grow_as_ca(
    context: PlanningContext,
    pods: Sequence[Pod],
    chosen: ChosenRequest | None,
    requests: ProvisioningRequestState,
    random: Random,
) -> Growth:
    """Plan growth for pods or for the chosen request, in turn, as CA does. If there is a request, do not wait."""
    prefers = requests.memory.prefers_requests
    injected, _ = split_young(chosen.pods if chosen else (), context.settings.pods, context.state.now)
    if chosen is None or not injected:
        growth = grow(context, pods, random)
        tried = growth.reports[0].result not in (ScaleUpResult.NODE_LIMIT, ScaleUpResult.IN_COOLDOWN)
        return replace(growth, changes=RequestChanges(prefers_requests=prefers or (bool(pods) and tried)))
    wait = reason_to_wait(context, [*pods, *injected])
    turn = not pods or prefers
    changes, actions = [RequestChanges(prefers_requests=not turn)], list[IncreaseSize]()
    if turn:
        examined = examine(context, chosen, requests, random)
        actions, reports = list(examined.actions), [examined.report]
        changes.append(examined.changes)
    else:
        growth = grow(context, pods, random, may_wait=False)
        actions, reports = growth.actions, growth.reports
    found = turn and reports[0].result == ScaleUpResult.SUCCESSFUL and not actions
    is_new = wait == ScaleUpResult.IN_COOLDOWN
    return Growth(
        changes=join_changes(changes),
        context=context,
        actions=actions,
        reports=reports,
        is_put_off=is_new,
        finds_room=found,
        unplaced=reports,
        is_over=not pods,
    )


YOUNG_SECONDS = 2.0
_YOUNG_GPU_SECONDS = 30.0


def reason_to_wait(context: PlanningContext, pods: Sequence[Pod]) -> ScaleUpResult | None:
    """Return why no growth is planned for these pods now; None if it is."""
    if _is_full(context):
        return ScaleUpResult.NODE_LIMIT
    settings = context.settings
    gathers = settings.policy.gathers_pods_before_loop or settings.pods.bypassed_scheduler_names
    if not gathers and _are_all_new(context, pods):
        return ScaleUpResult.IN_COOLDOWN
    return None


def count_ready_nodes(state: ClusterState, settings: TemplateSettings) -> int:
    """Return how many nodes, of any group or none, are ready and schedulable."""
    members, providers = state.memory.members, state.observation.providers.values()
    accelerators = members.accelerators if members is not None else Accelerators.of(providers)
    nodes = (node for _, node in state.observation.snapshot.nodes() if not node.spec.unschedulable)
    return sum(is_ready(node, settings) and not accelerators.are_missing(node) for node in nodes)


def _is_full(context: PlanningContext) -> bool:
    """Return whether the cluster has --max-nodes-total nodes.

    CA counts ready nodes; nodewright counts upcoming ones too.
    """
    left, limit = context.nodes_left, context.settings.limits.max_nodes_total
    if left is None:
        return False
    if not context.settings.policy.counts_upcoming_in_total:
        return count_ready_nodes(context.state, context.settings.templates) >= limit
    return left <= 0


def _are_all_new(context: PlanningContext, pods: Sequence[Pod]) -> bool:
    """Return whether all pods are so new that CA waits for more; it waits longer for pods that need accelerators."""
    now = context.state.now
    dear = [pod for pod in pods if _wants_accelerator(context, pod)]
    return _oldest(pods) + YOUNG_SECONDS > now or (bool(dear) and _oldest(dear) + _YOUNG_GPU_SECONDS > now)


def _wants_accelerator(context: PlanningContext, pod: Pod) -> bool:
    return any(name in context.snapshot.class_of(pod).requests for name in context.accelerators.resources)


def _oldest(pods: Sequence[Pod]) -> float:
    return min(pod.created for pod in pods)


def plan_min_sizes(context: PlanningContext, grown: Mapping[GroupRef, int]) -> tuple[list[IncreaseSize], ScaleUpReport]:
    """Plan an increase for every group below its minimum size that may grow, within the cluster's limits.

    Without --enforce-node-group-min-size only minimums of schedules count. ``grown``: the targets of groups that already
    grow in this loop.
    """
    added = sum(target - (context.state.groups[ref].seen.target or 0) for ref, target in grown.items())
    left = context.nodes_left - added if context.nodes_left is not None else None
    expansions: list[Expansion] = []
    skipped = {}
    counts_all = context.settings.scale_up.enforce_node_group_min_size
    for ref, group in context.state.groups.items():
        if not (counts_all or group.seen.is_min_scheduled):
            continue
        minimum = group.seen.group.min_size
        target = grown.get(ref, group.seen.target)
        if target is None or target >= minimum:
            continue
        reason = skip_reason(context, ref)
        if reason is not None:
            skipped[ref] = reason
            continue
        wanted = _cap(context, minimum - target, target, left)
        allowed, _ = context.quota.allowed(context.templates[ref].node, wanted)
        if allowed > 0:
            context.quota.consume(context.templates[ref].node, allowed)
            left = None if left is None else left - allowed
            maximum = group.seen.group.max_size
            expansions.append(Expansion(group=ref, current=target, target=target + allowed, maximum=maximum))
    result = ScaleUpResult.SUCCESSFUL if expansions else ScaleUpResult.NOT_NEEDED
    return increases(expansions), ScaleUpReport(result=result, expansions=tuple(expansions), skipped=skipped)


def _cap(context: PlanningContext, wanted: int, target: int, left: int | None) -> int:
    """Return how many nodes --max-nodes-total leaves. CA compares the limit with the group's own size."""
    if left is None:
        return wanted
    if not context.settings.policy.limits_minimum_sizes_together:
        return min(wanted, context.settings.limits.max_nodes_total - target)
    return min(wanted, left)
