"""Record what the engine decided during a simulation, measure the cluster over time, and make the result of the run."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from nodewright.actuation import AuditLog
from nodewright.actuation.audit import ASKED, SERVE, AuditRecord
from nodewright.actuation.cloud_writes import WriteOutcome
from nodewright.actuation.ports import Event
from nodewright.clusterstate.readiness import is_ready
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.report import LoopReport
from nodewright.model.action import (
    CreateNodeGroup,
    DecreaseTargetSize,
    DeleteInstances,
    DeleteNodeGroup,
    Done,
    Failed,
    GroupWrite,
    IncreaseSize,
)
from nodewright.model.clock import Clock
from nodewright.model.group import GroupRef, NodeGroup
from nodewright.model.move import Move
from nodewright.model.plan import Plan
from nodewright.model.removal import RemovalEnded, RemovalResult, Removing
from nodewright.model.settings import TemplateSettings
from nodewright_simulator.cluster import SimulatedCluster
from nodewright_simulator.cost_meter import CostMeter
from nodewright_simulator.journal import Journal, What
from nodewright_simulator.reasons import why_increased
from nodewright_simulator.result import (
    Decision,
    FinalState,
    Interrupted,
    NodeHours,
    RecordedMove,
    Series,
    SimulationResult,
    TimedEvent,
    WaitingTimes,
)

_HOUR = 3600.0


class UsageMeter:
    """Takes a sample after every change. Amounts between two samples are as at the first."""

    def __init__(self, cluster: SimulatedCluster, start: float, resources: tuple[str, ...]) -> None:
        self.costs = CostMeter(start)
        self._cluster = cluster
        self._resources = resources
        self._machines: Mapping[GroupRef, int] = {}
        self._at = self._start = start
        self._used_seconds = 0.0
        self._busy_seconds = 0.0
        self._peaks: dict[str, int] = {}
        self._busy: dict[str, int] = {}
        self._times: list[float] = []
        self._pending: list[int] = []
        self._running: list[int] = []
        self._cost: list[float] = []
        self._rate: list[float] = []
        self._bound: list[float | None] = []
        self._nodes: dict[str, list[int]] = {}
        self._shares: dict[str, list[float | None]] = {name: [] for name in resources}

    def advance(self, at: float) -> None:
        """Account for the time up to ``at``, before anything changes there."""
        seconds = max(0.0, at - self._at)
        self._used_seconds += seconds * sum(self._machines.values())
        self._busy_seconds += seconds * sum(self._busy.values())
        self.costs.advance(seconds)
        self._at = max(self._at, at)

    def sample(self, machines: Mapping[GroupRef, int]) -> None:
        """Take a sample, after the changes of this moment."""
        self._machines = machines
        self.costs.use(machines)
        self._busy = self._cluster.tally.busy()
        for group, busy in self._busy.items():
            self._peaks[group] = max(busy, self._peaks.get(group, 0))
        if self._times and self._times[-1] == self._at:
            self._drop_last()
        self._times.append(self._at)
        self._pending.append(self._cluster.count_pending())
        self._running.append(self._cluster.tally.pods)
        self._cost.append(self.costs.spent)
        self._rate.append(self.costs.rate)
        self._bound.append(self.costs.bound)
        self._sample_nodes()
        self._sample_shares()

    def series(self) -> Series:
        return Series(
            times=tuple(self._times),
            pending=tuple(self._pending),
            running=tuple(self._running),
            nodes={group: tuple(counts) for group, counts in sorted(self._nodes.items())},
            utilisation={name: tuple(shares) for name, shares in self._shares.items() if any(s for s in shares)},
            cost=tuple(self._cost),
            rate=tuple(self._rate),
            bound=tuple(self._bound),
        )

    def node_hours(self) -> NodeHours:
        elapsed = self._at - self._start
        return NodeHours(
            used=self._used_seconds / _HOUR,
            busy=self._busy_seconds / _HOUR,
            oracle=sum(self._peaks.values()) * elapsed / _HOUR,
        )

    def _sample_nodes(self) -> None:
        """Count nodes. Every group's list is as long as ``times``; a group that appears starts with zeros."""
        counts = self._cluster.tally.nodes()
        for group in counts.keys() - self._nodes.keys():
            self._nodes[group] = [0] * (len(self._times) - 1)
        for group, held in self._nodes.items():
            held.append(counts.get(group, 0))

    def _sample_shares(self) -> None:
        used, offered = self._cluster.tally.used, self._cluster.tally.offered
        for name, shares in self._shares.items():
            total = offered.get(name, 0)
            shares.append(min(1.0, used.get(name, 0) / total) if total else None)

    def _drop_last(self) -> None:
        series: list[list[Any]] = [self._times, self._pending, self._running, self._cost, self._rate, self._bound]
        for values in (*series, *self._nodes.values(), *self._shares.values()):
            values.pop()


_WRITES = {
    IncreaseSize.__name__: "increase",
    DecreaseTargetSize.__name__: "withdraw",
    DeleteInstances.__name__: "delete",
    CreateNodeGroup.__name__: "create group",
    DeleteNodeGroup.__name__: "delete group",
}
_DIED = "the engine died before the answer"


class Recorder:
    """Implements EventSink; ``audit`` is the AuditSink."""

    def __init__(self, clock: Clock) -> None:
        self.loops = 0
        self._last: LoopReport | None = None
        self.audit = AuditLog()
        self._clock = clock
        self._increases = 0
        # How many writes of the audit are among the decisions.
        self._told = 0
        self._decisions: list[Decision] = []
        self._events: list[TimedEvent] = []
        self._violations: list[str] = []
        self._problems: list[str] = []
        self._removals = list[RemovalEnded]()
        self._interrupted = list[Interrupted]()
        self._moves = dict[str, RecordedMove]()

    @property
    def state(self) -> ClusterState | None:
        """The state in the last loop that could read the cluster; None: there was none."""
        return self._last.state if self._last is not None else None

    @property
    def plan(self) -> Plan | None:
        """The plan of the last loop that could read the cluster; None: there is none."""
        return self._last.plan if self._last is not None else None

    def record(self, event: Event) -> None:
        self._events.append(TimedEvent(at=self._clock.now(), event=event))

    def take(self, report: LoopReport) -> None:
        """Record what one loop did."""
        self.loops += 1
        self._last = report if report.state is not None else self._last
        self.take_outcomes(report.outcomes, report.plan)
        self.take_removals(report.state.ended if report.state is not None else ())
        if report.plan is not None:
            self._take_moves(report.plan.moves, report.started)
        self._violations += [f"{violation.action.group}: {violation.rule}" for violation in report.violations]
        if report.problem:
            self._problems.append(report.problem)

    def take_outcomes(self, outcomes: Iterable[WriteOutcome], plan: Plan | None = None) -> None:
        """Record the results of writes to clouds; ``plan`` is the plan that requested them (None: no plan of this loop)."""
        for outcome in outcomes:
            self._decisions.append(describe(outcome, plan))
            if isinstance(outcome.action, IncreaseSize) and isinstance(outcome, Done):
                self._increases += outcome.accepted
        self._told = len(self.audit)

    def take_removals(self, ended: Iterable[RemovalEnded]) -> None:
        """Record removals that have ended."""
        self._removals += ended

    def _take_moves(self, moves: Iterable[Move], at: float) -> None:
        for move in moves:
            known = self._moves.get(move.id)
            stages = {**(known.stages if known is not None else {})}
            stages.setdefault(move.stage, at)
            self._moves[move.id] = RecordedMove(move, at, stages)

    def take_interrupted(self, under_way: Iterable[Removing], at: float) -> None:
        """Record removals that did not end before their engine did; those that a crash ended are known."""
        known = {(ended.removal.node, ended.started) for ended in self._removals}
        self._interrupted += [
            Interrupted(held, at) for held in under_way if (held.removal.node, held.started) not in known
        ]

    def take_crash(self, answer: object, under_way: Iterable[Removing]) -> None:
        """Record what was written before the engine died; ``answer`` is the result of its last call.

        Removals in ``under_way`` whose deletion was that call are over.
        """
        for record in self.audit.records()[self._told :]:
            if record.action == SERVE:
                continue  # no group was written to
            if record.outcome != ASKED:
                lost = _from_audit(record, record.accepted, record.outcome, record.message or record.reason)
            elif answer is None:
                continue  # it died before the call
            else:
                deleted = () if isinstance(answer, (int, NodeGroup)) else cast("Sequence[str]", answer)
                accepted = answer if isinstance(answer, int) else len(deleted)
                lost = _from_audit(record, accepted, "unknown", _DIED)
                self.take_removals(
                    _over(held, record.time) for held in under_way if held.removal.instance_id in deleted
                )
            self._decisions.append(lost)
            if lost.what == "increase":
                self._increases += lost.after - lost.before
        self._told = len(self.audit)

    def result(
        self,
        *,
        title: str,
        span: tuple[float, float],
        happenings: int,
        meter: UsageMeter,
        cluster: SimulatedCluster,
        journal: Journal,
    ) -> SimulationResult:
        waits, still = find_waits(journal), _find_waits_so_far(cluster, span[1])
        return SimulationResult(
            title=title,
            start=span[0],
            end=span[1],
            loops=self.loops,
            happenings=happenings,
            increases=self._increases,
            series=meter.series(),
            waiting=WaitingTimes.of([*waits.values(), *still]),
            still_waiting=WaitingTimes.of(still),
            node_hours=meter.node_hours(),
            cost=meter.costs.spent if meter.costs.has_prices else None,
            least_cost=meter.costs.least,
            price_sources=meter.costs.sources,
            final=_final(cluster),
            decisions=tuple(self._decisions),
            events=tuple(self._events),
            violations=tuple(self._violations),
            problems=tuple(self._problems),
            removals=tuple(self._removals),
            interrupted=tuple(self._interrupted),
            moves=tuple(self._moves.values()),
            pod_waits=waits,
            journal=journal.facts(),
            audit=self.audit.records(),
            last_loop=self._last,
        )


def _over(held: Removing, at: float) -> RemovalEnded:
    """Return a removal that succeeded although the engine died before it could report it."""
    return RemovalEnded(removal=held.removal, at=at, started=held.started, result=RemovalResult.OK, message=_DIED)


def describe(outcome: WriteOutcome, plan: Plan | None = None) -> Decision:
    """Return an outcome as a line of the report."""
    action = outcome.action
    before = after = action.expected_target
    match action:
        case IncreaseSize():
            what, pods, asked = "increase", action.pod_count, action.target - before
        case DecreaseTargetSize():
            what, pods, asked = "withdraw", 0, before - action.target
        case DeleteInstances():
            what, pods, asked = "delete", 0, len(action.instance_ids)
        case CreateNodeGroup() | DeleteNodeGroup():
            what, pods, asked = _WRITES[type(action).__name__], 0, 1
    if not isinstance(outcome, Done):
        ended, message = ("refused" if isinstance(outcome, Failed) else "unknown"), outcome.message
    else:
        ended, message = ("done" if outcome.accepted == asked else "partial"), ""
        if not isinstance(action, GroupWrite):
            after += outcome.accepted if what == "increase" else -outcome.accepted
    reason = action.reason
    return Decision(
        at=outcome.started,
        what=what,
        group=str(action.group),
        before=before,
        after=after,
        pods=pods,
        hedged=min(action.hedged, after - before) if isinstance(action, IncreaseSize) else 0,
        outcome=ended,
        message=message or reason,
        why=why_increased(action, plan) if isinstance(action, IncreaseSize) else reason,
    )


def _from_audit(record: AuditRecord, accepted: int, outcome: str, message: str) -> Decision:
    """Return a write that is only known from the audit, which does not count pods."""
    what = _WRITES[record.action]
    change = 0 if what.endswith("group") else accepted if what == "increase" else -accepted
    return Decision(
        at=record.time,
        what=what,
        group=record.group,
        before=record.expected_target,
        after=record.expected_target + change,
        pods=0,
        outcome=outcome,
        message=message,
        why=record.reason,
    )


def find_waits(journal: Journal) -> Mapping[str, float]:
    """Return the seconds that each started pod waited. DaemonSet pods come with their node and do not count."""
    arrived: dict[str, float] = {}
    waits: dict[str, float] = {}
    for fact in journal.facts():
        if fact.what == What.POD_ARRIVED and fact.where != "DaemonSet":
            arrived[fact.name] = fact.at
        elif fact.what == What.POD_STARTED and fact.name in arrived:
            waits[fact.name] = fact.at - arrived[fact.name]
    return waits


def _find_waits_so_far(cluster: SimulatedCluster, now: float) -> list[float]:
    """Return the seconds that each pod has waited which has no node yet, those of DaemonSets left out."""
    return [now - waiting.arrived for waiting in cluster.pending() if not waiting.pod.is_daemonset_pod]


def _final(cluster: SimulatedCluster) -> FinalState:
    nodes = {group: count for group, count in sorted(cluster.tally.nodes().items()) if count}
    ready = sum(is_ready(node, TemplateSettings()) for _, node in cluster.live.nodes())
    return FinalState(pending=cluster.count_pending(), running=cluster.tally.pods, nodes=nodes, ready_nodes=ready)
