"""What a simulation shows: series over time, decisions, waiting times, totals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nodewright.actuation import AuditRecord, Event
from nodewright.engine.report import LoopReport
from nodewright.engine.status import StatusReport
from nodewright.model.move import Move, MoveStage
from nodewright.model.removal import RemovalEnded, Removing
from nodewright_simulator.journal import Fact

# Reasons of events: a scale-up that failed, and other failures.
SCALE_UP_FAILURES = ("ScaleUpFailed", "ScaleUpTimedOut", "FailedToScaleUpGroup", "AddedNodeDoesNotFit")
OTHER_TROUBLES = (
    "FailedToRevertScaleUp",
    "DeleteUnregisteredFailed",
    "CleanUpFailed",
    "ScaleDownFailed",
    "DeletionBudgetExhausted",
    "DeletionWithheld",
    "GroupQuarantined",
    "ClusterUnhealthy",
    "PodsMissing",
    "PlanViolation",
    "PlanIsPartial",
    "StateNotUsable",
    "StatusNotWritten",
    "NotDeleted",
)


@dataclass(frozen=True, kw_only=True)
class Series:
    """One value per moment, each valid until the next. Shares are from 0 to 1 of what the nodes offer.

    ``times`` are epoch seconds, ``cost`` is USD spent so far, ``rate`` what the machines cost in
    an hour, and ``bound`` the least that they could cost for the pods (None: not known). A share is None while there are no nodes that
    offer the resource.
    """

    times: Sequence[float]
    pending: Sequence[int]
    running: Sequence[int]
    nodes: Mapping[str, Sequence[int]]
    utilisation: Mapping[str, Sequence[float | None]]
    cost: Sequence[float]
    rate: Sequence[float] = ()
    bound: Sequence[float | None] = ()


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One write to the cloud.

    Sizes count machines, ``hedged`` those that were bought twice. ``outcome`` is done, partial, refused or unknown.
    ``message`` is the cloud's, or else the reason of the action; ``why`` says for the report why it was planned.
    """

    at: float
    what: str
    group: str
    before: int
    after: int
    pods: int
    outcome: str
    message: str = ""
    hedged: int = 0
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class TimedEvent:
    """A Kubernetes event and when it was recorded."""

    at: float
    event: Event


@dataclass(frozen=True, kw_only=True)
class WaitingTimes:
    """How long pods waited, in seconds from their creation; ``pods`` says over how many of them."""

    pods: int = 0
    p50: float = 0.0
    p90: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    longest: float = 0.0

    @staticmethod
    def of(seconds: Sequence[float]) -> "WaitingTimes":
        """Return percentiles by nearest rank."""
        if not seconds:
            return WaitingTimes()
        ranked = sorted(seconds)

        def rank(percent: int) -> float:
            return ranked[max(0, -(-len(ranked) * percent // 100) - 1)]

        return WaitingTimes(
            pods=len(ranked), p50=rank(50), p90=rank(90), p95=rank(95), p99=rank(99), longest=ranked[-1]
        )


@dataclass(frozen=True, kw_only=True)
class NodeHours:
    """Hours that machines ran. ``busy`` counts those with a pod that is no DaemonSet's.

    ``oracle`` is the cost of an ideal that keeps each group at its peak of busy nodes from beginning to end.
    """

    used: float = 0.0
    busy: float = 0.0
    oracle: float = 0.0


class LeastCost(NamedTuple):
    """The lower bound of the cost summed over a run in USD, and by which factor the cost was above it while it was known."""

    usd: float
    ratio: float


@dataclass(frozen=True, kw_only=True)
class FinalState:
    """The cluster at the end of the run."""

    pending: int
    running: int
    nodes: Mapping[str, int]
    ready_nodes: int


class Interrupted(NamedTuple):
    """A removal that was under way when its engine stopped or the run ended, at ``at`` (epoch seconds)."""

    removing: Removing
    at: float


class RecordedMove(NamedTuple):
    """A move as it was last seen, at ``until``, and when each of its stages was first seen (epoch seconds)."""

    move: Move
    until: float
    stages: Mapping[MoveStage, float]


@dataclass(frozen=True, kw_only=True)
class SimulationResult:
    """Everything a report is drawn from; times in epoch seconds.

    ``loops`` counts runs of the engine, ``happenings`` moments at which the world changed. ``increases`` is the
    total of machines accepted. ``violations`` are planned actions that the independent check refused.
    ``pod_waits`` are seconds from creation to start, of each pod that started; ``still_waiting`` is about the pods that wait
    at the end, for as long as they have waited, and ``waiting`` about both. Pods that were deleted before they started
    are in none of them. ``removals`` are those that ended, ``interrupted`` those whose engine ended before them (the next
    engine may go on with them, and report them as its own). ``moves`` are in the order in which they began. ``status`` is the status at the end as the engine would report
    it, ``last_loop`` what the engine saw and planned last.
    """

    title: str
    start: float
    end: float
    loops: int
    happenings: int
    increases: int
    series: Series
    waiting: WaitingTimes
    still_waiting: WaitingTimes = WaitingTimes()
    node_hours: NodeHours
    cost: float | None
    final: FinalState
    least_cost: LeastCost | None = None
    price_sources: Sequence[str] = ()
    decisions: Sequence[Decision] = ()
    events: Sequence[TimedEvent] = ()
    violations: Sequence[str] = ()
    problems: Sequence[str] = ()
    removals: Sequence[RemovalEnded] = ()
    interrupted: Sequence[Interrupted] = ()
    moves: Sequence[RecordedMove] = ()
    pod_waits: Mapping[str, float] = field(default_factory=dict)
    journal: Sequence[Fact] = ()
    audit: Sequence[AuditRecord] = ()
    status: StatusReport = field(default_factory=StatusReport)
    last_loop: LoopReport | None = field(default=None, compare=False)

    @property
    def hedged(self) -> int:
        """Return how many machines were bought a second time, for pods of a silent group."""
        return sum(decision.hedged for decision in self.decisions)
