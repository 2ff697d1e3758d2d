"""The plan of one loop: corrections, growth, removals (docs/architecture.md, docs/behaviour/loop.md)."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from random import Random
from typing import NamedTuple

from nodewright.clusterstate.accelerators import Accelerators, DeviceCounter
from nodewright.clusterstate.memory import PlanMemory, ScaleDownMemory
from nodewright.clusterstate.readiness import describe_unhealthy
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import DecreaseTargetSize, DeleteInstances, IncreaseSize, SizeWrite
from nodewright.model.group import GroupRef
from nodewright.model.limits import make_resource_limits
from nodewright.model.plan import Plan, ScaleDownReport, ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.model.settings import Settings, SizeCorrection
from nodewright.planner.autoprovisioning import delete_empty_groups, offer_groups, with_creations
from nodewright.planner.capacity_buffers.controller import CapacityBufferState
from nodewright.planner.capacity_buffers.fill import fill_buffers
from nodewright.planner.provisioning_requests.ca import choose_request, reserve_room
from nodewright.planner.provisioning_requests.expiry import expire_requests
from nodewright.planner.provisioning_requests.pods import split_consumers
from nodewright.planner.provisioning_requests.provider_classes import report_unserved
from nodewright.planner.provisioning_requests.reservations import (
    keep_room,
    remove_leftovers,
    settle_reservations,
    without_leftovers,
)
from nodewright.planner.provisioning_requests.state import ProvisioningRequestState, RequestChanges
from nodewright.planner.rules.ca import correct_as_ca
from nodewright.planner.rules.corrections import Corrections
from nodewright.planner.rules.nodewright import correct_promptly
from nodewright.planner.rules.seed import correct_as_seed
from nodewright.planner.scale_down import forget_unneeded, plan_scale_down
from nodewright.planner.scale_up.context import ScaleUpContext
from nodewright.planner.scale_up.growth import Growth, count_ready_nodes, grow, grow_as_ca, grow_fairly, plan_min_sizes
from nodewright.planner.scale_up.hedging import find_doubt, rows_in_doubt, with_hedges, withdraw_surplus
from nodewright.planner.scale_up.limits import NodeQuota, Quota, read_quotas, with_status
from nodewright.planner.scale_up.misfits import evaluate_purchases, find_bought, note_purchases
from nodewright.planner.scale_up.pending_pods import (
    Hints,
    Waiting,
    drop_passed_over,
    drop_preempted,
    find_pending,
    find_recreated,
    take_fitting,
    take_fitting_classes,
    unhelped_namespaces,
)
from nodewright.planner.scale_up.silent_groups import find_silent
from nodewright.planner.scale_up.templates import add_upcoming, make_templates
from nodewright.snapshot.observation import GroupSeen

ALL_NEW = "all pods that wait are very new, and more may come"
NO_READY_NODES = "cluster has no ready nodes, and --scale-up-from-zero is off"

_CORRECT: Mapping[SizeCorrection, Callable[[ClusterState, Settings], Corrections]] = {
    "prompt": correct_promptly,
    "seed": correct_as_seed,
    "ca": correct_as_ca,
}


class _Objects(NamedTuple):
    """The ProvisioningRequests and CapacityBuffers after the planning steps so far."""

    requests: ProvisioningRequestState
    buffers: CapacityBufferState

    @classmethod
    def of(cls, state: ClusterState, settings: Settings) -> "_Objects":
        return cls(ProvisioningRequestState.of(state, settings), CapacityBufferState.of(state, settings))

    def apply(self, changes: RequestChanges) -> "_Objects":
        """Return the objects after these changes to requests."""
        return self._replace(requests=self.requests.apply(changes))

    def put_into(self, plan: Plan, memory: PlanMemory) -> tuple[Plan, PlanMemory]:
        """Return the plan with what it writes to these objects, and what the next loop must know of them."""
        plan = replace(plan, buffers=self.buffers.report())
        if not self.requests.is_enabled:
            return plan, memory
        requests = self.requests
        return replace(plan, provisioning=requests.report()), replace(memory, provisioning=requests.next_memory())


def make_plan(state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
    """Return what to do now and why, and what the next loop must know of it.

    Pure: the same state, settings and random numbers give the same plan.
    """
    quotas = read_quotas(state.observation, settings)
    limits = [read.limit for read in quotas if read.limit is not None]
    plan, memory = _make_plan(state, settings, random, _Objects.of(state, settings), limits)
    with_statuses = [(read, with_status(read, state.observation)) for read in quotas]
    return replace(plan, quotas=tuple(fresh for read, fresh in with_statuses if fresh is not read.quota)), memory


def _make_plan(
    state: ClusterState,
    settings: Settings,
    random: Random,
    objects: _Objects,
    quotas: Sequence[NodeQuota],
) -> tuple[Plan, PlanMemory]:
    """Correct sizes; plan growth and removals unless something forbids it in this loop."""
    corrections = _CORRECT[settings.policy.rule](state, settings)
    state, actions = corrections.state, list[SizeWrite](corrections.actions)
    memory = PlanMemory.of(state.memory)
    is_unstaffed = not settings.loop.scale_up_from_zero and not count_ready_nodes(state, settings)
    if not is_unstaffed:
        objects = objects.apply(expire_requests(objects.requests))
    if state.is_halted and state.memory.unhealthy is not None:
        halted = describe_unhealthy(state.memory.unhealthy, state.now)
        forgotten = replace(memory, scale_down=forget_unneeded(state, settings))
        return objects.put_into(Plan(actions=tuple(actions), halted=halted), forgotten)
    if is_unstaffed:
        kept = tuple(actions) if settings.policy.corrects_without_ready_nodes else ()
        forgotten = replace(memory, scale_down=forget_unneeded(state, settings))
        return objects.put_into(Plan(actions=kept, halted=NO_READY_NODES), forgotten)
    if corrections.cut_short:
        return objects.put_into(Plan(actions=tuple(actions), cut_short=corrections.cut_short), memory)
    if objects.requests.arbitrates:
        objects = objects.apply(report_unserved(objects.requests, state.observation.providers))
        objects = objects.apply(settle_reservations(state, objects.requests))
        leftovers, changes = remove_leftovers(state, objects.requests, [action.group for action in actions])
        objects = objects.apply(changes)
        state, actions = without_leftovers(state, objects.requests), [*actions, *leftovers]
    snapshot = state.observation.snapshot
    waiting = find_pending(
        state.observation.pending,
        settings.pods,
        state.now,
        snapshot.vocabulary.classes,
        unhelped_namespaces(snapshot, settings),
    )
    recreated = find_recreated(snapshot, state.observation.removing, settings.pods)
    waiting.add(recreated, snapshot.vocabulary.classes)
    removes, enforces = settings.scale_down.scale_down_enabled, settings.scale_up.enforce_node_group_min_size
    if not (waiting.old or enforces or removes or objects.requests.is_enabled or objects.buffers.injects):
        return objects.put_into(Plan(actions=tuple(actions), waiting=tuple(waiting.young)), memory)
    awaits = settings.policy.awaits_corrections
    corrected = frozenset(action.group for action in actions if awaits and not _gives_way(action, settings))
    context = _prepare(state, settings, corrected, quotas)
    plan, memory = _plan_loop(context, actions, waiting, random, objects)
    return replace(plan, waiting=tuple(waiting.young)), memory


def _plan_loop(
    context: ScaleUpContext,
    actions: list[SizeWrite],
    waiting: Waiting,
    random: Random,
    objects: _Objects,
) -> tuple[Plan, PlanMemory]:
    """Plan growth, minimum sizes and removals; ``actions`` are the corrections."""
    settings = context.settings
    by_class, daemons = waiting.by_class, waiting.daemons
    if objects.requests.arbitrates:
        others, changes = split_consumers(waiting.old, objects.requests)
        objects = objects.apply(changes)
        by_class = context.snapshot.vocabulary.classes.sort(others)
        objects = objects.apply(keep_room(context.snapshot, context.state, objects.requests))
    hints = (
        Hints(before=context.state.memory.scale_down.pending_hints) if settings.scale_down.scale_down_enabled else None
    )
    in_doubt = rows_in_doubt(context)
    fitting, left = take_fitting_classes(context.snapshot, by_class, hints, find_bought(context))
    doubt = find_doubt(context, in_doubt)
    left = [pod for pod in left if id(pod) not in daemons] if daemons else left
    evaluation = evaluate_purchases(context.state, settings, left)
    context = replace(context, barred=evaluation.barred)
    specs = chain((pod.spec for pod in left), objects.requests.atomic_specs(), objects.buffers.specs)
    context = offer_groups(context, specs, random)
    growth, requests = _grow(context, left, random, objects.requests)
    take_fitting(growth.context.snapshot, growth.held)
    spare, buffers = fill_buffers(growth, objects.buffers, hints or Hints(), random)
    objects = _Objects(requests=requests, buffers=buffers)
    reports = [*growth.reports, *spare.reports]
    actions += [*growth.actions, *spare.actions]
    hedge: ScaleUpReport | None = None
    snapshots = [growth.context.snapshot]
    if doubt is not None:
        snapshots.append(doubt.sure)
        yielding = [action for action in actions if _gives_way(action, settings)]
        written = [action for action in actions if not _gives_way(action, settings)]
        written, hedge = with_hedges(context, doubt, growth.reports, written, random)
        actions = [*yielding, *written]
        reports += [hedge] if hedge is not None else []
    min_size = None
    if settings.scale_up.enforce_node_group_min_size:
        grown = {expansion.group: expansion.target for report in reports for expansion in report.expansions}
        increases, min_size = plan_min_sizes(context, grown)
        actions += increases
    actions = _growth_first(actions, settings)
    actions += withdraw_surplus(context, snapshots, actions)
    if settings.policy.growth_goes_before_deletion:
        actions.sort(
            key=lambda action: isinstance(action, DeleteInstances)
        )  # growth must not wait for a deletion that hangs
    bought = [report for report in (*growth.reports, hedge) if report is not None]
    remembered = evaluation.purchases or context.state.memory.purchases
    purchases = note_purchases(remembered, bought, context.snapshot, settings, context.state.now)
    emptied = delete_empty_groups(context, {action.group for action in actions})
    down, down_memory = ScaleDownReport(), context.state.memory.scale_down
    if hints is not None:
        down, down_memory = _scale_down(actions, growth, reports, hints)
    plan = Plan(
        actions=(*with_creations(actions, context), *emptied),
        scale_up=reports[0],
        salvo=tuple(growth.reports[1:]),
        spare=tuple(spare.reports),
        hedge=hedge,
        min_size=min_size,
        fitting=tuple(fitting),
        misfits=evaluation.misfits,
        room_by=context.room_by,
        scale_down=down,
    )
    memory = replace(PlanMemory.of(context.state.memory), scale_down=down_memory, purchases=purchases)
    return objects.put_into(plan, memory)


def _gives_way(action: SizeWrite, settings: Settings) -> bool:
    """Return whether the action deletes machines that never registered: it may be delayed, and pods may not."""
    return (
        settings.policy.growth_goes_before_deletion and isinstance(action, DeleteInstances) and not action.failure_ids
    )


def _growth_first(actions: list[SizeWrite], settings: Settings) -> list[SizeWrite]:
    """Keep one write for each group: growth replaces a deletion that may be delayed."""
    growing = {action.group for action in actions if isinstance(action, IncreaseSize)}
    return [action for action in actions if action.group not in growing or not _gives_way(action, settings)]


def _grow(
    context: ScaleUpContext, pods: list[Pod], random: Random, requests: ProvisioningRequestState
) -> tuple[Growth, ProvisioningRequestState]:
    """Plan growth for pods and requests; return it, and the requests after it."""
    if not requests.is_enabled:
        return grow(context, pods, random), requests
    if requests.arbitrates:
        growth = grow_fairly(context, pods, requests, random)
        return growth, requests.apply(growth.changes)
    others, changes = split_consumers(pods, requests)
    requests = requests.apply(changes)
    chosen, changes = choose_request(requests)
    requests = requests.apply(changes)
    requests = requests.apply(reserve_room(context.snapshot, requests))
    growth = grow_as_ca(context, others, chosen, requests, random)
    return growth, requests.apply(growth.changes)


def _scale_down(
    actions: list[SizeWrite], growth: Growth, reports: Iterable[ScaleUpReport], hints: Hints
) -> tuple[ScaleDownReport, ScaleDownMemory]:
    """Plan removals, in the snapshot with the pods that fit. Groups that grow for pods now have just grown."""
    grown = {expansion.group for report in reports for expansion in report.expansions}
    wait = ALL_NEW if growth.is_put_off else ""
    context = _after_finding(growth.context) if growth.finds_room else growth.context
    _drop_doomed(context, actions)
    seen = context.state.observation.groups
    targets = {action.group: _target_after(action, seen[action.group]) for action in actions}
    report, memory = plan_scale_down(context, targets, grown, wait)
    return report, replace(memory, pending_hints=hints.fresh)


def _drop_doomed(context: ScaleUpContext, actions: Iterable[SizeWrite]) -> None:
    """Remove nodes from the snapshot whose machines this plan deletes, so that they are not removed twice."""
    doomed = {i.lower() for action in actions if isinstance(action, DeleteInstances) for i in action.instance_ids}
    for group in context.state.groups.values() if doomed else ():
        for name in group.readiness.never_ready:
            row = context.snapshot.find_row(name)
            if row is not None and context.snapshot.node(row).spec.provider_id.lower() in doomed:
                context.snapshot.remove_node(row)


def _after_finding(context: ScaleUpContext) -> ScaleUpContext:
    """Return the context with the time at which existing room was given to a request: scale-down waits after it."""
    memory = context.state.memory
    memory = replace(memory, scale_down=replace(memory.scale_down, room_found_at=context.state.now))
    return replace(context, state=replace(context.state, memory=memory))


def _target_after(action: SizeWrite, group: GroupSeen) -> int:
    """Return the target after the action. The cloud refuses a decrease below the machines that exist."""
    if isinstance(action, DeleteInstances):
        return action.expected_target - len(action.instance_ids)
    if isinstance(action, DecreaseTargetSize) and action.target < len(group.instances or ()):
        return action.expected_target
    return action.target


def _prepare(
    state: ClusterState, settings: Settings, corrected: frozenset[GroupRef], quotas: Sequence[NodeQuota]
) -> ScaleUpContext:
    """Return the context to plan in: without expendable pods, with upcoming nodes."""
    templates = make_templates(state, settings.templates)
    snapshot = state.observation.snapshot.fork()
    drop_passed_over(snapshot, settings)
    room_by = drop_preempted(snapshot, state.now) if settings.policy.counts_on_preempted_room else math.inf
    coming = add_upcoming(snapshot, state, templates)
    silent = find_silent(state, settings)
    doubtful = sum(silence.machines for silence in silent.values())
    accelerators = Accelerators.of(state.observation.providers.values())
    return ScaleUpContext(
        state=state,
        settings=settings,
        snapshot=snapshot,
        templates=templates,
        quota=Quota(snapshot, make_resource_limits(settings.limits), DeviceCounter(state.observation), quotas),
        accelerators=accelerators,
        corrected=corrected,
        coming=coming,
        silent={ref: silence for ref, silence in silent.items() if ref in templates},
        room_by=room_by,
        hedges_left=settings.failures.most_hedged(int(state.observation.snapshot.alive.sum())) - doubtful,
    )
