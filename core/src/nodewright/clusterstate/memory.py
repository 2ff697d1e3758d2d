"""What is remembered from loop to loop."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from nodewright.clusterstate.membership import Membership
from nodewright.model.group import ErrorClass, GroupRef
from nodewright.model.node import Node
from nodewright.model.plan import ProviderCall
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import Retry
from nodewright.model.settings import SafetySettings
from nodewright.snapshot.observation import GroupSeen
from nodewright.snapshot.pod_places import PodPlaces


class Awaited(NamedTuple):
    """Machines of one increase that are not nodes yet; ``asked`` in epoch seconds."""

    asked: float
    machines: int


class Bin(NamedTuple):
    """How many arrivals took up to ``1.1 ** step`` seconds, and longer than in the bin before."""

    step: int
    arrivals: int


class ArrivalHistory(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a group's arrivals; times in epoch seconds.

    ``template`` is the fingerprint of the machines that it holds for. ``awaited`` are machines under way, oldest
    first, those given up included: they may come yet. ``scale_ups`` are the last few increases of which a machine
    came. ``recent`` and ``before`` count arrivals by how long they took, ``before`` those of the last full window.
    ``held`` is what the deadline was at ``held_at`` (seconds; 0 until enough is known): from there it falls slowly.
    """

    template: str = ""
    awaited: tuple[Awaited, ...] = ()
    scale_ups: tuple[float, ...] = ()
    recent: tuple[Bin, ...] = ()
    before: tuple[Bin, ...] = ()
    held: float = 0.0
    held_at: float = 0.0


class Shortfall(NamedTuple):
    """Why a group is at fault that a reservation is broken, as code and message.

    ``asked`` is when machines were asked for that nobody has seen (epoch seconds; 0: it is not about such machines).
    """

    code: str
    message: str
    asked: float = 0.0


class ReservationPart(msgspec.Struct, frozen=True, kw_only=True):
    """What one group owes a grant: ``nodes`` machines, of which those came whose ids are ``machines``.

    ``ahead`` machines of those that come first are for others. ``asked``: the call is known to have been made; until
    then a target above ``expected_target`` tells. All of them must have registered by ``deadline`` (epoch seconds; 0:
    by that of the grant). ``withdrawn_at`` is when a decrease for it was last tried in vain (0: never).
    """

    provider: str
    group: str
    expected_target: int
    nodes: int
    ahead: int = 0
    asked: bool = False
    machines: tuple[str, ...] = ()
    deadline: float = 0.0
    withdrawn_at: float = 0.0

    @property
    def ref(self) -> GroupRef:
        return GroupRef(self.provider, self.group)

    @property
    def missing(self) -> int:
        return self.nodes - len(self.machines)


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """Machines under way for a request of all or nothing; times in epoch seconds.

    ``key`` is the request's ``namespace/name``. By ``deadline``, the latest of its parts, all ``nodes`` must have
    registered, and ``patience`` seconds later be ready. ``broken`` says why it is over: then what came goes, and what did
    not is withdrawn. Meanwhile the request may get another.
    """

    key: str
    started: float
    deadline: float
    patience: float
    nodes: int
    parts: tuple[ReservationPart, ...] = ()
    broken: str = ""

    def leftover_name(self, request_id: str) -> str:
        """By which it is remembered once it is broken, so that it does not keep the request from its next try."""
        return f"{request_id}@{self.started:.3f}"

    def with_part(self, fresh: ReservationPart) -> "Reservation":
        """With that part in place of the one of its group."""
        parts = tuple(fresh if part.ref == fresh.ref else part for part in self.parts)
        return msgspec.structs.replace(self, parts=parts)


@dataclass(frozen=True, kw_only=True)
class ProvisioningMemory:
    """Requests are named by their ids (``ProvisioningRequest.id``).

    ``prefers_requests``: where pods and requests want the cloud in one loop, it is the requests' turn. ``retries`` are
    requests for which no capacity was found. ``homeless_since`` says since when capacity that was promised has not all
    been there (epoch seconds). ``grants`` are machines under way for requests; one that is broken has a name of its own
    (``Grant.leftover_name``).
    """

    prefers_requests: bool = False
    retries: Mapping[str, Retry] = field(default_factory=dict)
    homeless_since: Mapping[str, float] = field(default_factory=dict)
    reservations: Mapping[str, Reservation] = field(default_factory=dict)


class Purchase(msgspec.Struct, frozen=True, kw_only=True):
    """Machines of one group that were bought for pods of one kind; times in epoch seconds.

    ``asked`` is when they were last asked for (0: none are awaited). ``misfits`` says when one came that does not take
    such pods, oldest first, and ``reason`` what the last one lacked. Until ``until`` the group is not grown for them.
    """

    asked: float = 0.0
    misfits: tuple[float, ...] = ()
    until: float = 0.0
    reason: str = ""


# By the group, then by the kind of pods (snapshot/pod_class.py: kind_of).
Purchases = Mapping[GroupRef, Mapping[str, Purchase]]


class WriteInFlight(msgspec.Struct, frozen=True, kw_only=True):
    """A write to a group that is about to be made. It is over by ``until`` (epoch seconds), ``seconds`` after this was
    saved.

    ``target`` is the group's target once it took effect (None: only machines are deleted; -1: the group is gone),
    ``instance_ids`` are the machines that are then gone or on their way out.
    """

    until: float
    seconds: float
    target: int | None = None
    instance_ids: tuple[str, ...] = ()


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


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """A group that is left alone after a failure; times in epoch seconds, ``duration`` in seconds.

    ``delivered`` counts the requests that arrived in full since it ended, up to as many as prove the group
    (clusterstate/backoff.py); where nothing is probed it is proven from the start. ``asked`` is when machines were asked
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


class RemovalFailure(msgspec.Struct, frozen=True, kw_only=True):
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
    ``most_nodes`` is how many nodes of groups there were at most of late, and when (clusterstate/deletions.py).
    ``deleting`` says when each machine that goes by scale-down was deleted, until it is gone, and ``watched`` when any
    was, for as long as something else may die of it (clusterstate/deletions.py).
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
    removal_failures: Mapping[str, RemovalFailure] = field(default_factory=dict)
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
    creations although they ran (clusterstate/observed_groups.py), ``deletions`` says when each machine that counts
    towards the deletion budget was first asked to be deleted, and ``deletion_window`` for how many seconds it does;
    ``empty_deletions`` and ``empty_deletion_window`` are the same for nodes without pods to move.
    ``arrivals`` is what is learned of each group's provision time. ``deletion_tried`` says when a machine or failure
    that is still there was last asked to go. ``empty_since`` is since when each autoprovisioned group has had no
    machines; it is not kept over a restart. ``never_up`` are nodes (by name) that are not up and never were, each with
    when its condition ``Ready`` last changed, and those that look like it and were up (clusterstate/readiness.py). ``looked_at`` is when the cluster was last looked at,
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
class PlanMemory:
    """What the next loop must know of a plan: the parts of ``Memory`` that planning changes."""

    scale_down: ScaleDownMemory
    provisioning: ProvisioningMemory
    purchases: Purchases

    @staticmethod
    def of(memory: Memory) -> "PlanMemory":
        """Return these parts as they were before the plan."""
        return PlanMemory(scale_down=memory.scale_down, provisioning=memory.provisioning, purchases=memory.purchases)

    def with_called(self, calls: Iterable[ProviderCall]) -> "PlanMemory":
        """Return the memory after these provider calls: each request is tried again when its ``retry`` says so."""
        retries = {call.request.id: call.retry for call in calls}
        if not retries:
            return self
        held = self.provisioning
        return replace(self, provisioning=replace(held, retries={**held.retries, **retries}))

    def put_into(self, memory: Memory) -> Memory:
        """Return the memory of the loop with these parts."""
        return replace(memory, scale_down=self.scale_down, provisioning=self.provisioning, purchases=self.purchases)
