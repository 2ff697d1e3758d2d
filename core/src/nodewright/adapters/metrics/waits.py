"""Metrics of waiting: how soon machines are asked for, how soon pods run, and how soon another group takes over."""

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Gauge, Histogram

from nodewright.clusterstate.state import ClusterState
from nodewright.engine.report import LoopReport
from nodewright.model.action import Done, Failed, IncreaseSize
from nodewright.model.errors import TargetChanged
from nodewright.model.group import GroupRef
from nodewright.model.plan import ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.planner.scale_up.pending_pods import hint_key

# In seconds. The rules of the chart (deploy/chart/files/rules.yaml) need 60.
_BUCKETS = (1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1800, 3600, 7200)
# The most pods that are watched until they run; beyond that the oldest is dropped. Deleted pods are not reported here.
_MOST_WATCHED = 200_000


class WaitMetrics:
    """Metrics of waits, for one engine; call ``observe`` in each loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._decision = Histogram(
            "nodewright_pod_decision_seconds",
            "How long pods that a group can help waited until a machine was asked for or there was room.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._undecided = Gauge(
            "nodewright_longest_undecided_seconds",
            "The longest wait of a pod that a group can help and no machine is asked for yet; 0: none waits.",
            registry=registry,
        )
        self._failover = Histogram(
            "nodewright_failover_seconds",
            "Time from a failure of a group until another one was asked for machines and accepted.",
            buckets=_BUCKETS,
            registry=registry,
        )
        # By uid: since when each pod without a machine waits (epoch seconds), and the pods that have one.
        self._waiting: dict[str, float] = {}
        self._decided: set[str] = set()
        self._is_first = True
        # The last known failure of each group, and the failures after which no other group has grown yet (epoch seconds).
        self._failed, self._open = dict[GroupRef, float](), dict[GroupRef, float]()

    def observe(self, report: LoopReport, asked: Iterable[tuple[Pod, bool]]) -> None:
        """Count what has happened since the last loop. ``asked``: the pods without a node, and whether each waits for room."""
        state = report.state
        if state is None:
            return
        lacks_room = self._observe_pods(report, state, asked)
        self._observe_failures(report, state)
        if not lacks_room:
            self._open.clear()  # no pod needs another group
        self._is_first = False

    def _observe_pods(self, report: LoopReport, state: ClusterState, asked: Iterable[tuple[Pod, bool]]) -> bool:
        """Return whether a pod waits for room that is neither there nor asked for."""
        bought, placed, unhelped, lacks_room = _bought_for(report), set[int](), set[int](), False
        if report.plan is not None:
            placed = bought | {id(pod) for pod in report.plan.fitting}
            growth = (report.plan.scale_up, *report.plan.salvo)
            unhelped = find_unhelped(growth)
        waiting, decided = dict[str, float](), set[str]()
        for pod, waits in asked:
            key, has_room = hint_key(pod), id(pod) in placed
            lacks_room |= waits and not has_room
            if key in self._decided:
                decided.add(key)
            elif has_room:
                since = min(self._waiting.get(key) or pod.created or state.now, report.finished)
                decided.add(key)
                # A new leader does not know which of these pods had their machines before.
                if id(pod) in bought or not self._is_first:
                    self._decision.observe(report.finished - since)
            elif waits and id(pod) not in unhelped:
                waiting[key] = self._waiting.get(key) or pod.created or state.now
            elif waits or pod.spec.scheduling_gates:
                waiting[key] = state.now  # it waits for a suitable group or its scheduling gates, not for a decision
        self._waiting, self._decided = waiting, decided
        self._undecided.set(max(0.0, state.now - min(waiting.values(), default=state.now)))
        return lacks_room

    def _observe_failures(self, report: LoopReport, state: ClusterState) -> None:
        for ref, group in state.groups.items():
            backoff = group.backoff
            if backoff is None or backoff.shared_from or self._failed.get(ref, 0.0) >= backoff.last_failure:
                continue
            self._failed[ref] = backoff.last_failure
            if not self._is_first:
                self._open[ref] = backoff.last_failure
        for outcome in report.outcomes:
            match outcome:
                case Failed(action=IncreaseSize(group=ref), retry_after=None) if outcome.code != TargetChanged.code:
                    self._failed[ref] = self._open[ref] = outcome.started
                case Done(action=IncreaseSize(group=ref), accepted=accepted) if accepted:
                    self._open.pop(ref, None)  # the group itself is tried again
                    for at in self._open.values():
                        self._failover.observe(max(0.0, outcome.started - at))
                    self._open.clear()


def find_unhelped(reports: Sequence[ScaleUpReport]) -> set[int]:
    """Return the identities of the pods that no group helps by any of these reports of one plan."""
    return {id(one.pod) for report in reports for one in report.unhelped} - {
        id(pod) for report in reports for pod in report.triggered
    }


def _bought_for(report: LoopReport) -> set[int]:
    """Return the identities of the pods for whose machines every increase was accepted."""
    if report.plan is None:
        return set()
    grown = {
        outcome.action.group
        for outcome in report.outcomes
        if isinstance(outcome, Done) and isinstance(outcome.action, IncreaseSize) and outcome.accepted
    }
    served = set[int]()
    for growth in (report.plan.scale_up, *report.plan.salvo):
        if growth.expansions and all(one.group in grown for one in growth.expansions):
            served.update(id(pod) for pod in growth.triggered)
    return served


class RunningWaits:
    """Counts how long unschedulable pods took until they ran. Only the thread that watches pods uses it."""

    def __init__(self) -> None:
        self.histogram = Histogram(
            "nodewright_pod_running_seconds",
            "Time from creation until they ran, of pods that kube-scheduler at first found no node for.",
            buckets=_BUCKETS,
            registry=None,
        )
        self._watched: dict[str, None] = {}

    def see(self, pod: Pod, now: float, *, leads: bool) -> None:
        """Take note of a pod that came or changed; ``now`` in epoch seconds.

        Every replica watches pods. Only the one that ``leads`` counts them, so that a sum over all counts a pod once.
        """
        key = hint_key(pod)
        if not pod.spec.node_name:
            if any(condition.finds_no_place for condition in pod.status.conditions) and not pod.is_daemonset_pod:
                self._watched[key] = None
                if len(self._watched) > _MOST_WATCHED:
                    del self._watched[next(iter(self._watched))]
        elif pod.status.phase == "Running" and key in self._watched:
            del self._watched[key]
            if leads:
                self.histogram.observe(max(0.0, now - (pod.created or now)))
