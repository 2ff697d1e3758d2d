"""Drain one node, as pure steps: which pods are evicted in which order, and what happens next.

A removal is a state machine: TAINTED → DRAINING → READY → DELETING (docs/adr/0009-scale-down.md). ``next_step`` takes
the removal and the node as the API server shows it now. It returns the removal's next state and the steps to take. The
actuator takes these steps.

The file is long because one state machine is read in one place.
"""

import math
from collections.abc import Container, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from nodewright.actuation.events import deletion_delay_expired_event, eviction_event, eviction_failed_event
from nodewright.actuation.ports import Event, Eviction, EvictionAnswer, GangView, NodeReader, NodeView
from nodewright.clusterstate.deletions import DELETION_SECONDS
from nodewright.model.action import DeleteInstances
from nodewright.model.gang import GangRef, RunningGang, find_gang
from nodewright.model.limits import DrainRank, parse_drain_priorities
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.removal import LAST_SECONDS, NodeRemoval, RemovalResult, RemovalStage, Removing
from nodewright.model.settings import DrainSettings, PodSettings, RemovalSettings
from nodewright.planner.scale_down.drainability import DrainabilityRules, describe_broken, evaluate_pods
from nodewright.planner.scale_down.missing_pods import Doubt
from nodewright.planner.scale_down.pdb import DisruptionBudgets
from nodewright.planner.scale_up.pending_pods import is_expendable
from nodewright.snapshot.context import Workloads
from nodewright.snapshot.running_gangs import find_running_among
from nodewright.snapshot.snapshot import Snapshot
from nodewright.validate.capacity import CapacityCheck
from nodewright.validate.pods import profile_of

# Seconds between a refused eviction and the next attempt.
EVICTION_RETRY_SECONDS = 10.0
# Seconds between two checks of a removal that waits for the cluster.
POLL_SECONDS = 5.0
# Seconds beyond its grace period after which an evicted pod counts as not terminated.
EVICTION_HEADROOM_SECONDS = 30.0
# Annotations with this prefix delay the deletion of the node.
DELAY_DELETION_PREFIX = "delay-deletion.cluster-autoscaler.kubernetes.io/"
# Prefix of the reason of a DeleteInstances that removes drained or empty nodes.
REMOVAL_REASON_PREFIX = "scale-down: "
# Seconds after which a forced drain looks again at the latest.
_FORCED_RETRY_SECONDS = 2.0
# Seconds before the cloud's deadline at which a forced drain deletes its machine.
_DELETE_SECONDS = 2.0
_DAEMON_EVICTION_ANNOTATION = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"
_FAKE_ANNOTATION, _FAKE = "podtype", "fakepod"
_HIGHEST = 2**31 - 1


class EvictionWave(msgspec.Struct, frozen=True, kw_only=True):
    """Pods (``namespace/name``) that are evicted together, each with at most ``grace_seconds`` to terminate.

    The next wave waits until all pods of ``full`` are gone. For ``best_effort`` (DaemonSet pods) only the eviction is
    requested.
    """

    grace_seconds: int
    full: tuple[str, ...] = ()
    best_effort: tuple[str, ...] = ()


class ActiveRemoval(msgspec.Struct, frozen=True, kw_only=True):
    """A removal under way; times in epoch seconds, pods as ``namespace/name``.

    ``stage_since`` is when the present stage, or the present wave of evictions, began. ``waves`` are the waves that are
    not finished; the first of them is under way. In this wave the API server has not yet accepted the eviction of the
    pods ``unaccepted``. ``terminating`` are evicted pods whose end is awaited since ``accepted_at``. ``refusal`` is the
    API server's last refusal of an eviction. ``may_be_delayed``: the node had a delay-deletion annotation when the
    removal began. ``gangs`` are those of which it evicted a pod. ``ready_at`` is when only the cloud call was left to make
    (inf: not yet). ``seen_empty_at`` is when the node last had no pods that would be lost with it (-inf: not yet seen).
    ``doubt`` is whether it runs pods that no list shows (None: not yet looked at). ``next_at`` is when the next step is due
    (inf: the deletion batch decides).
    """

    removal: NodeRemoval
    stage: RemovalStage
    started: float
    next_at: float
    may_be_delayed: bool = False
    waves: tuple[EvictionWave, ...] = ()
    stage_since: float = 0.0
    unaccepted: tuple[str, ...] = ()
    terminating: tuple[str, ...] = ()
    accepted_at: float = 0.0
    refusal: str = ""
    evicted: tuple[str, ...] = ()
    gangs: frozenset[GangRef] = frozenset()
    ready_at: float = math.inf
    seen_empty_at: float = -math.inf
    doubt: Doubt | None = None

    @property
    def name(self) -> str:
        """Return the node's name."""
        return self.removal.node

    @property
    def is_ready(self) -> bool:
        """Return whether only the cloud call is left to make."""
        return self.stage == RemovalStage.READY and self.ready_at < math.inf

    @property
    def as_removing(self) -> Removing:
        """Return the part of this removal that planning and status read."""
        return Removing(removal=self.removal, stage=self.stage, started=self.started)


class Evict(msgspec.Struct, frozen=True, kw_only=True):
    """A step: request the eviction of a pod, with ``grace_seconds`` to terminate.

    ``is_forced``: delete the pod, also if a disruption budget does not allow it.
    """

    pod: Pod
    grace_seconds: int
    is_forced: bool = False


class EmitEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A step: record an event."""

    event: Event


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """A step: end the removal. If it did not succeed, the node is untainted."""

    result: RemovalResult
    message: str = ""


Step = Evict | EmitEvent | Finish
Transition = tuple[ActiveRemoval, tuple[Step, ...]]


def find_ranks(settings: DrainSettings) -> tuple[DrainRank, ...]:
    """Return the configured drain priorities; without a configuration one rank for all pods. Raises ConfigError."""
    return parse_drain_priorities(settings.drain_priority_config) or (
        DrainRank(_HIGHEST, settings.max_graceful_termination_sec),
    )


def sort_into(ranks: tuple[DrainRank, ...], pods: Iterable[Pod]) -> list[tuple[DrainRank, list[Pod]]]:
    """Group pods by rank, lowest rank first. A pod below the lowest rank belongs to the lowest."""
    found: dict[DrainRank, list[Pod]] = {}
    for pod in pods:
        priority = pod.spec.priority or 0
        own = next((rank for rank in reversed(ranks) if rank.priority <= priority), ranks[0])
        found.setdefault(own, []).append(pod)
    return sorted(found.items())


def running_pods(pods: Iterable[Pod], settings: PodSettings) -> tuple[Pod, ...]:
    """Return the pods that have not ended and are not expendable."""
    return tuple(pod for pod in pods if not pod.is_terminal and not is_expendable(pod.spec.priority, settings))


def make_waves(pods: Iterable[Pod], settings: DrainSettings, *, is_empty: bool) -> tuple[EvictionWave, ...]:
    """Return the waves in which pods are evicted, lowest priority first.

    On a node that counts as empty only DaemonSet pods may be evicted. With configured drain priorities DaemonSet pods
    are awaited like other pods.
    """
    real = [pod for pod in pods if not pod.is_mirror and not _is_fake(pod)]
    daemons = [pod for pod in real if pod.is_daemonset_pod and _may_evict_daemon(pod, settings, is_empty=is_empty)]
    others = [] if is_empty else [pod for pod in real if not pod.is_daemonset_pod]
    awaited = not is_empty and bool(settings.drain_priority_config)
    best_effort = set() if awaited else {pod.key for pod in daemons}
    return tuple(
        EvictionWave(
            grace_seconds=rank.grace_seconds,
            full=tuple(pod.key for pod in members if pod.key not in best_effort),
            best_effort=tuple(pod.key for pod in members if pod.key in best_effort),
        )
        for rank, members in sort_into(find_ranks(settings), (*others, *daemons))
    )


def grace_of(pod: Pod, wave: EvictionWave) -> int:
    """Return the seconds that the pod gets to terminate."""
    return min(pod.grace_seconds, wave.grace_seconds) if wave.grace_seconds > 0 else pod.grace_seconds


def _is_fake(pod: Pod) -> bool:
    return pod.metadata.annotations.get(_FAKE_ANNOTATION) == _FAKE


def _may_evict_daemon(pod: Pod, settings: DrainSettings, *, is_empty: bool) -> bool:
    annotation = pod.metadata.annotations.get(_DAEMON_EVICTION_ANNOTATION)
    if annotation is not None:
        return annotation == "true"
    return settings.daemonset_eviction_for_empty_nodes if is_empty else settings.daemonset_eviction_for_occupied_nodes


def begin_removal(removal: NodeRemoval, node: Node, now: float, settings: RemovalSettings) -> ActiveRemoval:
    """Return the removal of a node that has just been tainted; ``node`` is the node before the taint."""
    delay, may_be_delayed = settings.drain.node_delete_delay_after_taint, _has_delay_annotation(node)
    if removal.is_forced:
        delay, may_be_delayed = min(delay, max(0.0, removal.drain_by - now)), False
    return ActiveRemoval(
        removal=removal,
        stage=RemovalStage.TAINTED,
        started=now,
        stage_since=now + delay,
        next_at=now + delay,
        may_be_delayed=settings.drain.node_deletion_delay_timeout > 0 and may_be_delayed,
    )


def next_step(active: ActiveRemoval, view: NodeView, now: float, settings: RemovalSettings) -> Transition:
    """Return the removal's next state and the steps to take; none before ``active.next_at``."""
    problem = _identity_problem(active.removal, view)
    if now < active.next_at:
        return active, ()
    if problem and active.stage != RemovalStage.DELETING:
        return active, (Finish(result=RemovalResult.INTERNAL, message=problem),)
    return _move(active, view, now, settings)


def after_eviction(active: ActiveRemoval, pod: str, eviction: Eviction, now: float) -> ActiveRemoval:
    """Return the removal after the API server's answer to one eviction."""
    if eviction.answer == EvictionAnswer.REFUSED:
        retry = _no_later(active.removal, now + max(EVICTION_RETRY_SECONDS, eviction.retry_after), now)
        return replace(active, refusal=f"{pod}: {eviction.message}", next_at=max(active.next_at, retry))
    left = tuple(other for other in active.unaccepted if other != pod)
    terminating = (*active.terminating, pod) if pod in active.waves[0].full else active.terminating
    active = replace(active, unaccepted=left, terminating=terminating, evicted=(*active.evicted, pod))
    # Once every eviction of the wave is accepted, see at once which pods are gone.
    return active if left else replace(active, accepted_at=now, next_at=now)


def after_unknown_deletion(active: ActiveRemoval, now: float) -> ActiveRemoval:
    """Return the removal after a deletion call of unknown outcome: wait for the node to disappear."""
    return replace(active, stage=RemovalStage.DELETING, stage_since=now, next_at=now + POLL_SECONDS, ready_at=math.inf)


def postponed(active: ActiveRemoval, seconds: float) -> ActiveRemoval:
    """Return the removal with all its deadlines ``seconds`` later."""
    ready_at = active.ready_at if active.is_ready else math.inf
    stage_since, accepted_at = active.stage_since + seconds, active.accepted_at + seconds
    return replace(
        active, stage_since=stage_since, accepted_at=accepted_at, next_at=active.next_at + seconds, ready_at=ready_at
    )


def _is_over(removal: NodeRemoval, now: float) -> bool:
    """Return whether the time before the cloud's deadline is over, so that the machine is deleted without more waiting."""
    return removal.deadline is not None and now >= removal.deadline - _DELETE_SECONDS


def _no_later(removal: NodeRemoval, at: float, now: float) -> float:
    """Return when to look again: at ``at``, or earlier if a forced drain must act before."""
    if removal.deadline is None:
        return at
    moments = [moment for moment in (removal.drain_by, removal.deadline - _DELETE_SECONDS) if moment > now]
    return min(at, *moments, now + _FORCED_RETRY_SECONDS)


def _move(active: ActiveRemoval, view: NodeView, now: float, settings: RemovalSettings) -> Transition:
    if _is_over(active.removal, now) and active.stage in (RemovalStage.TAINTED, RemovalStage.DRAINING):
        return _drained(active, view, now, settings)
    match active.stage:
        case RemovalStage.TAINTED:
            return _recheck(active, view, now, settings)
        case RemovalStage.DRAINING if active.unaccepted:
            return _evict(active, view, now, settings)
        case RemovalStage.DRAINING:
            return _await_termination(active, view, now, settings)
        case RemovalStage.READY:
            return _await_delay_annotations(active, view, now, settings)
        case RemovalStage.DELETING:
            return _await_deletion(active, view, now)


def _identity_problem(removal: NodeRemoval, view: NodeView) -> str:
    """Return why the node is not the one that was planned for; empty if it is."""
    if view.node is None:
        return "the node is gone"
    provider_id = view.node.spec.provider_id
    if provider_id.lower() != removal.instance_id.lower():
        return f"the node is another machine now: {provider_id}"
    return ""


def _recheck(active: ActiveRemoval, view: NodeView, now: float, settings: RemovalSettings) -> Transition:
    """Check the node once more before the first eviction.

    Since the plan was made pods may have arrived, and budgets may have shrunk.
    """
    pods = running_pods(view.pods, settings.pods)
    is_forced = active.removal.is_forced
    problem = "" if is_forced else _why_not(active.removal, pods, view.workloads, settings, now)
    if problem:
        return active, (Finish(result=RemovalResult.INTERNAL, message=problem),)
    if active.removal.places:  # under profile "ca" a plan has no places and no order
        order = {key: position for position, key in enumerate(active.removal.pods)}
        pods = tuple(sorted(pods, key=lambda pod: order.get(pod.key, len(order))))
    waves = make_waves(pods, settings.drain, is_empty=not active.removal.drains and not is_forced)
    # Pods may arrive while others are evicted: only a look after which nothing is evicted proves the node empty.
    seen_empty_at = active.seen_empty_at if waves else now
    return _next_wave(replace(active, waves=waves, seen_empty_at=seen_empty_at), view, now, settings)


def why_not_delete(removal: NodeRemoval, view: NodeView, now: float, settings: RemovalSettings) -> str:
    """Return why the machine of a node that is ready must not be deleted; empty if it may be.

    All pods that were to be moved are gone, so any pod that is there has come since, except DaemonSet, mirror and expendable
    pods.
    """
    if _is_over(removal, now):
        return _identity_problem(removal, view)
    return _identity_problem(removal, view) or why_lost(removal, view.pods, view.workloads, now, settings)


def why_lost(
    removal: NodeRemoval, pods: Iterable[Pod], workloads: Workloads, now: float, settings: RemovalSettings
) -> str:
    """Return which of a node's pods would be lost with its machine; empty if none would."""
    real = tuple(pod for pod in running_pods(pods, settings.pods) if not _is_fake(pod))
    return _why_not(replace(removal, pods=(), places=()), real, workloads, settings, now)


def _why_not(
    removal: NodeRemoval, pods: tuple[Pod, ...], workloads: Workloads, settings: RemovalSettings, now: float
) -> str:
    """Return why the node must stay; empty if it may go."""
    policy = settings.policy
    budgets = DisruptionBudgets.of(workloads, policy) if removal.drains else None
    known_workloads = workloads if removal.drains else Workloads()
    rules = DrainabilityRules(known_workloads, budgets, settings.drain, now, policy.applies_all_drain_rules)
    verdict = evaluate_pods(pods, rules)
    if verdict.blocking is not None:
        return (
            f"pod {verdict.blocking.pod} blocks the removal: {verdict.blocking.message or verdict.blocking.code.value}"
        )
    present = [pod.key for pod in (*verdict.pods, *verdict.on_completion)]
    # Without planned places (profile "ca"), a drain also evicts pods that arrived since the plan, as CA does.
    known = set(present if removal.drains and not removal.places else removal.pods)
    new = [pod for pod in present if pod not in known]
    return f"new pods run on the node, for example {new[0]}" if new else ""


def _next_wave(active: ActiveRemoval, view: NodeView, now: float, settings: RemovalSettings) -> Transition:
    """Start the first remaining wave. After the last one wait for delay-deletion annotations, then delete."""
    if not active.waves:
        return _drained(active, view, now, settings)
    wave = active.waves[0]
    unaccepted = (*wave.full, *wave.best_effort)
    draining = replace(active, stage=RemovalStage.DRAINING, stage_since=now, unaccepted=unaccepted, terminating=())
    draining, calls = _evict(draining, view, now, settings)
    return draining, (*(EmitEvent(event=eviction_event(pod)) for pod in unaccepted), *calls)


def _evict(active: ActiveRemoval, view: NodeView, now: float, settings: RemovalSettings) -> Transition:
    """Request every eviction that was not accepted yet, until ``--max-pod-eviction-time`` is over.

    Each eviction is requested at least once.
    """
    wave = active.waves[0]
    removal, patience = active.removal, settings.drain.max_pod_eviction_time
    if not removal.is_forced and now > active.stage_since and now >= active.stage_since + patience:
        return _give_up(active, view, now, settings)
    present = {pod.key: pod for pod in view.pods}
    gone = [pod for pod in active.unaccepted if pod not in present]
    active = replace(active, next_at=_no_later(removal, now + EVICTION_RETRY_SECONDS, now))
    for pod in gone:
        active = after_eviction(active, pod, Eviction(answer=EvictionAnswer.GONE), now)
    forced = removal.is_forced and now >= removal.drain_by
    calls = [
        Evict(pod=present[pod], grace_seconds=_clamped(grace_of(present[pod], wave), removal, now), is_forced=forced)
        for pod in active.unaccepted
    ]
    return active, tuple(calls)


def _clamped(grace: int, removal: NodeRemoval, now: float) -> int:
    """Return the grace period, cut to the time that is left before the cloud takes the machine."""
    if removal.deadline is None:
        return grace
    return max(1, min(grace, int(removal.deadline - LAST_SECONDS - now)))


def _give_up(active: ActiveRemoval, view: NodeView, now: float, settings: RemovalSettings) -> Transition:
    """Give up on pods that were not evicted in time: the removal fails, unless all of them are best effort."""
    refused = [pod for pod in active.unaccepted if pod in active.waves[0].full]
    if not refused:
        return _await_termination(replace(active, unaccepted=(), accepted_at=now), view, now, settings)
    steps: list[Step] = [EmitEvent(event=eviction_failed_event(pod)) for pod in refused]
    message = f"{len(refused)} pods could not be evicted; {active.refusal}"
    return active, (*steps, Finish(result=RemovalResult.FAILED_TO_EVICT, message=message))


def _await_termination(active: ActiveRemoval, view: NodeView, now: float, settings: RemovalSettings) -> Transition:
    """Wait for evicted pods to terminate within their grace period."""
    present = {pod.key for pod in view.pods}
    terminating = tuple(pod for pod in active.terminating if pod in present)
    if not terminating:
        return _next_wave(replace(active, waves=active.waves[1:], terminating=(), refusal=""), view, now, settings)
    forced = active.removal.is_forced  # goes on until the deadline
    if not forced and now >= active.accepted_at + active.waves[0].grace_seconds + EVICTION_HEADROOM_SECONDS:
        message = f"{len(terminating)} evicted pods did not terminate in time, for example {terminating[0]}"
        steps = [EmitEvent(event=eviction_failed_event(pod)) for pod in terminating]
        return active, (*steps, Finish(result=RemovalResult.FAILED_TO_EVICT, message=message))
    return replace(active, terminating=terminating, next_at=_no_later(active.removal, now + POLL_SECONDS, now)), ()


def _drained(active: ActiveRemoval, view: NodeView, now: float, settings: RemovalSettings) -> Transition:
    """Continue after the last wave."""
    if not active.removal.deletes:
        return replace(active, stage=RemovalStage.DELETING, stage_since=now, next_at=now + POLL_SECONDS), ()
    return _await_delay_annotations(replace(active, stage=RemovalStage.READY, stage_since=now), view, now, settings)


def _await_delay_annotations(
    active: ActiveRemoval, view: NodeView, now: float, settings: RemovalSettings
) -> Transition:
    """Wait for delay-deletion annotations to be removed, at most ``--node-deletion-delay-timeout``."""
    ready = replace(active, next_at=math.inf, ready_at=now)
    if not active.may_be_delayed or view.node is None or not _has_delay_annotation(view.node):
        return ready, ()
    if now >= active.stage_since + settings.drain.node_deletion_delay_timeout:
        return ready, (EmitEvent(event=deletion_delay_expired_event(active.name)),)
    return replace(active, next_at=now + POLL_SECONDS), ()


def _await_deletion(active: ActiveRemoval, view: NodeView, now: float) -> Transition:
    """Wait for the node to disappear after a deletion of unknown outcome; then the deletion has succeeded."""
    if view.node is None:
        return active, (Finish(result=RemovalResult.OK),)
    removal = active.removal
    if not removal.deletes and now >= max(active.stage_since, removal.deadline or 0.0) + DELETION_SECONDS:
        message = "the cloud did not take the machine, and its group must not become smaller"
        return active, (Finish(result=RemovalResult.INTERNAL, message=message),)
    if removal.deletes and now >= active.stage_since + DELETION_SECONDS:
        return active, (
            Finish(
                result=RemovalResult.FAILED_TO_DELETE,
                message="the deletion call had no known result, and the node still exists",
            ),
        )
    return replace(active, next_at=now + POLL_SECONDS), ()


def _has_delay_annotation(node: Node) -> bool:
    return any(key.startswith(DELAY_DELETION_PREFIX) for key in node.metadata.annotations)


def as_deletion(removals: Sequence[NodeRemoval], expected_target: int) -> DeleteInstances:
    """Return the cloud call that ends removals of one group."""
    reasons = dict.fromkeys(str(removal.reason) for removal in removals)
    return DeleteInstances(
        group=removals[0].group,
        expected_target=expected_target,
        instance_ids=tuple(removal.instance_id for removal in removals),
        reason=f"{REMOVAL_REASON_PREFIX}{', '.join(reasons)}",
    )


def has_waited_too_long(active: ActiveRemoval, now: float, settings: RemovalSettings) -> bool:
    """Return whether a removal has not begun to drain for ``--max-pod-eviction-time``. Forced removals have no such limit."""
    waits = active.stage == RemovalStage.TAINTED and not active.removal.is_forced
    return waits and now >= active.stage_since + settings.drain.max_pod_eviction_time


class GangRecheck:
    """Checks right before evictions whether they would leave a gang with too few pods.

    The pods of each namespace are listed once from the API server, past every cache: members may have ended since the plan
    was made. An instance is valid for one call of ``Actuator.step``, until a removal ends.
    """

    def __init__(self, reader: NodeReader, settings: RemovalSettings) -> None:
        self._reader = reader
        self._settings = settings
        self._seen: dict[str, GangView] = {}

    def find_broken(self, active: ActiveRemoval, pods: Iterable[Pod], leaving: Container[str]) -> str:
        """Return which gang would keep too few pods if these pods were evicted now; empty: none. Raise KubeApiError.

        Pods on the nodes in ``leaving``, which are also being drained, count as gone. Gangs of which the removal already
        evicted a pod are ignored: their owner may have started that pod again elsewhere.
        """
        if not self._settings.policy.serves_gangs:
            return ""
        running = running_pods(pods, self._settings.pods)
        moving = [
            pod
            for pod in running
            if not (pod.is_mirror or pod.is_daemonset_pod or find_gang(pod) in {None, *active.gangs})
        ]
        gangs = dict[GangRef, RunningGang]()
        for namespace in sorted({ref.namespace for ref in map(find_gang, moving) if ref is not None}):
            if namespace not in self._seen:
                self._seen[namespace] = self._reader.get_gang_view(namespace)
            seen = self._seen[namespace]
            gangs |= find_running_among(seen.pods, seen.groups, leaving)
        broken = DisruptionBudgets((), gangs=gangs).broken_gang(moving)
        return f"pod {broken.pod.key} blocks the removal: {describe_broken(broken)}" if broken is not None else ""


class PlacementRecheck:
    """Checks right before the first eviction whether the planned places of pods are still free.

    Some seconds pass between the plan and the first eviction. Each destination node is read once from the API server,
    then filled with the pods that are planned to move there. An instance is valid for one call of ``Actuator.step``: by
    the next call the moved pods run on these nodes.
    """

    def __init__(self, reader: NodeReader, settings: PodSettings) -> None:
        self._reader = reader
        self._seen: set[str] = set()
        self._snapshot = Snapshot()
        self._capacity = CapacityCheck(self._snapshot, (), settings.expendable_pods_priority_cutoff)

    def take(self, removal: NodeRemoval, pods: Iterable[Pod]) -> str:
        """Reserve the planned places of the pods that run on a node.

        Return why one of the places is not free any more; empty if all are free. Raise KubeApiError if a destination
        node cannot be read.
        """
        wanted = dict(zip(removal.pods, removal.places, strict=False))
        for pod in pods:
            place = wanted.get(pod.key)
            if not place or pod.metadata.deletion_timestamp is not None:
                continue
            self._add_node(place)
            why = self._capacity.take(profile_of(self._snapshot, pod), place)
            if why:
                return f"pod {pod.key} has no place any more: {why}"
        return ""

    def _add_node(self, name: str) -> None:
        if name in self._seen:
            return
        view = self._reader.get_node_view(name)
        self._seen.add(name)
        if view.node is None:
            return
        row = self._snapshot.add_node(view.node)
        for pod in view.pods:
            self._snapshot.place(self._snapshot.class_of(pod, placed=True), row, pod=pod)
