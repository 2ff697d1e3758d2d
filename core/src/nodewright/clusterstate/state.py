"""The conclusions of one loop about the cluster and each of its groups."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from nodewright.clusterstate.memory import (
    Backoff,
    Deferral,
    HeldNotice,
    IncorrectSize,
    Memory,
    ScaleUpRequest,
    Shortfall,
    UnhealthyCluster,
)
from nodewright.model.action import Done, Failed, IncreaseSize, Outcome
from nodewright.model.group import ErrorClass, FailedInstance, FailureScope, GroupRef
from nodewright.model.node import Node
from nodewright.model.removal import RemovalEnded
from nodewright.model.settings import LoopSettings
from nodewright.snapshot.observation import GroupSeen, Observation


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One reason to back off a group and those that share its ``bucket`` or its ``scope``; ``at`` in epoch seconds.

    ``asked``: when machines were asked for that never appeared (0: the failure is another one).
    """

    group: GroupRef
    at: float
    asked: float = 0.0
    error_class: ErrorClass = ErrorClass.OTHER
    scope: FailureScope = FailureScope.GROUP
    bucket: str = ""
    code: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """Nodes (by name) and instances (by id) of a group by class (docs/behaviour/cluster-state.md).

    ``deleted``: nodes whose instance is gone or being deleted. ``suspended``: nodes with the condition ``Suspended``.
    ``leaving``: unready nodes that scale-down is removing. ``unregistered``: instances without a node;
    ``long_unregistered``: for too long. ``never_ready``: those of ``unready`` that never were ready; ``just_overdue``:
    those of them whose time ended recently. ``never_up``: what to remember of nodes that never were up, and of those
    that look like it.
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
        """Return ``ready`` as a set."""
        return frozenset(self.ready)

    @property
    def registered(self) -> int:
        """Return how many nodes have an instance."""
        up = len(self.ready) + len(self.suspended)
        return up + len(self.unready) + len(self.leaving) + len(self.not_started)


class Increase(NamedTuple):
    """Machines that were asked for at ``started`` (epoch seconds).

    ``accepted``: the cloud accepted it. ``reservation``: the key of the all-or-nothing request that they are for.
    """

    machines: int
    started: float
    accepted: bool
    reservation: str = ""
    hedged: int = 0
    hedge_for: tuple[GroupRef, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GroupContext:
    """One group now, how our calls to it ended since the last loop, and what was known before.

    ``arrived``: how many machines became nodes since, without those that had been given up. ``shortfall``: what the
    group failed to deliver of a reservation.
    """

    seen: GroupSeen
    readiness: Readiness
    outcomes: tuple[Outcome, ...]
    memory: Memory
    loop: LoopSettings
    now: float
    arrived: int = 0
    shortfall: Shortfall | None = None

    @property
    def ref(self) -> GroupRef:
        return self.seen.ref

    @property
    def target(self) -> int:
        """Return the group's target size; 0 if it was never read."""
        return self.seen.target or 0

    @property
    def patience(self) -> float:
        """Return the group's provision time, in seconds."""
        return self.seen.options.max_node_provision_seconds

    @property
    def requests(self) -> tuple[ScaleUpRequest, ...]:
        """Return the remembered requests, oldest first."""
        return self.memory.requests.get(self.ref, ())

    @property
    def increases(self) -> list[Increase]:
        """Return what was asked for since the last loop."""
        return find_increases(self.outcomes)

    @cached_property
    def new_failures(self) -> tuple[FailedInstance, ...]:
        """Return failures that are reported for the first time."""
        known = self.memory.seen_failures
        return tuple(f for f in self.seen.failed or () if (self.ref, f.failure_id) not in known)

    @cached_property
    def newly_disputed(self) -> tuple[FailedInstance, ...]:
        """Return failed creations that are reported for the first time although their machines ran."""
        return tuple(one for one in self.seen.disputed if (self.ref, one.instance_id) not in self.memory.ran)

    @property
    def doubtful(self) -> int:
        """Return how many machines are reported as failed and have lost their node: pods do not wait for them.

        A machine that runs and never was a node is still on its way.
        """
        disputed = {one.instance_id for one in self.seen.disputed}
        lost = disputed.intersection(self.readiness.unregistered)
        return sum((self.ref, instance_id) not in self.memory.never_ran for instance_id in lost)


def find_increases(outcomes: Iterable[Outcome]) -> list[Increase]:
    """Return what was asked for. An increase without an answer counts in full."""
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
                    reservation=action.request.key if action.request is not None else "",
                    hedged=action.hedged,
                    hedge_for=action.hedge_for,
                )
            )
    return [increase for increase in found if increase.machines > 0]


@dataclass(frozen=True, kw_only=True)
class GroupState:
    """The conclusions of one loop about a node group.

    ``seen``: the group as read now, or as last read while it is unreadable. ``upcoming``: machines that are asked for
    and are not yet nodes that run pods. ``timed_out``: machines whose deadline passed in this loop, after
    ``time_given`` seconds (the longest; 0: the ordinary time). ``given_up``: all overdue machines that the target still
    includes. ``newly_late``: instances that have now been without a node for too long. ``newly_unready``: nodes that did not
    start in time. ``new_failures``, ``newly_disputed``: see ``GroupContext``. ``taken_back``: machines of accepted
    increases that the cloud is no longer asked for. ``shortfall``: what the group failed to deliver of a reservation.
    ``failures``: all reasons for a backoff. ``withdrawn_at``: when a decrease was last tried (epoch seconds; 0: never);
    ``withdrawal_failed``: an accepted decrease had no effect. ``vanished``: machines that disappeared while others were
    deleted.
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
    """Everything that planning reads.

    ``interrupted``: nodes whose machine is about to be taken, by name. ``wrong_templates``: newly found differences between
    real nodes and their group's template. ``ended``: removals that ended since the last loop.
    ``paused``: why nothing is written now; empty: writes are allowed. ``elapsed``: returns the seconds that planning has
    taken so far; by default no time passes.
    """

    observation: Observation
    memory: Memory
    groups: Mapping[GroupRef, GroupState] = field(default_factory=dict)
    group_of_node: Mapping[str, GroupRef] = field(default_factory=dict)
    interrupted: Mapping[str, HeldNotice] = field(default_factory=dict)
    wrong_templates: Mapping[GroupRef, tuple[str, ...]] = field(default_factory=dict)
    ended: tuple[RemovalEnded, ...] = ()
    paused: str = ""
    elapsed: Callable[[], float] = field(default=float, compare=False)

    @property
    def now(self) -> float:
        return self.observation.now

    def shares_machine(self, node: Node) -> bool:
        """Return whether another node claims the same machine: its pods run on only one of them."""
        return self.memory.members is not None and self.memory.members.shares_machine(node)

    @property
    def healthy(self) -> bool:
        """Return whether no more nodes are unready than are tolerated."""
        return self.memory.unhealthy is None

    @property
    def is_halted(self) -> bool:
        """Return whether nothing is planned because the cluster is unhealthy."""
        unhealthy = self.memory.unhealthy
        return unhealthy is not None and not has_resumed(unhealthy, self.now)

    @property
    def left_out(self) -> frozenset[GroupRef]:
        """Return the groups that are at fault in an unhealthy cluster: nothing is planned for them."""
        return frozenset(self.memory.unhealthy.at_fault if self.memory.unhealthy is not None else ())


def has_resumed(unhealthy: UnhealthyCluster, now: float) -> bool:
    """Return whether planning continues for the groups that are not at fault."""
    return bool(unhealthy.resumes_at) and unhealthy.resumes_at < now


Rule = Callable[[GroupContext], GroupState]
