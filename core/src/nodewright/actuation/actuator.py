"""Carry out removals: taint nodes, take the steps of drain.py one after the other, delete machines in batches.

The file is long because it keeps the checks right before a deletion next to the call.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from nodewright.actuation.audit import Write
from nodewright.actuation.cloud_writes import Inbox, WriteOutcome
from nodewright.actuation.drain import (
    EVICTION_RETRY_SECONDS,
    POLL_SECONDS,
    ActiveRemoval,
    EmitEvent,
    Evict,
    Finish,
    GangRecheck,
    PlacementRecheck,
    Step,
    after_eviction,
    after_unknown_deletion,
    as_deletion,
    begin_removal,
    find_ranks,
    has_waited_too_long,
    next_step,
    postponed,
    why_lost,
    why_not_delete,
)
from nodewright.actuation.events import missing_pods_event, removal_ended_event, removal_started_events
from nodewright.actuation.ports import ClusterWrites, EventSink, Eviction, EvictionAnswer, NodeReader
from nodewright.actuation.taints import NodeTainter, update_soft_taints
from nodewright.clusterstate.deletions import DELETION_SECONDS
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import DeleteInstances, Done, Failed, GroupWrite, IncreaseSize, SizeWrite, Unknown
from nodewright.model.clock import Clock
from nodewright.model.errors import KubeApiError, NodewrightError, TargetChanged
from nodewright.model.gang import find_gang
from nodewright.model.group import GroupRef
from nodewright.model.plan import ScaleDownReport
from nodewright.model.removal import NodeRemoval, RemovalEnded, RemovalResult, RemovalStage, Removing
from nodewright.model.settings import RemovalSettings
from nodewright.planner.scale_down.missing_pods import CachedPods, doubt_after
from nodewright.snapshot.context import Workloads

# Seconds for which a read of a node's pods serves its deletion. Later the pods are read again.
LOOK_SECONDS = 2.0
_GROUP_INCOMPLETE = Finish(
    result=RemovalResult.FAILED_TO_DELETE, message="another node of its zero-or-max group could not be removed"
)


class DeletionBatch(NamedTuple):
    """Removals of one group that are deleted in one call at ``due_at`` (epoch seconds; inf: the batch is incomplete)."""

    group: GroupRef
    members: tuple[ActiveRemoval, ...]
    due_at: float


def find_batches(under_way: Iterable[ActiveRemoval], interval: float) -> list[DeletionBatch]:
    """Put every removal that is ready into one batch.

    ``interval`` is how many seconds the first removal of a group waits for others; 0: each is a batch of its own, except
    that all ready forced ones are one batch. The nodes of a zero-or-max group are deleted only once all that must go
    together are ready.
    """
    ready: dict[GroupRef, list[ActiveRemoval]] = {}
    for active in under_way:
        if active.is_ready:
            ready.setdefault(active.removal.group, []).append(active)
    batches: list[DeletionBatch] = []
    for group, members in ready.items():
        needed = max(active.removal.batch for active in members)
        if needed > 1:
            complete = len(members) >= needed
            due = max(active.ready_at for active in members) + interval if complete else math.inf
            batches.append(DeletionBatch(group, tuple(members), due))
        elif interval:
            batches.append(DeletionBatch(group, tuple(members), min(active.ready_at for active in members) + interval))
        else:
            forced = tuple(active for active in members if active.removal.is_forced)
            batches += [DeletionBatch(group, forced, min(active.ready_at for active in forced))] if forced else []
            others = (active for active in members if not active.removal.is_forced)
            batches += [DeletionBatch(group, (active,), active.ready_at) for active in others]
    return batches


class CloudCalls(Protocol):
    """The part of CloudWriter that removals use."""

    def act(self, actions: Sequence[Write], loop: str = "") -> tuple[WriteOutcome, ...]: ...


class InstanceDeleter:
    """Deletes machines by id, and tracks target sizes between loops.

    When another controller changed a target, or the outcome of a call is unknown, the group waits until the next loop
    reads its target.
    """

    def __init__(self, calls: CloudCalls) -> None:
        self._calls = calls
        self._targets: dict[GroupRef, int] = {}

    def update_targets(self, state: ClusterState, outcomes: Iterable[WriteOutcome]) -> None:
        """Take the targets that the last loop read, adjusted by the loop's own calls."""
        seen = state.observation.groups
        self._targets = {ref: group.target for ref, group in seen.items() if group.target is not None}
        for outcome in outcomes:
            self._apply_outcome(outcome)
            action = outcome.action
            failed = seen[action.group].failed if action.group in seen else None
            if isinstance(action, DeleteInstances) and any(
                failure.count > 1 and failure.failure_id in action.failure_ids for failure in failed or ()
            ):
                # One id stood for several machines, and clouds differ in how many they count.
                self._targets.pop(action.group, None)

    def knows_target(self, group: GroupRef) -> bool:
        """Return whether the group's target size is known."""
        return group in self._targets

    def delete(self, batch: DeletionBatch, label: str) -> WriteOutcome:
        """Delete the machines of a batch in one call; ``label`` names the call in the audit."""
        action = as_deletion([active.removal for active in batch.members], self._targets[batch.group])
        (outcome,) = self._calls.act([action], label)
        self._apply_outcome(outcome)
        return outcome

    def _apply_outcome(self, outcome: WriteOutcome) -> None:
        group, held = outcome.action.group, self._targets.get(outcome.action.group)
        match outcome:
            case Done() if held is not None:
                self._targets[group] = held + _sign(outcome.action) * outcome.accepted
            case Unknown() | Failed(code=TargetChanged.code):
                self._targets.pop(group, None)


def _sign(action: SizeWrite | GroupWrite) -> int:
    if isinstance(action, GroupWrite):
        return 0
    return 1 if isinstance(action, IncreaseSize) else -1


@dataclass(frozen=True, kw_only=True)
class ActuatorPorts:
    """The ports that the actuator reads from, writes to and reports to.

    ``find_cached`` returns the pods that the cache shows, and how many are missing there. It raises KubeApiError.
    """

    reader: NodeReader
    cluster: ClusterWrites
    calls: CloudCalls
    inbox: Inbox
    events: EventSink
    clock: Clock
    find_cached: Callable[[], CachedPods]


class Actuator:
    """All removals under way. The caller calls ``step`` at ``next_at``; nothing happens in between."""

    def __init__(self, ports: ActuatorPorts, settings: RemovalSettings, name: str) -> None:
        find_ranks(settings.drain)  # raises ConfigError at start, not in the middle of a drain
        self._reader = ports.reader
        self._cluster = ports.cluster
        self._inbox = ports.inbox
        self._events = ports.events
        self._clock = ports.clock
        self._find_cached = ports.find_cached
        # What the cache showed last, and when (epoch seconds).
        self._cached: tuple[float, CachedPods] | None = None
        self._deleter = InstanceDeleter(ports.calls)
        self._settings = settings
        self._name = name
        self._calls = 0
        self._active: dict[str, ActiveRemoval] = {}
        self._tainter = NodeTainter(ports.cluster, ports.clock)
        # Zero-or-max groups in which a removal failed since removals were last started: the others must not go either.
        self._incomplete_groups: set[GroupRef] = set()
        self._paused_until = -math.inf

    def use(self, settings: RemovalSettings) -> None:
        """Use other settings, also for removals under way. Raises ConfigError."""
        find_ranks(settings.drain)
        self._settings = settings

    def under_way(self) -> dict[str, Removing]:
        """Return the removals under way, by node name."""
        return {name: active.as_removing for name, active in self._active.items()}

    def next_at(self) -> float:
        """Return when ``step`` is due (epoch seconds); inf: only another loop or a new removal can make it due."""
        moments = [active.next_at for active in self._active.values()]
        moments += [self._due_at(batch) for batch in self._batches()]
        moments += self._tainter.due()
        return max(min(moments, default=math.inf), self._paused_until)

    # Starting removals

    def scale_down(
        self, state: ClusterState, report: ScaleDownReport, outcomes: Iterable[WriteOutcome]
    ) -> tuple[NodeRemoval, ...]:
        """Carry out the scale-down part of one loop's plan; return the removals that started.

        Cancel removals in groups that must not shrink any more, taint the nodes of new removals, update soft taints.
        ``outcomes`` are this loop's cloud calls: with what the loop observed they give the target sizes.
        """
        self._deleter.update_targets(state, outcomes)
        self._cancel(state.memory.scale_down.quarantined_until.keys(), "its group is quarantined")
        if not state.is_halted:
            self._cancel(state.left_out, "the cluster is unhealthy because of its group")
        started = self._start(report.removals)
        limits = self._settings.scale_down
        update_soft_taints(
            self._cluster, self._clock, taint=report.soft_taint, untaint=report.soft_untaint, settings=limits
        )
        return started

    def _start(self, removals: Sequence[NodeRemoval]) -> tuple[NodeRemoval, ...]:
        """Taint the nodes of forced removals, of all empty ones, then of all draining ones; return those that started.

        If one node cannot be tainted, no removal of its kind starts, and no later kind, as in CA. Forced ones start anyway.
        """
        self._incomplete_groups.clear()
        new = [removal for removal in removals if removal.node not in self._active]
        started = [removal for removal in new if removal.is_forced and self._taint_all([removal])]
        new = [removal for removal in new if not removal.is_forced]
        for kind in ([r for r in new if not r.drains], [r for r in new if r.drains]):
            if not self._taint_all(kind):
                break
            started += kind
        return tuple(started)

    def _taint_all(self, kind: Sequence[NodeRemoval]) -> bool:
        """Taint the nodes of removals; if one fails, untaint the others and return False."""
        now, tainted, problems = self._clock.now(), list[ActiveRemoval](), dict[str, str]()
        for removal in kind:
            node, problem = self._tainter.taint(removal.node, now, self._settings)
            if node is not None:
                tainted.append(begin_removal(removal, node, now, self._settings))
            else:
                problems[removal.node] = problem
        if problems:
            for active in tainted:
                self._tainter.untaint(active.name, self._settings)
            first = f"node {next(iter(problems))} could not be tainted"
            for removal in kind:
                message = problems.get(removal.node, first)
                self._report_end(removal, now, Finish(result=RemovalResult.FAILED_TO_MARK, message=message))
            return False
        for active in tainted:
            self._active[active.name] = active
            for event in removal_started_events(active.removal):
                self._events.record(event)
        return True

    def _cancel(self, groups: Collection[GroupRef], why: str) -> None:
        """End the removals in these groups, except those whose machines are being deleted already."""
        for active in list(self._active.values()):
            if active.removal.is_forced:
                continue
            if active.removal.group in groups and active.stage != RemovalStage.DELETING and active.name in self._active:
                self._finish_one(active, Finish(result=RemovalResult.INTERNAL, message=why))

    # Stepping removals

    def step(self, paused_until: float = -math.inf) -> tuple[WriteOutcome, ...]:
        """Take every step that is due, and delete every batch that is due; return the outcomes of the cloud calls.

        During a pause (until ``paused_until``, epoch seconds) no pod is evicted and no machine deleted.
        """
        now = self._clock.now()
        self._tainter.retry_untaints(now, self._settings)
        if now < paused_until:
            self._postpone_for_pause(now, paused_until)
            return ()
        placements = PlacementRecheck(self._reader, self._settings.pods)
        gangs = GangRecheck(self._reader, self._settings)
        for name in [name for name, active in self._active.items() if active.next_at <= now]:
            if name in self._active:  # the failure of another removal may have ended this one
                self._advance(self._active[name], placements, gangs)
                if name not in self._active:  # the listing may still have pods that this removal evicted
                    gangs = GangRecheck(self._reader, self._settings)
        due = [batch for batch in self._batches() if self._due_at(batch) <= self._clock.now()]
        # The outcome of one batch may end or postpone others.
        outcomes = (self._delete(batch) for batch in due if all(self._is_unchanged(active) for active in batch.members))
        return tuple(outcome for outcome in outcomes if outcome is not None)

    def _is_unchanged(self, active: ActiveRemoval) -> bool:
        return self._active.get(active.name) is active

    def _advance(self, active: ActiveRemoval, placements: PlacementRecheck, gangs: GangRecheck) -> None:
        """Take this removal's steps until the next one is not due yet."""
        while active.next_at <= self._clock.now():
            try:
                view = self._reader.get_node_view(active.name)
                taken = placements.take(active.removal, view.pods) if active.stage == RemovalStage.TAINTED else ""
                after, steps = next_step(active, view, self._clock.now(), self._settings)
                if not active.removal.is_forced and any(isinstance(step, Evict) for step in steps):
                    others = {other.name for other in self._active.values() if other.removal.drains} - {active.name}
                    taken = taken or gangs.find_broken(active, view.pods, others)
            except KubeApiError as error:
                now = self._clock.now()
                if has_waited_too_long(active, now, self._settings):
                    self._finish_one(active, Finish(result=RemovalResult.INTERNAL, message=str(error)))
                else:
                    self._active[active.name] = replace(active, next_at=now + POLL_SECONDS)
                return
            if taken:
                self._finish_one(active, Finish(result=RemovalResult.INTERNAL, message=taken))
                return
            active = self._active[active.name] = after
            for step in steps:
                self._do(step, active.name)
            if active.name not in self._active:
                return
            active = self._active[active.name]
        if active.is_ready and active.removal.group in self._incomplete_groups:
            self._finish_one(active, _GROUP_INCOMPLETE)

    def _do(self, step: Step, name: str) -> None:
        match step:
            case EmitEvent():
                self._events.record(step.event)
            case Finish():
                self._finish_one(self._active[name], step)
            case Evict():
                answer = self._evict(step)
                after = after_eviction(self._active[name], step.pod.key, answer, self._clock.now())
                gang = find_gang(step.pod)
                if gang is not None and answer.answer == EvictionAnswer.ACCEPTED:
                    after = replace(after, gangs=after.gangs | {gang})
                self._active[name] = after

    def _evict(self, step: Evict) -> Eviction:
        try:
            if step.is_forced:
                return self._cluster.delete_pod(step.pod, step.grace_seconds)
            return self._cluster.evict(step.pod, step.grace_seconds)
        except KubeApiError as error:
            return Eviction(answer=EvictionAnswer.REFUSED, message=str(error))

    def _postpone_for_pause(self, now: float, until: float) -> None:
        """Postpone all deadlines during a pause.

        A pause longer than ``--max-pod-eviction-time`` ends the removals instead.
        """
        seconds = min(EVICTION_RETRY_SECONDS, until - now)
        self._paused_until = now + seconds
        too_long = until - now > self._settings.drain.max_pod_eviction_time
        for active in list(self._active.values()):
            if active.stage == RemovalStage.DELETING or not too_long:
                self._active[active.name] = postponed(active, seconds)
            elif active.name in self._active:
                self._finish_one(active, Finish(result=RemovalResult.INTERNAL, message="writes to clouds are paused"))

    # Deleting instances

    def _batches(self) -> list[DeletionBatch]:
        return find_batches(self._active.values(), self._settings.drain.node_deletion_batcher_interval)

    def _due_at(self, batch: DeletionBatch) -> float:
        """Return when the batch is due.

        A group of unknown target size waits for the next loop to read it, for a limited time.
        """
        known = self._deleter.knows_target(batch.group)
        return batch.due_at if known else batch.due_at + DELETION_SECONDS

    def _delete(self, batch: DeletionBatch) -> WriteOutcome | None:
        """Delete a batch; return None if the call was not made."""
        if not self._deleter.knows_target(batch.group):
            if batch.due_at + DELETION_SECONDS <= self._clock.now():
                self._finish_batch(batch, "the target size of its group cannot be read")
            return None
        confirmed = self._confirm(batch)
        if not confirmed:
            return None
        batch = batch._replace(members=confirmed)
        self._calls += 1
        try:
            outcome = self._deleter.delete(batch, f"{self._name}-removal-{self._calls}")
        except NodewrightError:  # the audit record could not be kept, so the call was not made
            for active in batch.members:
                self._active[active.name] = replace(active, ready_at=self._clock.now() + EVICTION_RETRY_SECONDS)
            return None
        self._settle(batch, outcome)
        return outcome

    def _confirm(self, batch: DeletionBatch) -> tuple[ActiveRemoval, ...]:
        """Return the members whose machines may be deleted now. Their pods were read at most LOOK_SECONDS ago.

        The removal of a node with new pods ends, also if only a read by name shows them. A node that cannot be read waits,
        and so does a node that may run pods that no list shows; its zero-or-max group waits with it.
        """
        if not self._settings.policy.rereads_pods_before_deleting:
            return batch.members
        # The end of one removal may end the removals of the others.
        confirmed = tuple(
            self._active[active.name]
            for active in batch.members
            if self._is_unchanged(active)
            and self._lacks_no_pods(active)
            and self._is_still_empty(self._active[active.name])
            and self._runs_no_unlisted(self._active[active.name])
        )
        is_whole = len(confirmed) == len(batch.members) or all(active.removal.batch <= 1 for active in batch.members)
        return confirmed if is_whole else ()

    def _lacks_no_pods(self, active: ActiveRemoval) -> bool:
        """Return whether the cache shows no pods on the node, and controllers count no more than it shows in the cluster."""
        now = self._clock.now()
        if active.removal.is_forced or not self._settings.policy.compares_pods_with_controllers:
            return True
        if self._cached is None or not 0 <= now - self._cached[0] <= LOOK_SECONDS:
            try:
                self._cached = now, self._find_cached()
            except KubeApiError:
                self._active[active.name] = replace(active, ready_at=now + POLL_SECONDS)
                return False
        cached = self._cached[1]
        doubt = doubt_after(active.doubt, cached.missing, now)
        shown = why_lost(active.removal, cached.staying_on(active.name), Workloads(), now, self._settings)
        if doubt.holds(now) or (shown and not doubt.is_old(now)):
            self._active[active.name] = replace(
                active, doubt=doubt, ready_at=now + POLL_SECONDS, seen_empty_at=-math.inf
            )
            return False
        if shown:
            self._finish_one(
                active, Finish(result=RemovalResult.INTERNAL, message=f"{shown}, according to the list of all pods")
            )
            return False
        if doubt.controllers:
            self._events.record(missing_pods_event(active.name, doubt.controllers, now - doubt.since))
        self._active[active.name] = replace(active, doubt=doubt)
        return True

    def _is_still_empty(self, active: ActiveRemoval) -> bool:
        """Return whether the node has no pods that would be lost with it. Read it again if the last look is too old."""
        if 0 <= self._clock.now() - active.seen_empty_at <= LOOK_SECONDS:
            return True
        try:
            view = self._reader.get_node_view(active.name)
        except KubeApiError:
            self._active[active.name] = replace(active, ready_at=self._clock.now() + POLL_SECONDS)
            return False
        now = self._clock.now()
        problem = why_not_delete(active.removal, view, now, self._settings)
        if problem:
            self._finish_one(active, Finish(result=RemovalResult.INTERNAL, message=problem))
            return False
        self._active[active.name] = replace(active, seen_empty_at=now)
        return True

    def _runs_no_unlisted(self, active: ActiveRemoval) -> bool:
        """Return whether all pods have ended that ran on the node and then were in no list any more, each read by name."""
        if active.removal.is_forced:
            return True
        try:
            running = self._reader.find_unlisted(active.name)
        except KubeApiError as error:
            if error.retryable:
                self._active[active.name] = replace(active, ready_at=self._clock.now() + POLL_SECONDS)
            else:
                self._finish_one(active, Finish(result=RemovalResult.INTERNAL, message=str(error)))
            return False
        problem = why_lost(active.removal, running, Workloads(), self._clock.now(), self._settings)
        if problem:
            message = f"{problem}, says a read by name; no list of pods shows it"
            self._finish_one(active, Finish(result=RemovalResult.INTERNAL, message=message))
        return not problem

    def _settle(self, batch: DeletionBatch, outcome: WriteOutcome) -> None:
        """Finish, postpone or keep the removals of a batch by the outcome of its call.

        If the outcome leaves open which machines go, wait for the nodes to disappear.
        """
        match outcome:
            case Done(accepted=accepted) if accepted == len(batch.members):
                for active in batch.members:
                    self._finish_one(active, Finish(result=RemovalResult.OK))
            case Done(accepted=0):
                self._finish_batch(batch, "the cloud accepted none of the machines")
            case Failed(code=TargetChanged.code):
                return
            case Failed(retry_after=float(seconds)) if self._may_retry_later(batch, seconds):
                self._postpone(batch.group, self._clock.now() + _pause(seconds))
            case Failed():
                self._finish_batch(batch, outcome.message)
            case _:
                for active in batch.members:
                    self._active[active.name] = after_unknown_deletion(active, self._clock.now())

    def _may_retry_later(self, batch: DeletionBatch, seconds: float) -> bool:
        """Return whether a busy cloud may be called again before the removal takes too long."""
        ends = min(active.stage_since for active in batch.members) + DELETION_SECONDS
        return self._clock.now() + _pause(seconds) <= ends

    def _postpone(self, group: GroupRef, until: float) -> None:
        """Do not call a busy cloud for this group before ``until``: one refusal is enough."""
        for name, active in self._active.items():
            if active.removal.group == group and active.is_ready:
                self._active[name] = replace(active, ready_at=max(active.ready_at, until))

    # Finishing removals

    def _finish_batch(self, batch: DeletionBatch, message: str) -> None:
        for active in batch.members:
            if active.name in self._active:
                self._finish_one(active, Finish(result=RemovalResult.FAILED_TO_DELETE, message=message))

    def _finish_one(self, active: ActiveRemoval, end: Finish) -> None:
        del self._active[active.name]
        if end.result != RemovalResult.OK:
            self._tainter.untaint(active.name, self._settings)
        self._report_end(active.removal, active.started, end, active.evicted)
        if end.result != RemovalResult.OK and active.removal.batch > 1:
            self._cancel_rest_of_group(active.removal.group)

    def _cancel_rest_of_group(self, group: GroupRef) -> None:
        """End the other ready removals of a zero-or-max group: the group must not lose only a part of its nodes."""
        self._incomplete_groups.add(group)
        for active in [held for held in self._active.values() if held.removal.group == group and held.is_ready]:
            if active.name in self._active:
                self._finish_one(active, _GROUP_INCOMPLETE)

    def _report_end(self, removal: NodeRemoval, started: float, end: Finish, evicted: tuple[str, ...] = ()) -> None:
        over = RemovalEnded(
            removal=removal,
            started=started,
            at=self._clock.now(),
            result=end.result,
            message=end.message,
            evicted=evicted,
        )
        self._inbox.post_ended(over)
        self._events.record(removal_ended_event(over))


def _pause(retry_after: float) -> float:
    """Return the seconds until a busy cloud is called again."""
    return max(EVICTION_RETRY_SECONDS, retry_after)
