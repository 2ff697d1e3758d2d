"""CA's metrics under CA's names, and nodewright's own under ``nodewright_``; docs/metrics.md lists all of them.

Two of CA's counters do not end in ``_total``, which the client library demands of counters. They are gauges here, under
the same names.
"""

from collections import Counter
from collections.abc import Iterable

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest

from nodewright.actuation.cloud_writes import WriteOutcome
from nodewright.adapters.metrics.collectors import MADE, ClientMetrics, CostMetrics, GroupMetrics, NodeMetrics, Sources
from nodewright.adapters.metrics.waits import WaitMetrics, find_unhelped
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.engine.report import LoopReport
from nodewright.model.action import CreateNodeGroup, DeleteInstances, DeleteNodeGroup, Done, Failed, IncreaseSize
from nodewright.model.disruption import DisruptionReason
from nodewright.model.interruption import InterruptionKind
from nodewright.model.limits import make_resource_limits
from nodewright.model.move import MoveStage
from nodewright.model.plan import Plan, ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.model.removal import RemovalReason, RemovalResult
from nodewright.model.settings import Settings
from nodewright.planner.explain import buffers_planned, requests_seen
from nodewright.planner.provisioning_requests.pods import is_stand_in
from nodewright.planner.scale_up.pending_pods import is_pending, unhelped_namespaces
from nodewright.snapshot.pod_class import map_alike

_CA = "cluster_autoscaler"
_OWN = "nodewright"
# 150 steps from 0.1 s to half an hour; each is longer than the last by the same factor.
_STEPS = tuple(0.1 * (1800 / 0.1) ** (step / 149) for step in range(150))
_GPU = ("gpu_resource_name", "gpu_name", "dra_drivers")
_ERRORS = (
    "cloudProviderError",
    "apiCallError",
    "internalError",
    "transientError",
    "configurationError",
    "nodeGroupDoesNotExistError",
    "unexpectedScaleDownStateError",
)
# CA's names of its activities; here one plan does all of them.
_PLANNED = ("autoscaling", "updateClusterState", "scaleUp", "scaleDown", "findUnneeded")
_OUTDATED = tuple(reason for reason in DisruptionReason if reason.is_renewal)
_RESULTS = {MoveStage.PROPOSED: "started", MoveStage.DONE: "done", MoveStage.ABANDONED: "abandoned"}
_OF_MOVES = (RemovalReason.REPLACED, RemovalReason.EXPIRED, RemovalReason.DRIFTED, RemovalReason.PREFERRED)
_LIMITS = {"cpu": "CpuResourceLimit", "memory": "MemoryResourceLimit"}


class Metrics:
    """All metrics of one engine, in a registry of its own; ``page`` is what Prometheus reads."""

    def __init__(self, settings: Settings, sources: Sources | None = None) -> None:
        self._settings = settings
        self.registry = CollectorRegistry()
        self._node_metrics = NodeMetrics(self.registry)
        most = settings.serving.max_groups_in_metrics
        self._group_metrics = GroupMetrics(self.registry, most, with_cas=settings.serving.emit_per_nodegroup_metrics)
        self._cost_metrics = CostMetrics(self.registry, most)
        self._wait_metrics = WaitMetrics(self.registry)
        sources = sources or Sources()
        self.registry.register(sources.running.histogram)
        self._clients = ClientMetrics(self.registry, sources)
        self._make_counts()
        self._make_totals()
        self._make_own()
        self._set_limits()

    def page(self) -> bytes:
        return generate_latest(self.registry)

    def use(self, settings: Settings) -> None:
        """Use other settings from now on."""
        self._settings = settings
        self._set_limits()

    def observe(self, report: LoopReport) -> None:
        """Count one loop."""
        self._duration.labels("main").observe(report.finished - report.started)
        self._activity.labels("main").set(report.finished)
        if report.problem:
            self._errors.labels("apiCallError" if report.state is None else "internalError").inc()
        else:
            self._activity.labels("mainSuccessful").set(report.finished)
        self._violations.inc(len(report.violations))
        if report.state is not None:
            self._observe_state(report.state)
            self._observe_waits(report, report.state)
            self._observe_notices(report.state)
            self._group_metrics.observe(report.state, self._settings.limits.max_nodes_total)
            self._cost_metrics.observe(report.state, self._settings)
            self._node_metrics.observe(report.state, report.plan, self._settings.templates)
        if report.plan is not None:
            self._observe_plan(report.plan)
            self._observe_buffers(report.plan)
            if report.state is not None:
                self._observe_requests(report.state, report.plan)
            for activity in _PLANNED:
                self._activity.labels(activity).set(report.finished)
        self._observe_outcomes(report.outcomes)

    def cache_age(self, seconds: float) -> None:
        self._cache_age.set(seconds)

    def leads(self, leader: bool) -> None:
        self._leader.set(leader)

    def reloaded(self, *, succeeded: bool) -> None:
        """Count that the settings file was read again."""
        self._reload_failed.set(not succeeded)

    def compared(self, what: str, verdict: str) -> None:
        """Count one comparison with the other autoscaler."""
        self._compared.labels(what, verdict).inc()

    def refresh_seconds(self, seconds: float) -> None:
        """Record the seconds that refreshing the clouds took in one loop."""
        self._duration.labels("cloudProviderRefresh").observe(seconds)

    def _gauge(self, name: str, text: str, *labels: str, prefix: str = _CA) -> Gauge:
        return Gauge(f"{prefix}_{name}", text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str, prefix: str = _CA) -> prometheus_client.Counter:
        return prometheus_client.Counter(f"{prefix}_{name}", text, labels, registry=self.registry)

    def _make_counts(self) -> None:
        self._safe = self._gauge("cluster_safe_to_autoscale", "1 when the cluster is healthy enough to act on.")
        self._nodes = self._gauge("nodes_count", "Nodes and instances by state.", "state")
        self._pods = self._gauge("unschedulable_pods_count", "Pods that no node has room for.", "type")
        self._activity = self._gauge("last_activity", "When each activity last ended (epoch seconds).", "activity")
        self._unneeded = self._gauge("unneeded_nodes_count", "Nodes that could be removed.")
        self._unremovable = self._gauge("unremovable_nodes_count", "Nodes that cannot be removed.", "reason")
        self._deleting = self._gauge("pending_node_deletions", "Removals under way.")
        self._cooldown = self._gauge("scale_down_in_cooldown", "1 while no removal may begin.")
        self._cores = self._gauge("cluster_cpu_current_cores", "Cores of all nodes that are not being deleted.")
        self._memory = self._gauge("cluster_memory_current_bytes", "Memory of all nodes that are not being deleted.")
        self._core_limits = self._gauge("cpu_limits_cores", "Limits of the whole cluster.", "direction")
        self._memory_limits = self._gauge("memory_limits_bytes", "Limits of the whole cluster.", "direction")

    def _make_totals(self) -> None:
        self._duration = Histogram(
            f"{_CA}_function_duration_seconds",
            "How long parts of the loop take.",
            ("function",),
            buckets=_STEPS,
            registry=self.registry,
        )
        self._errors = self._counter("errors_total", "Loops that failed, in part or as a whole, by type.", "type")
        self._added = self._counter("scaled_up_nodes_total", "Machines that clouds agreed to add.", *_GPU)
        self._refused = self._counter("failed_scale_ups_total", "Increases that were refused.", "reason", *_GPU)
        self._created = self._counter("created_node_groups_total", "Node groups that were created.", "group_type")
        self._deleted = self._counter("deleted_node_groups_total", "Node groups deleted when empty.", "group_type")
        self._broken = self._counter("failed_node_creations_total", "Machines that could not be created.", "reason")
        self._shrunk = self._counter("scaled_down_nodes_total", "Nodes removed by scale-down.", "reason", *_GPU)
        self._evicted = self._counter("evicted_pods_total", "Pods evicted by scale-down.", "eviction_result")
        self._removed = self._gauge("old_unregistered_nodes_removed_count", "Machines removed that never became nodes.")
        self._limited = self._gauge(
            "skipped_scale_events_count", "Scale-ups that resource limits prevented.", "direction", "reason"
        )
        for kind in _ERRORS:
            self._errors.labels(kind)
        for reason in _LIMITS.values():
            self._limited.labels("up", reason)
            self._limited.labels("down", reason)
        for result in ("succeeded", "failed"):
            self._evicted.labels(result)
        for why in ("empty", "underutilized", "unready"):
            self._shrunk.labels(why, "", "", "")
        self._added.labels("", "", "")
        self._created.labels(MADE)
        self._deleted.labels(MADE)
        self._safe.set(0)

    def _make_own(self) -> None:
        self._cache_age = self._gauge(
            "cache_age_seconds", "Seconds since the API server last confirmed the stalest kind.", prefix=_OWN
        )
        self._leader = self._gauge("leader", "1 while this process leads.", prefix=_OWN)
        self._held = self._gauge("held_back_writes", "Cloud writes that wait for a pause or a budget.", prefix=_OWN)
        self._paused = self._gauge("paused", "1 while all cloud writes are paused.", prefix=_OWN)
        self._unhealthy_for = self._gauge(
            "cluster_unhealthy_seconds",
            "For how long too many nodes have not been ready; 0: the cluster is healthy.",
            prefix=_OWN,
        )
        self._violations = self._counter("plan_violations_total", "Planned actions that broke a rule.", prefix=_OWN)
        self._hedged = self._counter(
            "hedged_nodes_total", "Machines bought twice because a group was silent or on probation.", prefix=_OWN
        )
        self._unhelped = self._gauge("unhelped_pods", "Pending pods that no group can help.", prefix=_OWN)
        self._pending = self._gauge("pending_pods", "Pods that kube-scheduler found no node for.", prefix=_OWN)
        self._longest = self._gauge(
            "longest_pending_seconds",
            "How long the longest-waiting pending pod has waited; 0: none waits.",
            prefix=_OWN,
        )
        self._compared = self._counter(
            "shadow_comparisons_total",
            "Comparisons of another autoscaler's actions with our plans.",
            "what",
            "verdict",
            prefix=_OWN,
        )
        self._reload_failed = self._gauge(
            "config_reload_failed", "1 while the settings file cannot be used.", prefix=_OWN
        )
        self._interrupted = self._gauge(
            "interrupted_nodes",
            "Nodes whose machine a cloud is about to take away, by kind of notice.",
            "kind",
            prefix=_OWN,
        )
        self._notices = self._counter(
            "interruption_notices_total", "Notices that a cloud is about to take a machine away.", "kind", prefix=_OWN
        )
        self._moves = self._gauge("moves_under_way", "Moves that have begun and not ended.", prefix=_OWN)
        self._moved = self._counter("moves_total", "Moves that began or ended, by result.", "result", prefix=_OWN)
        self._saved = self._counter(
            "moves_savings_per_hour_total", "USD per hour that finished moves save, in sum.", prefix=_OWN
        )
        self._moved_pods = self._counter("moves_evicted_pods_total", "Pods that moves evicted.", prefix=_OWN)
        for result in _RESULTS.values():
            self._moved.labels(result)
        self._outdated = self._gauge(
            "outdated_nodes", "Nodes to be replaced because of their age or drift.", "reason", prefix=_OWN
        )
        for kind in InterruptionKind:
            self._interrupted.labels(kind.value)
            self._notices.labels(kind.value)
        for reason in _OUTDATED:
            self._outdated.labels(reason.value)
        self._capacity = self._gauge(
            "capacity_requests", "ProvisioningRequests by class and state.", "class", "state", prefix=_OWN
        )
        self._booked = self._gauge(
            "booked_pods", "Pods of ProvisioningRequests for which room is reserved.", prefix=_OWN
        )
        self._buffers = self._gauge("capacity_buffers", "CapacityBuffers by state.", "state", prefix=_OWN)
        self._spare = self._gauge(
            "buffer_pods", "Pods of buffers, by whether their room is held, coming or missing.", "room", prefix=_OWN
        )

    def _set_limits(self) -> None:
        limits = make_resource_limits(self._settings.limits)
        self._core_limits.labels("minimum").set(limits.min_cores)
        self._core_limits.labels("maximum").set(limits.max_cores)
        self._memory_limits.labels("minimum").set(limits.min_memory_bytes)
        self._memory_limits.labels("maximum").set(limits.max_memory_bytes)

    def _observe_state(self, state: ClusterState) -> None:
        groups = tuple(state.groups.values())
        unread = sum(bool(provider.problem) for provider in state.observation.providers.values())
        self._errors.labels("cloudProviderError").inc(unread)
        self._safe.set(state.healthy)
        unhealthy = state.memory.unhealthy
        self._unhealthy_for.set(0.0 if unhealthy is None else state.now - unhealthy.since)
        for name, count in _node_counts(groups).items():
            self._nodes.labels(name).set(count)
        self._deleting.set(len(state.observation.removing))
        leaving = state.observation.removing
        nodes = [node for _, node in state.observation.snapshot.nodes() if node.name not in leaving]
        self._cores.set(sum(node.status.capacity["cpu"].nano for node in nodes if "cpu" in node.status.capacity) / 1e9)
        memory = (node.status.capacity["memory"].nano for node in nodes if "memory" in node.status.capacity)
        self._memory.set(sum(memory) / 1e9)
        for over in state.ended:
            self._evicted.labels("succeeded").inc(len(over.evicted))
            if over.removal.reason in _OF_MOVES:
                self._moved_pods.inc(len(over.evicted))
            if over.result == RemovalResult.OK:
                self._shrunk.labels(over.removal.reason.value, "", "", "").inc()
            elif over.result == RemovalResult.FAILED_TO_EVICT:
                self._evicted.labels("failed").inc()
        for group in groups:
            for failure in group.new_failures:
                self._broken.labels(failure.code).inc(failure.count)

    def _observe_notices(self, state: ClusterState) -> None:
        kinds = Counter(notice.kind for notice in state.interrupted.values())
        for kind in InterruptionKind:
            self._interrupted.labels(kind.value).set(kinds[kind])
        for held in state.memory.notices.values():
            for notice in held:
                if notice.since == state.now:
                    self._notices.labels(notice.kind.value).inc()

    def _observe_waits(self, report: LoopReport, state: ClusterState) -> None:
        """Observe how long pods wait. This reads the cluster, not the plan: pods also wait while nothing is planned."""
        settings, unhelped = self._settings.pods, unhelped_namespaces(state.observation.snapshot, self._settings.policy)

        def waits_for_room(pod: Pod) -> bool:
            return is_pending(pod, settings) and not pod.is_daemonset_pod and pod.metadata.namespace not in unhelped

        asked = list(map_alike(state.observation.pending, waits_for_room))
        self._wait_metrics.observe(report, asked)
        waits = [state.now - (pod.created or state.now) for pod, waits in asked if waits]
        self._pending.set(len(waits))
        self._longest.set(max(0.0, max(waits, default=0.0)))

    def _observe_plan(self, plan: Plan) -> None:
        if plan.halted:
            self._safe.set(0)
        reports = (plan.scale_up, *(report for report in plan.salvo if not _is_of_request(report)))
        helped = {id(pod) for report in reports for pod in report.triggered}
        unhelped = find_unhelped(reports)
        awaiting = {id(pod) for report in reports for pod in report.awaiting}
        self._pods.labels("unschedulable").set(len(helped | unhelped | awaiting))
        self._pods.labels("scheduler_unprocessed").set(len(plan.waiting))
        for skipped in {ref: why for report in reports for ref, why in report.skipped.items()}.values():
            for word, reason in _LIMITS.items():
                if word in skipped.resources:
                    self._limited.labels("up", reason).inc()
        self._unhelped.set(len(unhelped))
        self._held.set(len(plan.held_back))
        self._paused.set(bool(plan.paused))
        down = plan.scale_down
        self._unneeded.set(len(down.unneeded))
        self._unremovable.clear()
        for unremovable in down.unremovable.values():
            self._unremovable.labels(unremovable.code.value).inc()
        self._cooldown.set(down.cooldown_until > 0)
        self._moves.set(sum(not move.stage.is_over for move in plan.moves))
        for move in plan.moves:
            if move.stage in _RESULTS:
                self._moved.labels(_RESULTS[move.stage]).inc()
            if move.stage == MoveStage.DONE:
                self._saved.inc(max(0.0, move.savings))
        outdated = Counter(one.reason for one in plan.outdated)
        for reason in _OUTDATED:
            self._outdated.labels(reason.value).set(outdated[reason])

    def _observe_requests(self, state: ClusterState, plan: Plan) -> None:
        self._capacity.clear()
        for one in requests_seen(state, plan):
            self._capacity.labels(one.class_name, one.phase.value).inc()
        self._booked.set(sum(plan.provisioning.reserved.values()))

    def _observe_buffers(self, plan: Plan) -> None:
        self._buffers.clear()
        found = buffers_planned(plan)
        for one in found:
            self._buffers.labels(one.state.value).inc()
        for room in ("held", "coming", "missing"):
            self._spare.labels(room).set(sum(getattr(one, room) for one in found))

    def _observe_outcomes(self, outcomes: Iterable[WriteOutcome]) -> None:
        for outcome in outcomes:
            match outcome:
                case Done(action=IncreaseSize(hedged=hedged)):
                    self._added.labels("", "", "").inc(outcome.accepted)
                    self._hedged.inc(min(hedged, outcome.accepted))
                case Failed(action=IncreaseSize(), retry_after=None):
                    self._refused.labels(outcome.code, "", "", "").inc()
                case Done(action=CreateNodeGroup()):
                    self._created.labels(MADE).inc(outcome.accepted)
                case Done(action=DeleteNodeGroup()):
                    self._deleted.labels(MADE).inc(outcome.accepted)
                case Done(action=DeleteInstances(failure_ids=())):
                    self._removed.inc(outcome.accepted)
                case _:
                    continue


def _is_of_request(report: ScaleUpReport) -> bool:
    about = (*report.triggered[:1], *report.awaiting[:1], *(unhelped.pod for unhelped in report.unhelped[:1]))
    return any(map(is_stand_in, about))


def _node_counts(groups: Iterable[GroupState]) -> dict[str, int]:
    """Count nodes by CA's names of their states."""
    counts = dict.fromkeys(("ready", "unready", "notStarted", "suspended", "longUnregistered", "unregistered"), 0)
    for group in groups:
        ready = group.readiness
        counts["ready"] += len(ready.ready)
        counts["suspended"] += len(ready.suspended)
        counts["unready"] += len(ready.unready) + len(ready.leaving)
        counts["notStarted"] += len(ready.not_started)
        counts["longUnregistered"] += len(ready.long_unregistered)
        counts["unregistered"] += len(ready.unregistered)
    return counts
