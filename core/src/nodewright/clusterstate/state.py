"""What one loop concludes about the cluster and each of its groups."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from nodewright.clusterstate.memory import (
    Backoff,
    Deferral,
    IncorrectSize,
    Memory,
    ScaleUpRequest,
    Shortfall,
    UnhealthyCluster,
)
from nodewright.model.action import Done, Failed, IncreaseSize, Outcome
from nodewright.model.group import ErrorClass, FailedInstance, FailureScope, GroupRef
from nodewright.model.removal import RemovalEnded
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import GroupSeen, Observation


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One reason to leave a group, and those that share its scope, alone; ``at`` in epoch seconds.

    ``asked`` is when machines were asked for that nobody has seen (0: it is not about such machines).
    """

    group: GroupRef
    at: float
    asked: float = 0.0
    error_class: ErrorClass = ErrorClass.OTHER
    scope: FailureScope = FailureScope.GROUP
    code: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """Nodes and instances of a group by class (docs/behaviour/cluster-state.md); node names, instance ids.

    ``deleted`` are nodes whose instance is gone or going; ``suspended`` are asleep (condition ``Suspended``);
    ``leaving`` are unready ones that scale-down is taking away (seed 000, UC7); ``unregistered`` are instances
    without a node. ``never_ready`` are those of ``unready`` that never were anything else (UC3), ``just_overdue`` those
    of them whose time ended lately. ``never_up`` is what to remember of nodes that never were up, overdue or not, and of
    those that look like it.
    """

    ready: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    never_ready: tuple[str, ...] = ()
    just_overdue: tuple[str, ...] = ()
    never_up: Mapping[str, float] = field(default_factory=dict)
    leaving: tuple[str, ...] = ()
    not_started: tuple[str, ...] = ()
    suspended: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unregistered: tuple[str, ...] = ()
    long_unregistered: tuple[str, ...] = ()

    @cached_property
    def ready_names(self) -> frozenset[str]:
        """``ready``, for whoever asks about many nodes."""
        return frozenset(self.ready)

    @property
    def registered(self) -> int:
        """Nodes with an instance behind them."""
        up = len(self.ready) + len(self.suspended)
        return up + len(self.unready) + len(self.leaving) + len(self.not_started)


class Increase(NamedTuple):
    """So many machines were asked for at ``started`` (epoch seconds); ``accepted``: the cloud said yes. ``atomic``: they
    are for a request of all or nothing.
    """

    machines: int
    started: float
    accepted: bool
    atomic: bool = False
    hedged: int = 0
    hedge_for: tuple[GroupRef, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GroupContext:
    """One group now (``seen``, ``readiness``), how our calls to it ended since, and what was known before.

    ``arrived`` are machines that became nodes since, but for those that had been given up, told by their ids.
    ``shortfall`` is what the group is found to owe a reservation for good.
    """

    seen: GroupSeen
    readiness: Readiness
    outcomes: tuple[Outcome, ...]
    memory: Memory
    settings: Settings
    now: float
    arrived: int = 0
    shortfall: Shortfall | None = None

    @property
    def ref(self) -> GroupRef:
        return self.seen.ref

    @property
    def target(self) -> int:
        """The group's size as wanted; 0 for one that could never be read."""
        return self.seen.target or 0

    @property
    def patience(self) -> float:
        """Seconds that a machine may take to become a node."""
        return self.seen.options.max_node_provision_seconds

    @property
    def requests(self) -> tuple[ScaleUpRequest, ...]:
        """The requests known before, oldest first."""
        return self.memory.requests.get(self.ref, ())

    @property
    def increases(self) -> list[Increase]:
        """What was asked for since."""
        return find_increases(self.outcomes)

    @cached_property
    def new_failures(self) -> tuple[FailedInstance, ...]:
        """Failures that are reported for the first time."""
        known = self.memory.seen_failures
        return tuple(f for f in self.seen.failed or () if (self.ref, f.failure_id) not in known)

    @cached_property
    def newly_disputed(self) -> tuple[FailedInstance, ...]:
        """Reports of failed creations that are told for the first time of machines that ran."""
        return tuple(one for one in self.seen.disputed if (self.ref, one.instance_id) not in self.memory.ran)

    @property
    def doubtful(self) -> int:
        """Return how many machines are called failed and have lost their node: nobody waits for them.

        One that has run and never was a node is still on its way.
        """
        disputed = {one.instance_id for one in self.seen.disputed}
        lost = disputed.intersection(self.readiness.unregistered)
        return sum((self.ref, instance_id) not in self.memory.never_ran for instance_id in lost)


def find_increases(outcomes: Iterable[Outcome]) -> list[Increase]:
    """What was asked for. Without an answer it counts in full."""
    found = []
    for outcome in outcomes:
        action = outcome.action
        if isinstance(action, IncreaseSize) and not isinstance(outcome, Failed):
            asked = action.target - action.expected_target
            machines = outcome.accepted if isinstance(outcome, Done) else asked
            found.append(
                Increase(
                    machines,
                    outcome.started,
                    accepted=isinstance(outcome, Done),
                    atomic=action.request is not None,
                    hedged=action.hedged,
                    hedge_for=action.hedge_for,
                )
            )
    return [increase for increase in found if increase.machines > 0]


@dataclass(frozen=True, kw_only=True)
class GroupState:
    """A node group as the registry judges it.

    ``seen`` is what was read now or, while the group is Unknown, when it could last be read. ``upcoming`` counts
    machines that are asked for and not yet nodes that run pods. ``timed_out`` machines passed their deadline in this
    loop after ``time_given`` seconds (the longest of them; 0: the ordinary time), ``given_up`` are all those that did
    and that the target still holds; ``newly_late`` are instances that have now been without a node for too long,
    ``newly_unready`` nodes that did not start in time, ``new_failures`` failures seen for the first time,
    ``newly_disputed`` reports of failed creations that are first told of machines that ran,
    ``taken_back`` machines of accepted increases that the cloud is asked for no more although none of them came.
    ``shortfall`` says what the group did not deliver of a reservation for a request of all or nothing, where nothing
    else says it.
    ``failures`` are all that it is to be left alone for. ``withdrawn_at`` is when a decrease was last tried (0: never),
    ``withdrawal_failed`` says that one was accepted and the target did not move. ``vanished`` are machines that went
    although others were to be deleted.
    """

    seen: GroupSeen
    readiness: Readiness = Readiness()
    upcoming: int = 0
    timed_out: int = 0
    time_given: float = 0.0
    given_up: int = 0
    healthy: bool = True
    requests: tuple[ScaleUpRequest, ...] = ()
    backoff: Backoff | None = None
    deferral: Deferral | None = None
    newly_late: tuple[str, ...] = ()
    newly_unready: tuple[str, ...] = ()
    new_failures: tuple[FailedInstance, ...] = ()
    newly_disputed: tuple[FailedInstance, ...] = ()
    taken_back: int = 0
    shortfall: str = ""
    withdrawn_at: float = 0.0
    withdrawal_failed: bool = False
    failures: tuple[Failure, ...] = ()
    size_gap: IncorrectSize | None = None
    vanished: tuple[str, ...] = ()

    @property
    def ref(self) -> GroupRef:
        return self.seen.ref


@dataclass(frozen=True, kw_only=True)
class ClusterState:
    """All that planning reads; ``ended`` are the removals that are over since the last loop.

    ``elapsed`` tells the seconds that planning has taken so far, for its budgets: by default no time passes.
    """

    observation: Observation
    memory: Memory
    groups: Mapping[GroupRef, GroupState] = field(default_factory=dict)
    group_of_node: Mapping[str, GroupRef] = field(default_factory=dict)
    ended: tuple[RemovalEnded, ...] = ()
    elapsed: Callable[[], float] = field(default=float, compare=False)

    @property
    def now(self) -> float:
        return self.observation.now

    @property
    def healthy(self) -> bool:
        """Return whether no more nodes are unready than may be."""
        return self.memory.unhealthy is None

    @property
    def is_halted(self) -> bool:
        """Return whether nothing is planned because the cluster is unhealthy."""
        unhealthy = self.memory.unhealthy
        return unhealthy is not None and not has_resumed(unhealthy, self.now)

    @property
    def left_out(self) -> frozenset[GroupRef]:
        """Return the groups that are not planned for: those at fault in an unhealthy cluster."""
        return frozenset(self.memory.unhealthy.at_fault if self.memory.unhealthy is not None else ())


def has_resumed(unhealthy: UnhealthyCluster, now: float) -> bool:
    """Return whether planning goes on for the groups that are not at fault."""
    return bool(unhealthy.resumes_at) and unhealthy.resumes_at < now


Rule = Callable[[GroupContext], GroupState]
