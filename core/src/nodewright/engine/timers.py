"""Compute when the next loop starts before the scan interval ends.

A loop starts early when a deadline passes that pods wait for, and after machines came that pods waited for: kube-scheduler
may place pods differently than planned, so that one of them has no room. If time alone cannot change a decision, an unchanged
cluster is not planned again.
"""

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from nodewright.clusterstate.learned_templates import settling_seconds
from nodewright.clusterstate.node_samples import STABLE_SECONDS
from nodewright.clusterstate.purchases import DAY
from nodewright.clusterstate.readiness import ready_since
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.engine.report import LoopReport
from nodewright.model.action import CreateNodeGroup, IncreaseSize
from nodewright.model.duration import parse_duration
from nodewright.model.plan import Plan
from nodewright.model.pod import Pod
from nodewright.model.policy import Policy
from nodewright.model.reason import ScaleUpResult
from nodewright.model.settings import Settings
from nodewright.planner.growth import YOUNG_SECONDS
from nodewright.planner.interruptions import SCOPE_SECONDS
from nodewright.planner.late_machines import registration_deadlines, silence_deadlines, startup_deadlines
from nodewright.planner.scale_up.pending_pods import DELAY_ANNOTATION

# A deadline has passed once the time is greater. So many seconds later it certainly is, however clocks round.
_AFTER = 0.01
# The least pause between two loops that deadlines start, in seconds.
_LEAST_PAUSE = 1.0


def next_timer(state: ClusterState, plan: Plan, settings: Settings) -> float:
    """Return the earliest time (epoch seconds) after which a loop may decide something new in an unchanged cluster.

    A deadline has passed when the time is greater. Infinity: only a change of the cluster matters.
    """
    moments = [*_growth_moments(state, plan, settings), *(held.until for held in plan.held_back)]
    moments += _drain_moments(plan)
    moments += [move.deadline for move in plan.moves]
    moments.append(_edge(state))
    moments += [plan.scale_down.next_change, plan.provisioning.next_change, plan.search_at, plan.renew_at]
    if plan.partial:
        moments.append(state.now)
    if any(report.result == ScaleUpResult.IN_COOLDOWN for report in (plan.scale_up, *plan.spare)):
        moments.append(state.now + YOUNG_SECONDS)
    pause = settings.failures.initial_node_group_backoff_duration
    moments.extend(tried + pause for tried in state.memory.deletion_tried.values())
    moments.extend(held.until for ref, held in state.memory.backoffs.items() if ref not in state.groups)
    for ref, since in state.memory.empty_since.items():
        moments.append(since + state.groups[ref].seen.options.scale_down_unneeded_seconds)
    for group in state.groups.values():
        if group.withdrawn_at:
            moments.append(group.withdrawn_at + pause)
        moments.extend(_sample_moments(group, state))
    return _earliest(moments, state)


def next_deadline(state: ClusterState, plan: Plan, settings: Settings) -> float:
    """Return the earliest time (epoch seconds) after which a loop may help pods that wait; infinity: there is none.

    It is one of the times of ``next_timer``. If no pod and no reservation waits, only windows of disruption budgets and
    schedules count: for all else the next scan is early enough.
    """
    is_reserved = any(request.atomic for group in state.groups.values() for request in group.requests)
    drains = _drain_moments(plan)
    if not state.observation.pending and not is_reserved and not drains:
        return _edge(state)
    held = (held.until for held in plan.held_back if isinstance(held.action, (IncreaseSize, CreateNodeGroup)))
    in_flight = (write.until for write in state.memory.writes_in_flight.values())
    return _earliest([*_growth_moments(state, plan, settings), *held, *in_flight, *drains, _edge(state)], state)


def _drain_moments(plan: Plan) -> list[float]:
    """Return when nodes that the cloud is about to take are drained at the latest."""
    return [leaving.drain_by for leaving in plan.leaving if not leaving.is_draining]


def _edge(state: ClusterState) -> float:
    """Return the largest float before the next window opens or closes: timers compare with ``>``, and edges are exact."""
    edge = state.observation.next_edge
    return math.nextafter(edge, -math.inf) if edge < math.inf else edge


def _earliest(moments: Iterable[float], state: ClusterState) -> float:
    return min((moment for moment in moments if moment >= state.now), default=math.inf)


def _growth_moments(state: ClusterState, plan: Plan, settings: Settings) -> Iterator[float]:
    """Yield when groups may grow again for pods, or other groups in place of those that did not deliver."""
    yield from _pod_moments(plan.waiting, settings.pods.new_pod_scale_up_delay)
    yield plan.room_by
    yield from (notice.since + SCOPE_SECONDS for held in state.memory.notices.values() for notice in held)
    yield from silence_deadlines(state, settings.failures, settings.policy)
    if state.is_halted and state.memory.unhealthy is not None:
        yield state.memory.unhealthy.resumes_at
    yield from (held.until for held in state.memory.deferrals.values())
    policy = settings.policy
    nodes = {node.name: node for _, node in state.observation.snapshot.nodes()} if _has_starting(state) else {}
    for group in state.groups.values():
        yield from _group_moments(group, state, policy)
        for name in group.readiness.not_started:
            created = nodes[name].metadata.creation_timestamp
            if created is not None:
                # A loop exactly at the end finds the node overdue.
                end = created.timestamp() + group.seen.options.max_node_startup_seconds
                yield math.nextafter(end, -math.inf)


def _has_starting(state: ClusterState) -> bool:
    return any(group.readiness.not_started for group in state.groups.values())


def _group_moments(group: GroupState, state: ClusterState, policy: Policy) -> Iterator[float]:
    for request in group.requests:
        yield request.deadline
    if group.backoff is not None:
        yield group.backoff.until
    patience = group.seen.options.max_node_provision_seconds
    if group.size_gap is not None:
        yield group.size_gap.since + patience
    for instance_id in group.readiness.unregistered:
        yield state.memory.unregistered_since.get((group.ref, instance_id), state.now) + patience
    yield from registration_deadlines(group, state, policy).values()
    yield from startup_deadlines(group, state).values()


def _sample_moments(group: GroupState, state: ClusterState) -> Iterator[float]:
    """Yield when purchases may be repeated, and when a first node has been ready long enough to be a sample."""
    purchases = state.memory.purchases.get(group.ref, {})
    yield from (purchase.until for purchase in purchases.values())
    yield from (at + DAY for purchase in purchases.values() for at in purchase.misfits)
    sample = state.memory.samples.get(group.ref)
    learned = state.memory.learned.get(group.ref)
    if (
        not any(purchase.asked for purchase in purchases.values())
        and sample is not None
        and sample.node.name in group.readiness.ready
    ):
        yield ready_since(sample.node) + STABLE_SECONDS
        return
    snapshot = state.observation.snapshot
    for name in group.readiness.ready:
        node = snapshot.node(snapshot.row(name))
        if learned is None or node.created >= learned.since:  # an older node is no sample of the current template
            ready = ready_since(node)
            yield from {ready + STABLE_SECONDS, ready + settling_seconds(learned)}


def _pod_moments(waiting: Iterable[Pod], shortest: float) -> Iterator[float]:
    """Yield when delayed pods become old enough to plan for: ``shortest`` seconds after their creation, or later."""
    for pod in waiting:
        created = pod.metadata.creation_timestamp
        delay = shortest
        with suppress(ValueError):  # an unreadable annotation is ignored, as in planning
            delay = max(delay, parse_duration(pod.metadata.annotations.get(DELAY_ANNOTATION, "0")))
        if created is not None:
            yield created.timestamp() + delay


class WakeUps:
    """Starts a loop right after each deadline, at most one a second.

    Loops that deadlines start one right after the other are at least a second apart. If such a loop does nothing, the pause
    after it doubles, up to the scan interval, until a deadline is further away than the pause.
    """

    def __init__(self) -> None:
        self._pause = 0.0
        self._wake_at = math.inf

    def next_at(self, deadline: float, *, started: float, did_something: bool, scan_interval: float) -> float:
        """Return when the deadline starts the next loop (epoch seconds); infinity: there is none.

        ``started`` is when the loop started that found the ``deadline``, and ``did_something`` whether that loop wrote.
        """
        if self._wake_at <= started:
            longer = _LEAST_PAUSE if did_something else max(_LEAST_PAUSE, 2 * self._pause)
            self._pause = min(longer, scan_interval)
        if deadline > started + self._pause:
            self._pause = 0.0
        self._wake_at = max(deadline + _AFTER, started + self._pause)
        return self._wake_at


# Seconds after which loops look again while pods are not bound.
_LOOKS = (1.0, 3.0, 7.0, 15.0)


class NodesReadyAlarm:
    """Rings when all machines that pods wait for are Ready: the next loop need not wait for the scan interval.

    It is thread-safe: the loop calls ``begin`` and ``expect``, the watch of nodes calls ``see_ready``.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._lock = threading.Lock()
        # How many machines must become Ready; infinity: no pod waits for any.
        self._awaited = math.inf
        # How many nodes became Ready since the last loop began to read.
        self._came = 0

    def begin(self) -> None:
        """Reset the count: the loop that begins now reads which nodes are Ready."""
        with self._lock:
            self._came = 0

    def expect(self, report: LoopReport) -> None:
        """Set how many machines pods wait for after a loop."""
        with self._lock:
            self._awaited = report.awaited_machines or math.inf
        self._check()

    def see_ready(self) -> None:
        """Record that a node became Ready."""
        with self._lock:
            self._came += 1
        self._check()

    def _check(self) -> None:
        with self._lock:
            if self._came < self._awaited:
                return
            self._awaited = math.inf
        self._ring()


class PlacementLooks:
    """Schedules loops after all awaited machines came, to see whether kube-scheduler leaves a pod without a node.

    The pauses between them double up to the scan interval: pods that kube-scheduler never binds start four loops at most.
    """

    def __init__(self) -> None:
        # Whether machines were awaited after the last loop; when loops are still to look.
        self._awaits = False
        self._looks: list[float] = []

    def next_at(self, report: LoopReport, scan_interval: float) -> float:
        """Return when to look next (epoch seconds); infinity: the next scan comes early enough."""
        came = self._awaits and not report.upcoming_machines
        self._awaits = report.awaited_machines > 0
        if not report.binds_pods:
            self._looks = []
        elif came:
            self._looks = [report.finished + after for after in _LOOKS if after < scan_interval]
        self._looks = [at for at in self._looks if at > report.finished]
        return min(self._looks, default=math.inf)
