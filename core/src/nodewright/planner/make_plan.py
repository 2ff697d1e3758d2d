"""The plan of one loop: corrections, growth, removals (docs/architecture.md, docs/behaviour/loop.md).

The file is long because it shows the order of all steps in one place.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from random import Random
from typing import NamedTuple

from nodewright.clusterstate.accelerators import Accelerators, DeviceCounter
from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.readiness import describe_unhealthy
from nodewright.clusterstate.state import ClusterState
from nodewright.estimator.binpacking import Template
from nodewright.model.action import DecreaseTargetSize, DeleteInstances, IncreaseSize, SizeWrite
from nodewright.model.gang import is_gang_id
from nodewright.model.group import GroupRef
from nodewright.model.limits import make_resource_limits
from nodewright.model.plan import Plan, PlannedAction, ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.model.policy import Policy
from nodewright.model.reason import ScaleDownResult
from nodewright.model.settings import CorrectionSettings, Settings, SizeCorrection
from nodewright.planner.autoprovisioning import delete_empty_groups, offer_groups, with_creations
from nodewright.planner.capacity_buffers.controller import CapacityBufferState, fill_buffers
from nodewright.planner.context import PlanningContext
from nodewright.planner.gangs.find_gangs import FoundGangs, Gang, find_gangs, settle_gangs
from nodewright.planner.gangs.serve import place_gangs
from nodewright.planner.gangs.sufficiency import keep_sufficient
from nodewright.planner.growth import (
    Growth,
    await_purchase,
    count_ready_nodes,
    grow,
    grow_as_ca,
    grow_fairly,
    grow_with_gangs,
    plan_min_sizes,
)
from nodewright.planner.interruptions import Interruptions, bar_own_pools, drop_leaving, find_interruptions, plan_drains
from nodewright.planner.late_machines import find_silent
from nodewright.planner.limits import NodeQuota, Quota, ReadQuota, read_quotas, with_status
from nodewright.planner.moves import follow_moves, plan_removals
from nodewright.planner.new_moves import SEARCH_SECONDS, NewMoves, begin_moves, next_search, propose_moves
from nodewright.planner.provisioning_requests.arbitration import report_unserved
from nodewright.planner.provisioning_requests.ca import choose_request, reserve_room
from nodewright.planner.provisioning_requests.pods import expire_requests, split_consumers
from nodewright.planner.provisioning_requests.reservations import (
    keep_room,
    remove_leaving_nodes,
    remove_leftovers,
    settle_reservations,
    without_leftovers,
)
from nodewright.planner.provisioning_requests.state import NO_CHANGES, ProvisioningRequestState
from nodewright.planner.renewal import find_renewals
from nodewright.planner.rules.ca import correct_as_ca
from nodewright.planner.rules.corrections import Corrections
from nodewright.planner.rules.prompt import correct_as_seed, correct_promptly
from nodewright.planner.scale_down import forget_unneeded, plan_scale_down
from nodewright.planner.scale_down.missing_pods import hold_if_pods_are_missing
from nodewright.planner.scale_up.hedging import (
    UncertainPlacements,
    find_uncertain_placements,
    uncertain_rows,
    with_hedges,
    withdraw_surplus,
)
from nodewright.planner.scale_up.misfits import (
    evaluate_purchases,
    find_bought,
    find_moving,
    note_moves,
    note_purchases,
)
from nodewright.planner.scale_up.pending_pods import (
    ByClass,
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
from nodewright.planner.scale_up.planned_nodes import note_planned
from nodewright.planner.scale_up.running_nodes import make_chooser
from nodewright.planner.scale_up.templates import add_upcoming, make_templates
from nodewright.snapshot.observation import GroupSeen
from nodewright.snapshot.snapshot import Snapshot

ALL_NEW = "all pods that wait are very new, and more may come"
NO_READY_NODES = "cluster has no ready nodes, and --scale-up-from-zero is off"

_CORRECT: Mapping[SizeCorrection, Callable[[ClusterState, CorrectionSettings], Corrections]] = {
    "prompt": correct_promptly,
    "seed": correct_as_seed,
    "ca": correct_as_ca,
}


@dataclass(frozen=True, kw_only=True)
class _Draft:
    """The plan of one loop after the steps so far.

    ``plan`` has the reports of these steps, ``memory`` what the next loop must know of them. ``actions`` are the writes
    to groups, ``waiting`` the pending pods except those of ``gangs``. ``interruptions`` are the nodes that clouds are
    about to take. ``requests`` and ``buffers`` hold the decisions about ProvisioningRequests and CapacityBuffers.
    """

    plan: Plan
    memory: PlanMemory
    requests: ProvisioningRequestState
    buffers: CapacityBufferState
    actions: tuple[SizeWrite, ...]
    waiting: Waiting = field(default_factory=Waiting)
    gangs: FoundGangs = field(default_factory=FoundGangs)
    interruptions: Interruptions = field(default_factory=Interruptions)

    def end(self, actions: Iterable[PlannedAction] | None = None) -> tuple[Plan, PlanMemory]:
        """Return the plan with these actions (None: those of the draft), and the memory for the next loop."""
        plan, memory = self.plan, self.memory
        if self.requests.is_enabled or self.requests.decided is not NO_CHANGES:
            plan = replace(plan, provisioning=self.requests.report())
            retries = self.requests.decided.call_retries
            memory = replace(memory, provisioning=self.requests.next_memory(), call_retries=retries)
        written = tuple(self.actions if actions is None else actions)
        return replace(plan, actions=written, waiting=tuple(self.waiting.young), buffers=self.buffers.report()), memory


@dataclass(frozen=True, kw_only=True)
class _Start(_Draft):
    """The draft after sizes were corrected, with the state in which the rest is planned."""

    state: ClusterState
    settings: Settings

    @property
    def is_stopped(self) -> bool:
        """Return whether nothing more may be planned in this loop."""
        return bool(self.plan.halted or self.plan.cut_short)

    @property
    def has_work(self) -> bool:
        """Return whether there is anything to plan growth or removals for."""
        settings = self.settings
        always = settings.scale_up.enforce_node_group_min_size or settings.scale_down.scale_down_enabled
        always = always or bool(self.interruptions.notices)
        always = always or any(group.seen.is_min_scheduled for group in self.state.groups.values())
        return bool(always or self.waiting.old or self.gangs.gangs or self.requests.is_enabled or self.buffers.injects)


@dataclass(frozen=True, kw_only=True)
class _Growing(_Draft):
    """The draft while growth and removals are planned.

    ``context`` is the cluster to plan in. Pods in ``left`` fit neither on existing nor on upcoming nodes. Pods
    of ``uncertain`` rely on machines that may not come. ``hints``: where pods were placed (None: that is not remembered).
    """

    context: PlanningContext
    random: Random
    growth: Growth
    hints: Hints | None
    left: Sequence[Pod] = ()
    due: tuple[Gang, ...] = ()
    uncertain: UncertainPlacements | None = None

    @property
    def reports(self) -> tuple[ScaleUpReport, ...]:
        """Return the reports of all growth for pods, in the order in which it was planned."""
        hedge = (self.plan.hedge,) if self.plan.hedge is not None else ()
        return (*self.growth.reports, *self.plan.spare, *hedge)

    @property
    def is_changing(self) -> bool:
        """Return whether sizes change, or pods wait for growth in a later loop: no nodes are replaced meanwhile."""
        return bool(self.actions or self.waiting.young or await_purchase(self.left, self.growth.reports))


def make_plan(state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
    """Return the plan with its reasons, and the memory for the next loop.

    Pure: the same state, settings and random numbers give the same plan.
    """
    draft = _before_growth(state, settings, random)
    if not isinstance(draft, _Growing):
        return draft.end()
    for step in (
        _grow_groups,
        _fill_buffers,
        _hedge,
        _reach_minimum_sizes,
        _order_writes,
        _note_purchases,
        _remove_nodes,
        _renew_nodes,
        _move_nodes,
        _drain_interrupted,
    ):
        draft = step(draft)
    emptied = delete_empty_groups(draft.context, {action.group for action in draft.actions})
    return draft.end((*with_creations(draft.actions, draft.context), *emptied))


def find_growth_context(state: ClusterState, settings: Settings, random: Random) -> PlanningContext | None:
    """Return the context in which growth for pending pods is planned, for explanations; None if none is planned."""
    draft = _before_growth(state, settings, random)
    return draft.context if isinstance(draft, _Growing) else None


# Before growth


def _before_growth(state: ClusterState, settings: Settings, random: Random) -> _Start | _Growing:
    """Return the draft before growth is planned; a ``_Start`` if nothing more is planned in this loop."""
    quotas = read_quotas(state.observation, settings.limits)
    start = _correct_sizes(state, settings, quotas)
    if start.is_stopped:
        return start
    start = _find_waiting_pods(_settle_requests(start))
    if not start.has_work:
        return start
    draft = _begin_growing(start, [read.limit for read in quotas if read.limit is not None], random)
    for step in (_place_fitting_pods, _offer_new_groups, _evaluate_purchases):
        draft = step(draft)
    return draft


def _correct_sizes(state: ClusterState, settings: Settings, quotas: Sequence[ReadQuota]) -> _Start:
    """Correct sizes. Set ``halted`` or ``cut_short`` in the plan if nothing else may be planned in this loop."""
    corrections = _CORRECT[settings.policy.rule](state, settings.corrections)
    statuses = [(read, with_status(read, state.observation)) for read in quotas]
    start = _Start(
        state=corrections.state,
        settings=settings,
        plan=Plan(quotas=tuple(fresh for read, fresh in statuses if fresh is not read.quota)),
        memory=PlanMemory.of(corrections.state.memory),
        requests=ProvisioningRequestState.of(state, settings.requests),
        buffers=CapacityBufferState.of(state, settings.buffers, settings.pods),
        actions=corrections.actions,
    )
    lacks_ready_nodes = not settings.loop.scale_up_from_zero and not count_ready_nodes(start.state, settings.templates)
    if not lacks_ready_nodes:
        start = replace(start, requests=start.requests.apply(expire_requests(start.requests)))
    unhealthy = start.state.memory.unhealthy
    if start.state.is_halted and unhealthy is not None:
        return _halted(start, describe_unhealthy(unhealthy, state.now))
    if lacks_ready_nodes:
        kept = start.actions if settings.policy.corrects_without_ready_nodes else ()
        return _halted(replace(start, actions=kept), NO_READY_NODES)
    return replace(start, plan=replace(start.plan, cut_short=corrections.cut_short))


def _halted(start: _Start, reason: str) -> _Start:
    """Return the draft in which only corrections are planned, and every node counts as needed."""
    memory = replace(start.memory, scale_down=forget_unneeded(start.state, start.settings.scale_down))
    return replace(start, plan=replace(start.plan, halted=reason), memory=memory)


def _settle_requests(start: _Start) -> _Start:
    """Settle the reservations of requests and gangs, and remove the machines of broken reservations."""
    state, requests = start.state, start.requests
    gangs = find_gangs(state.observation, start.settings.pods, start.settings.policy)
    start = replace(start, gangs=gangs)
    if not (requests.arbitrates or gangs.gangs or any(map(is_gang_id, requests.reservations))):
        return start
    if requests.arbitrates:
        requests = requests.apply(report_unserved(requests, state.observation.providers))
        requests = requests.apply(settle_reservations(state, requests))
    if any(gang.ref.id in requests.reservations for gang in gangs.gangs):
        make_snapshot = partial(_snapshot_with, start.settings)
        requests = requests.apply(keep_sufficient(state, requests, gangs.gangs, make_snapshot))
    requests = requests.apply(settle_gangs(state, requests, gangs.gangs))
    leftovers, changes = remove_leftovers(state, requests, [action.group for action in start.actions])
    requests = requests.apply(changes)
    actions = (*start.actions, *leftovers)
    return replace(start, requests=requests, actions=actions, state=without_leftovers(state, requests))


def _snapshot_with(settings: Settings, state: ClusterState, requests: ProvisioningRequestState) -> Snapshot:
    """Return a snapshot to plan in, with upcoming nodes except those of broken reservations."""
    state = without_leftovers(state, requests)
    interruptions = find_interruptions(state, settings.pods)
    snapshot = _room_for_pods(state, settings, interruptions, make_templates(state, settings.templates)).snapshot
    remove_leaving_nodes(snapshot, state, requests)
    return snapshot


def _find_waiting_pods(start: _Start) -> _Start:
    """Find the pending pods, and those that controllers will create again for pods that are or will be evicted."""
    seen, settings = start.state.observation, start.settings
    snapshot, classes = seen.snapshot, seen.snapshot.vocabulary.classes
    unhelped = unhelped_namespaces(snapshot, settings.policy)
    waiting = find_pending(start.gangs.others, settings.pods, seen.now, classes, unhelped)
    waiting.young.extend(start.gangs.young)
    waiting.add(find_recreated(snapshot, seen.removing, settings.pods), classes)
    interruptions = find_interruptions(start.state, settings.pods)
    waiting.add(interruptions.demand, classes)
    return replace(start, waiting=waiting, interruptions=interruptions)


class _SnapshotWithRoom(NamedTuple):
    """A snapshot to plan in, the rows of upcoming nodes, and when the first preempted pod must have ended (epoch seconds)."""

    snapshot: Snapshot
    coming: Mapping[GroupRef, range]
    room_by: float


def _room_for_pods(
    state: ClusterState, settings: Settings, interruptions: Interruptions, templates: Mapping[GroupRef, Template]
) -> _SnapshotWithRoom:
    """Return the room for pending pods: without expendable and preempted pods and nodes that leave, with upcoming nodes."""
    policy = settings.policy
    snapshot = state.observation.snapshot.fork()
    drop_leaving(snapshot, interruptions)
    drop_passed_over(snapshot, settings.pods, policy)
    room_by = drop_preempted(snapshot, state.now) if policy.counts_on_preempted_room else math.inf
    return _SnapshotWithRoom(snapshot, add_upcoming(snapshot, state, templates), room_by)


def _begin_growing(start: _Start, quotas: Sequence[NodeQuota], random: Random) -> _Growing:
    """Return the draft with the cluster to plan in: without expendable pods, with upcoming nodes."""
    state, settings, policy = start.state, start.settings, start.settings.policy
    templates = make_templates(state, settings.templates)
    snapshot, coming, room_by = _room_for_pods(state, settings, start.interruptions, templates)
    silent = find_silent(state, settings.failures, policy)
    doubtful = sum(silence.machines for silence in silent.values())
    awaits = policy.awaits_corrections
    # Keep the nodes that were found for pending pods until the pods are bound: a new search may miss room that is tight.
    remembers = settings.scale_down.scale_down_enabled or policy.mixes_groups or bool(start.interruptions.notices)
    hints = Hints(before=state.memory.scale_down.pending_hints) if remembers else None
    context = PlanningContext(
        state=state,
        settings=settings,
        snapshot=snapshot,
        templates=templates,
        quota=Quota(snapshot, make_resource_limits(settings.limits), DeviceCounter(state.observation), quotas),
        accelerators=Accelerators.of(state.observation.providers.values()),
        corrected=frozenset(action.group for action in start.actions if awaits and not _gives_way(action, policy)),
        coming=coming,
        silent={ref: silence for ref, silence in silent.items() if ref in templates},
        room_by=room_by,
        at_risk=start.interruptions.at_risk,
        hedges_left=settings.failures.most_hedged(int(state.observation.snapshot.alive.sum())) - doubtful,
    )
    return _Growing(
        plan=replace(start.plan, room_by=room_by),
        memory=start.memory,
        requests=start.requests,
        buffers=start.buffers,
        actions=start.actions,
        waiting=start.waiting,
        gangs=start.gangs,
        interruptions=start.interruptions,
        context=context,
        random=random,
        growth=Growth(context=context),
        hints=hints,
    )


# Growth and removals


def _place_fitting_pods(draft: _Growing) -> _Growing:
    """Place the pods that fit on existing and upcoming nodes."""
    context, requests, by_class = draft.context, draft.requests, draft.waiting.by_class
    if requests.reservations:
        remove_leaving_nodes(context.snapshot, context.state, requests)
    if requests.arbitrates:
        others, changes = split_consumers(draft.waiting.old, requests)
        requests = requests.apply(changes)
        by_class = context.snapshot.vocabulary.classes.sort(others)
        requests = requests.apply(keep_room(context.snapshot, requests))
    of_gangs, fitting, left, due, rest = _place_gangs(context, draft.gangs.gangs, by_class, draft.hints)
    # Leave out the rows with pods of gangs: these pods are not hedged one by one.
    rows = uncertain_rows(context, fitting)
    more, others = _take(context, rest, rest, draft.hints)
    fitting, left = of_gangs + fitting + more, left + others
    uncertain, daemons = find_uncertain_placements(context, rows), draft.waiting.daemons
    left = [pod for pod in left if id(pod) not in daemons] if daemons else left
    plan = replace(draft.plan, fitting=tuple(fitting))
    return replace(draft, plan=plan, requests=requests, left=left, due=tuple(due), uncertain=uncertain)


def _place_gangs(
    context: PlanningContext, gangs: Sequence[Gang], by_class: ByClass, hints: Hints | None
) -> tuple[list[Pod], list[Pod], list[Pod], list[Gang], ByClass]:
    """Place gangs, and before them the pods of a higher priority.

    Return the pods of gangs that fit, other pods that fit, pods that do not fit, gangs without room, and the pods that
    are still to be placed.
    """
    of_gangs, fitting, left, due, rest = list[Pod](), list[Pod](), list[Pod](), list[Gang](), dict(by_class)
    for priority, alike in groupby(gangs, key=lambda gang: gang.priority):
        urgent = {held: pods for held, pods in rest.items() if (held.spec.priority or 0) > priority}
        if urgent:
            more, others = _take(context, urgent, rest, hints)
            fitting, left = fitting + more, left + others
            rest = {held: pods for held, pods in rest.items() if held not in urgent}
        placed = place_gangs(context.snapshot, alike, hints)
        of_gangs.extend(placed.fitting)
        due.extend(placed.due)
        for held, pods in context.snapshot.vocabulary.classes.sort(placed.others).items():
            rest[held] = [*rest.get(held, ()), *pods]
    return of_gangs, fitting, left, due, rest


def _take(
    context: PlanningContext, classes: ByClass, waiting: ByClass, hints: Hints | None
) -> tuple[list[Pod], list[Pod]]:
    """Place the pods that fit, first where machines were bought for such pods; return them and the others."""
    bought, choose = find_bought(context, waiting), make_chooser(context) if classes else None
    return take_fitting_classes(context.snapshot, classes, hints, bought, choose)


def _offer_new_groups(draft: _Growing) -> _Growing:
    """Add the groups that providers could create."""
    of_gangs = (pod.spec for gang in draft.due if not gang.problem for pod in gang.waiting)
    specs = chain((pod.spec for pod in draft.left), of_gangs, draft.requests.atomic_specs(), draft.buffers.specs)
    return replace(draft, context=offer_groups(draft.context, specs, draft.random))


def _evaluate_purchases(draft: _Growing) -> _Growing:
    """Bar groups for pods that their new nodes did not take, and for pods of nodes that a cloud recommends to replace.

    Groups that providers could create are barred as well: they are offered before.
    """
    context, memory = draft.context, draft.memory
    of_gangs = chain.from_iterable(gang.waiting for gang in draft.due)
    waiting = chain(draft.left, of_gangs, find_moving(context.state))
    found = evaluate_purchases(context, waiting)
    purchases = found.purchases or memory.purchases
    left, own_pools = bar_own_pools(draft.interruptions, context.snapshot, draft.left)
    barred = {**found.barred, **{held: {**found.barred.get(held, {}), **own} for held, own in own_pools.items()}}
    return replace(
        draft,
        plan=replace(draft.plan, misfits=found.misfits),
        memory=replace(memory, purchases=purchases),
        context=replace(context, barred=barred, purchases=purchases),
        left=left,
    )


def _grow_groups(draft: _Growing) -> _Growing:
    """Plan growth for pods and for requests."""
    context, requests, pods, random = draft.context, draft.requests, draft.left, draft.random
    if not requests.is_enabled:
        growth = (
            grow_with_gangs(context, pods, draft.due, requests, random) if draft.due else grow(context, pods, random)
        )
    elif requests.arbitrates:
        growth = grow_fairly(context, pods, draft.due, requests, random)
    else:
        others, changes = split_consumers(pods, requests)
        requests = requests.apply(changes)
        chosen, changes = choose_request(requests)
        requests = requests.apply(changes)
        requests = requests.apply(reserve_room(context.snapshot, requests))
        growth = grow_as_ca(context, others, chosen, requests, random)
    fitting = (*draft.plan.fitting, *growth.fitting)
    plan = replace(draft.plan, scale_up=growth.reports[0], salvo=tuple(growth.reports[1:]), fitting=fitting)
    actions = (*draft.actions, *growth.actions)
    return replace(draft, plan=plan, requests=requests.apply(growth.changes), growth=growth, actions=actions)


def _fill_buffers(draft: _Growing) -> _Growing:
    """Find room for the virtual pods of CapacityBuffers, after all other pods."""
    growth = draft.growth
    take_fitting(growth.context.snapshot, growth.held)
    spare, buffers = fill_buffers(growth, draft.buffers, draft.hints or Hints(), draft.random)
    plan = replace(draft.plan, spare=tuple(spare.reports))
    return replace(draft, plan=plan, buffers=buffers, actions=(*draft.actions, *spare.actions))


def _hedge(draft: _Growing) -> _Growing:
    """Buy machines of other groups for pods that rely on machines that may not come."""
    if draft.uncertain is None:
        return draft
    policy = draft.context.settings.policy
    yielding = [action for action in draft.actions if _gives_way(action, policy)]
    written = [action for action in draft.actions if not _gives_way(action, policy)]
    written, hedge = with_hedges(draft.context, draft.uncertain, draft.growth.reports, written, draft.random)
    return replace(draft, plan=replace(draft.plan, hedge=hedge), actions=(*yielding, *written))


def _reach_minimum_sizes(draft: _Growing) -> _Growing:
    """Grow the groups that are below their minimum size."""
    is_scheduled = any(group.seen.is_min_scheduled for group in draft.context.state.groups.values())
    if not (is_scheduled or draft.context.settings.scale_up.enforce_node_group_min_size):
        return draft
    grown = {expansion.group: expansion.target for report in draft.reports for expansion in report.expansions}
    increases, report = plan_min_sizes(draft.context, grown)
    return replace(draft, plan=replace(draft.plan, min_size=report), actions=(*draft.actions, *increases))


def _order_writes(draft: _Growing) -> _Growing:
    """Keep one write for each group, withdraw hedges that are not needed any more, and put growth first."""
    context, policy = draft.context, draft.context.settings.policy
    growing = {action.group for action in draft.actions if isinstance(action, IncreaseSize)}
    # Growth replaces a deletion that may be delayed.
    actions = [action for action in draft.actions if action.group not in growing or not _gives_way(action, policy)]
    snapshots = [draft.growth.context.snapshot, *((draft.uncertain.sure,) if draft.uncertain is not None else ())]
    actions += withdraw_surplus(context, snapshots, actions)
    if policy.growth_goes_before_deletion:
        # Growth must not wait for a deletion that hangs.
        actions.sort(key=lambda action: isinstance(action, DeleteInstances))
    return replace(draft, actions=tuple(actions))


def _note_purchases(draft: _Growing) -> _Growing:
    """Remember which groups were grown for which kinds of pods."""
    context, hedge = draft.context, draft.plan.hedge
    bought = [report for report in (*draft.growth.reports, hedge) if report is not None]
    held = draft.memory.purchases
    purchases = note_purchases(held, bought, context.snapshot, context.settings.policy, context.state.now)
    planned = note_planned(draft.memory.planned_pods, bought, context)
    return replace(draft, memory=replace(draft.memory, purchases=purchases, planned_pods=planned))


def _remove_nodes(draft: _Growing) -> _Growing:
    """Plan removals in the snapshot with the pods that fit. Groups that this plan grows for pods count as just grown."""
    hints, growth = draft.hints, draft.growth
    if hints is None:
        return draft
    if not draft.context.settings.scale_down.scale_down_enabled:
        kept = replace(draft.memory.scale_down, pending_hints=hints.fresh)
        return replace(draft, memory=replace(draft.memory, scale_down=kept))
    grown = {expansion.group for report in draft.reports for expansion in report.expansions}
    context = _after_finding(growth.context) if growth.finds_room else growth.context
    _remove_deleted(context, draft.actions)
    seen = context.state.observation.groups
    targets = {action.group: _target_after(action, seen[action.group]) for action in draft.actions}
    found = follow_moves(context)
    context = replace(context, in_moves=found.in_moves, marked=found.marked)
    report, memory = plan_scale_down(context, targets, grown, ALL_NEW if growth.is_put_off else "")
    memory = replace(memory, pending_hints=hints.fresh)
    # While a move is under way, old and new nodes are paid for: its sources go before other nodes, if budgets allow any.
    is_cooling = report.result is ScaleDownResult.IN_COOLDOWN
    report = replace(report, removals=plan_removals(context, found, is_cooling=is_cooling) or report.removals)
    if context.settings.policy.compares_pods_with_controllers:
        report = hold_if_pods_are_missing(report, context.state)
    return replace(
        draft,
        plan=replace(draft.plan, scale_down=report, moves=found.moves),
        memory=replace(draft.memory, scale_down=memory, moves=found.memory),
    )


def _renew_nodes(draft: _Growing) -> _Growing:
    """Begin to replace nodes that are too old or have drifted, while no pods wait and no move is under way.

    No renewal begins either while pods wait for upcoming machines: if these do not come, the pods take the renewal's.
    """
    context, held, settings = draft.growth.context, draft.memory.moves, draft.context.settings
    if not settings.scale_down.scale_down_enabled:
        return draft
    hindrance = "pods wait for new nodes, or sizes are being changed" if draft.is_changing else context.state.paused
    fitting = {id(pod) for pod in draft.plan.fitting if not pod.is_daemonset_pod}
    coming = (row for rows in context.coming.values() for row in rows) if fitting else ()
    if any(id(pod) in fitting for row in coming for pod in context.snapshot.pods(row)):
        hindrance = hindrance or "pods wait for machines that are on their way"
    found = find_renewals(context, held, settings.renewal, draft.random, hindrance=hindrance)
    proposals = () if found.proposal is None else (found.proposal,)
    begun = begin_moves(found.memory, proposals, context.state)
    plan = replace(draft.plan, outdated=found.outdated, renew_at=found.next_at)
    return _with_moves(replace(draft, plan=plan), begun)


def _move_nodes(draft: _Growing) -> _Growing:
    """Begin moves that pay, if nothing else changes in the cluster."""
    settings, held = draft.context.settings, draft.memory.moves
    if not settings.seeks_moves:
        return draft
    state = draft.context.state
    if state.paused:  # the growth for a move would have to wait
        return replace(draft, plan=replace(draft.plan, search_at=state.now + SEARCH_SECONDS))
    scale_down = draft.plan.scale_down
    plan = replace(draft.plan, search_at=max(state.now, next_search(held, state.now), scale_down.cooldown_until))
    if draft.is_changing or scale_down.removals or scale_down.result is ScaleDownResult.IN_COOLDOWN:
        return replace(draft, plan=plan)
    begun = propose_moves(draft.growth.context, held, settings.moves, scale_down.unneeded, draft.random)
    plan = replace(plan, search_at=next_search(begun.memory, state.now), rejected_move=begun.rejected)
    return _with_moves(replace(draft, plan=plan), begun)


def _with_moves(draft: _Growing, begun: NewMoves) -> _Growing:
    """Return the draft with the moves that begin, their growth, and a note for which kinds of pods each group grows."""
    context, memory = draft.context, draft.memory
    bought = [node for move in begun.moves for node in begun.memory.places[move.id].new_nodes]
    purchases = note_moves(memory.purchases, bought, context.snapshot, context.settings.policy, context.state.now)
    return replace(
        draft,
        plan=replace(draft.plan, moves=(*draft.plan.moves, *begun.moves)),
        memory=replace(memory, moves=begun.memory, purchases=purchases),
        actions=(*draft.actions, *begun.increases),
    )


def _drain_interrupted(draft: _Growing) -> _Growing:
    """Plan the drains of nodes whose machine the cloud is about to take, beside the removals of scale-down."""
    if not draft.interruptions.notices:
        return draft
    context, report = draft.context, draft.plan.scale_down
    taken = {removal.node for removal in report.removals}
    removals, leaving = plan_drains(
        context.state, draft.interruptions, draft.hints or Hints(), taken, context.settings.drain
    )
    report = replace(report, removals=(*report.removals, *removals))
    return replace(draft, plan=replace(draft.plan, scale_down=report, leaving=leaving))


def _gives_way(action: SizeWrite, policy: Policy) -> bool:
    """Return whether the action deletes machines that never registered: unlike growth for pods, it may be delayed."""
    return policy.growth_goes_before_deletion and isinstance(action, DeleteInstances) and not action.failure_ids


def _remove_deleted(context: PlanningContext, actions: Iterable[SizeWrite]) -> None:
    """Remove nodes from the snapshot whose machines this plan deletes, so that they are not removed twice."""
    deleted = {i.lower() for action in actions if isinstance(action, DeleteInstances) for i in action.instance_ids}
    for group in context.state.groups.values() if deleted else ():
        for name in group.readiness.never_ready:
            row = context.snapshot.find_row(name)
            if row is not None and context.snapshot.node(row).spec.provider_id.lower() in deleted:
                context.snapshot.remove_node(row)


def _after_finding(context: PlanningContext) -> PlanningContext:
    """Return the context in which existing room was given to a request now: scale-down waits afterwards."""
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
