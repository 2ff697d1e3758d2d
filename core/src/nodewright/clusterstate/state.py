"""What the registry remembers from loop to loop, and what it concludes in each."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import msgspec

from nodewright.clusterstate.in_flight import WriteInFlight
from nodewright.clusterstate.learned import ArrivalHistory
from nodewright.clusterstate.membership import Membership
from nodewright.clusterstate.provisioning import ProvisioningMemory
from nodewright.clusterstate.purchases import Purchases
from nodewright.model.group import ErrorClass, FailedInstance, FailureScope, GroupRef
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.removal import RemovalEnded
from nodewright.model.settings import SafetySettings
from nodewright.snapshot.observation import GroupSeen, Observation
from nodewright.snapshot.pod_places import PodPlaces


class ScaleUpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An increase that has not arrived in full: how many machines are still owed, since and until when.

    Times in epoch seconds. Only arrivals move the deadline, to twice the provision time at most. ``accepted``: the
    cloud said yes to it; False where it never answered, and for what somebody else asked for. ``atomic``: the machines
    are for a request of all or nothing, and no arrival moves the deadline. ``hedged`` of the machines were bought although
    the groups ``hedge_for`` had been asked for them before.
    """

    increase: int
    started: float
    deadline: float
    accepted: bool = False
    atomic: bool = False
    hedged: int = 0
    hedge_for: tuple[GroupRef, ...] = ()

    @property
    def owed_hedges(self) -> int:
        """Return how many of the machines that are still owed are hedges."""
        return min(self.hedged, self.increase)


class UnhealthyCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Too many nodes of the cluster are not ready: ``unready`` of ``nodes``, where ``tolerated`` may be.

    It has been so since ``since``. ``at_fault`` are the groups to blame: too many of their nodes are not ready, or they
    are backed off after a failure. Once ``resumes_at`` has passed, planning goes on for all other groups. Times in epoch
    seconds; ``resumes_at`` is 0 where time alone changes nothing.
    """

    since: float
    unready: int
    nodes: int
    tolerated: int
    at_fault: tuple[GroupRef, ...] = ()
    resumes_at: float = 0.0


class IncorrectSize(msgspec.Struct, frozen=True, kw_only=True):
    """More or fewer nodes than the target, unchanged since ``since`` (epoch seconds): modes ca and seed watch it."""

    registered: int
    target: int
    since: float


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


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """A group that is left alone after a failure; times in epoch seconds, ``duration`` in seconds.

    ``delivered`` counts the requests that arrived in full since it ended, up to as many as prove the group
    (registry/probation.py); where nothing is probed it is proven from the start. ``asked`` is when machines were asked
    for that never appeared (0: none failed in that way while it lasted). ``shared_from`` is the group that failed, where
    this one did not: the cloud named something short that both share. Such a backoff is short and not followed by
    probation.
    """

    until: float
    duration: float
    last_failure: float
    error_class: ErrorClass = ErrorClass.OTHER
    code: str = ""
    message: str = ""
    delivered: int = 0
    asked: float = 0.0
    shared_from: str = ""


class Deferral(msgspec.Struct, frozen=True, kw_only=True):
    """A group that is not asked to grow before ``until`` (epoch seconds), because the cloud was busy.

    ``pause`` is how long that is in seconds, ``times`` how many busy answers there were in a row.
    """

    until: float
    pause: float
    times: int = 1
    code: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class SampleNode:
    """A real node of a group that new ones will resemble, with its mirror and DaemonSet pods."""

    node: Node
    pods: tuple[Pod, ...] = ()


class Flapping(msgspec.Struct, frozen=True, kw_only=True):
    """A group that grew again soon after it had shrunk, ``turns`` times running; it keeps its nodes ``until`` then.

    Times in epoch seconds; ``last`` is that of the last turn.
    """

    turns: int
    last: float
    until: float


class Setback(msgspec.Struct, frozen=True, kw_only=True):
    """A node that was given back: when last (``at``) and why, how many ``times`` running it could not be emptied or
    deleted, and when that may be tried again (``until``). Times in epoch seconds.
    """

    times: int
    at: float
    until: float
    message: str


class Moves(NamedTuple):
    """So many pods of one controller were moved by removals ``at`` one time (epoch seconds)."""

    at: float
    pods: int


class MostNodes(NamedTuple):
    """So many nodes there were ``at`` one time (epoch seconds)."""

    nodes: int
    at: float


_NO_NODES = MostNodes(0, 0.0)


@dataclass(frozen=True, kw_only=True)
class ScaleDownMemory:
    """What scale-down must know of the past; times in epoch seconds, nodes by name.

    ``unneeded_since`` are the nodes that could go. ``grown_at``, ``shrunk_at`` and ``failed_at`` say when each group
    last grew, lost a node by scale-down, or was refused it; ``removal_started_at`` when any removal last began,
    ``marking_failed_at`` when a node last could not be tainted for one,
    ``room_found_at`` when room was last found for a request that only asks for it. ``quarantined_until`` are groups where
    something else died with a node, ``flapping`` those that grow and shrink in turn, ``moves`` what was moved within
    an hour, by the controller's key, ``setbacks`` nodes that were given back.

    The rest is not kept over a restart. ``recheck_at`` says when a node that could not go is looked at again,
    ``hints`` where a pod (its uid, or ``namespace/name``) could last have moved, ``pending_hints`` where one that waits
    was taken to fit, ``engine_started`` when this engine first looked, ``updated_at`` when it last planned (0: never),
    ``interval`` (seconds) the shortest time between two plans.
    ``most_nodes`` is how many nodes of groups there were at most of late, and when (registry/deletions.py).
    ``deleting`` says when each machine that goes by scale-down was deleted, until it is gone, and ``watched`` when any
    was, for as long as something else may die of it (registry/quarantine.py).
    """

    unneeded_since: Mapping[str, float] = field(default_factory=dict)
    grown_at: Mapping[GroupRef, float] = field(default_factory=dict)
    shrunk_at: Mapping[GroupRef, float] = field(default_factory=dict)
    failed_at: Mapping[GroupRef, float] = field(default_factory=dict)
    removal_started_at: float = 0.0
    marking_failed_at: float = 0.0
    quarantined_until: Mapping[GroupRef, float] = field(default_factory=dict)
    flapping: Mapping[GroupRef, Flapping] = field(default_factory=dict)
    moves: Mapping[str, tuple[Moves, ...]] = field(default_factory=dict)
    setbacks: Mapping[str, Setback] = field(default_factory=dict)
    recheck_at: Mapping[str, float] = field(default_factory=dict)
    hints: PodPlaces = field(default_factory=PodPlaces)
    pending_hints: Mapping[str, str] = field(default_factory=dict)
    deleting: Mapping[tuple[GroupRef, str], float] = field(default_factory=dict)
    watched: Mapping[tuple[GroupRef, str], float] = field(default_factory=dict)
    engine_started: float = 0.0
    room_found_at: float = 0.0
    updated_at: float = 0.0
    interval: float = 0.0
    most_nodes: MostNodes = _NO_NODES


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What must survive from loop to loop; times in epoch seconds.

    ``requests`` are each group's, oldest first; ``given_up`` counts machines that are overdue and still part of the
    target, ``withdrawn_at`` says when it was last tried to take them out of it. ``unregistered_since`` says when an
    instance without a node was first seen, ``late`` which of them have been for too long, and by their names which
    nodes never became ready. ``seen_failures`` are failure ids that have been acted upon, ``node_groups`` the group
    behind each providerID, also once its instance is gone; ``last_known`` is what a group was when it could last be
    read. ``members`` is which node was found to belong where: it saves work, and is not kept over a restart.
    ``never_ran`` are instances without a node that never were one, ``ran`` are machines that are reported as failed
    creations although they ran (registry/evidence.py), ``deletions`` says when each machine that counts
    towards the deletion budget was first asked to be deleted, and ``deletion_window`` for how many seconds it does;
    ``empty_deletions`` and ``empty_deletion_window`` are the same for nodes without pods to move.
    ``arrivals`` is what is learned of each group's provision time. ``deletion_tried`` says when a machine or failure
    that is still there was last asked to go. ``empty_since`` is since when each autoprovisioned group has had no
    machines; it is not kept over a restart. ``never_up`` are nodes (by name) that are not up and never were, each with
    when its condition ``Ready`` last changed, and those that look like it and were up (registry/nodes.py). ``looked_at`` is when the cluster was last looked at,
    which is not kept over a restart. ``unhealthy`` says since when and why the cluster is not healthy; None: it is. ``deferrals`` are
    groups that wait because the cloud was busy, ``writes_in_flight`` writes that a former engine may have under way,
    ``purchases`` what was bought for which pods.
    """

    requests: Mapping[GroupRef, tuple[ScaleUpRequest, ...]] = field(default_factory=dict)
    backoffs: Mapping[GroupRef, Backoff] = field(default_factory=dict)
    deferrals: Mapping[GroupRef, Deferral] = field(default_factory=dict)
    given_up: Mapping[GroupRef, int] = field(default_factory=dict)
    withdrawn_at: Mapping[GroupRef, float] = field(default_factory=dict)
    size_gaps: Mapping[GroupRef, IncorrectSize] = field(default_factory=dict)
    unregistered_since: Mapping[tuple[GroupRef, str], float] = field(default_factory=dict)
    late: frozenset[tuple[GroupRef, str]] = frozenset()
    seen_failures: frozenset[tuple[GroupRef, str]] = frozenset()
    never_ran: frozenset[tuple[GroupRef, str]] = frozenset()
    ran: frozenset[tuple[GroupRef, str]] = frozenset()
    deletions: Mapping[tuple[GroupRef, str], float] = field(default_factory=dict)
    deletion_window: float = SafetySettings().deletion_window
    empty_deletions: Mapping[tuple[GroupRef, str], float] = field(default_factory=dict)
    empty_deletion_window: float = SafetySettings().empty_deletion_window
    deletion_tried: Mapping[tuple[GroupRef, str], float] = field(default_factory=dict)
    arrivals: Mapping[GroupRef, ArrivalHistory] = field(default_factory=dict)
    node_groups: Mapping[str, GroupRef] = field(default_factory=dict)
    members: Membership | None = field(default=None, compare=False, repr=False)
    samples: Mapping[GroupRef, SampleNode] = field(default_factory=dict)
    last_known: Mapping[GroupRef, GroupSeen] = field(default_factory=dict)
    scale_down: ScaleDownMemory = field(default_factory=ScaleDownMemory)
    provisioning: ProvisioningMemory = field(default_factory=ProvisioningMemory)
    empty_since: Mapping[GroupRef, float] = field(default_factory=dict)
    never_up: Mapping[tuple[GroupRef, str], float] = field(default_factory=dict)
    looked_at: float = -math.inf
    unhealthy: UnhealthyCluster | None = None
    writes_in_flight: Mapping[GroupRef, WriteInFlight] = field(default_factory=dict)
    purchases: Purchases = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """Nodes and instances of a group by class (behaviour/up.md §2.3); node names, instance ids.

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
