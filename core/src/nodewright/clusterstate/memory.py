"""The memory that is kept from loop to loop.

The file is long because it keeps everything that a restart must find again in one place.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from nodewright.clusterstate.membership import Membership
from nodewright.model.devices import ResourceSliceSpec
from nodewright.model.group import ErrorClass, FailureScope, GroupRef, Machine
from nodewright.model.interruption import InterruptionKind
from nodewright.model.move import Move, MovePause
from nodewright.model.node import CsiNodeDriver, Node
from nodewright.model.plan import PlannedNode
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import Retry
from nodewright.model.reason import Unremovable
from nodewright.model.settings import SafetySettings
from nodewright.snapshot.node_pods import PodDestinations
from nodewright.snapshot.observation import GroupSeen


class Awaited(NamedTuple):
    """Machines of one increase that are not nodes yet; ``asked`` in epoch seconds."""

    asked: float
    machines: int


class Bin(NamedTuple):
    """The number of arrivals that took at most ``1.1 ** step`` seconds and longer than the bin before."""

    step: int
    arrivals: int


class ArrivalHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a group's arrivals; times in epoch seconds.

    ``template``: the fingerprint of the machines. ``awaited``: machines under way, oldest first; those given up are
    included, since they may still come. ``scale_ups``: the last few increases of which a machine came. ``recent``,
    ``before``: arrivals by how long they took, in the current and in the last full window. ``held``: the deadline at
    ``held_at`` (seconds; 0 until enough is known), which falls slowly from then on.
    """

    template: str = ""
    awaited: tuple[Awaited, ...] = ()
    scale_ups: tuple[float, ...] = ()
    recent: tuple[Bin, ...] = ()
    before: tuple[Bin, ...] = ()
    held: float = 0.0
    held_at: float = 0.0


class Shortfall(NamedTuple):
    """The reason for which a group is at fault for a broken reservation, as code and message.

    ``asked``: when machines were asked for that never appeared (epoch seconds; 0: the failure is another one).
    """

    code: str
    message: str
    asked: float = 0.0


class ReservationPart(msgspec.Struct, frozen=True, kw_only=True):
    """One group's part of a reservation: ``nodes`` machines, of which those in ``machines`` have come.

    ``ahead``: how many of the next machines belong to other requests. ``asked``: the call is known to have been made;
    until then a target above ``expected_target`` shows it. ``deadline``: when all must have registered (epoch seconds;
    0: the reservation's deadline). ``withdrawn_at``: when a decrease for it last failed (0: never).
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
    """Machines under way for an all-or-nothing request; times in epoch seconds.

    ``key``: the request's ``namespace/name``. All ``nodes`` must have registered by ``deadline``, the latest of its
    parts, and be ready ``patience`` seconds later. ``broken``: why it failed (empty: it did not). A broken
    reservation's machines are deleted or withdrawn, and the request may get another reservation meanwhile.
    """

    key: str
    started: float
    deadline: float
    patience: float
    nodes: int
    parts: tuple[ReservationPart, ...] = ()
    broken: str = ""

    def leftover_name(self, request_id: str) -> str:
        """Return the name under which a broken reservation is remembered, so that the request can be tried again."""
        return f"{request_id}@{self.started:.3f}"

    def with_part(self, fresh: ReservationPart) -> "Reservation":
        """Return the reservation with that part in place of the one of the same group."""
        parts = tuple(fresh if part.ref == fresh.ref else part for part in self.parts)
        return msgspec.structs.replace(self, parts=parts)


@dataclass(frozen=True, kw_only=True)
class ProvisioningMemory:
    """The memory of requests, by their ids (``ProvisioningRequest.id``).

    ``prefers_requests``: requests go first if both pods and requests want new nodes. ``retries``: requests for which no
    capacity was found. ``homeless_since``: since when provisioned capacity has been incomplete (epoch seconds).
    ``reservations``: machines under way for requests; a broken one is under ``Reservation.leftover_name``.
    """

    prefers_requests: bool = False
    retries: Mapping[str, Retry] = field(default_factory=dict)
    homeless_since: Mapping[str, float] = field(default_factory=dict)
    reservations: Mapping[str, Reservation] = field(default_factory=dict)


class Purchase(msgspec.Struct, frozen=True, kw_only=True):
    """Machines of one group that were bought for pods of one kind; times in epoch seconds.

    ``asked``: when they were last asked for (0: none are awaited). ``misfits``: when those were asked for that do not take
    such pods, oldest first; ``reason``: what the last one lacked. The group is not grown for such pods before
    ``until``.
    """

    asked: float = 0.0
    misfits: tuple[float, ...] = ()
    until: float = 0.0
    reason: str = ""


# By the group, then by the kind of pods (snapshot/pod_class.py: kind_of).
Purchases = Mapping[GroupRef, Mapping[str, Purchase]]


class PlannedPods(msgspec.Struct, frozen=True, kw_only=True):
    """The pods for which ``copies`` machines of one group were requested: the number of each kind on each machine."""

    asked: float
    copies: int
    pods: Mapping[str, int]


PlannedPodsByGroup = Mapping[GroupRef, tuple[PlannedPods, ...]]


class WriteInFlight(msgspec.Struct, frozen=True, kw_only=True):
    """A write to a group that is about to be made.

    It is over by ``until`` (epoch seconds), ``seconds`` after it was saved. ``target``: the group's target after it
    (None: only machines are deleted; -1: the group is deleted). ``instance_ids``: the machines that are gone or being
    deleted after it.
    """

    until: float
    seconds: float
    target: int | None = None
    instance_ids: tuple[str, ...] = ()


class ScaleUpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An increase that has not arrived in full; times in epoch seconds.

    ``increase``: machines that are still owed. Only arrivals move ``deadline``, to at most twice the provision time.
    ``accepted``: the cloud accepted it; False without an answer, and for machines that another writer asked for.
    ``atomic``: the machines are for an all-or-nothing request, whose deadline no arrival moves. ``hedged``: how many of
    the machines were bought although the groups ``hedge_for`` had been asked for them before. ``reservation``: the key of
    the reservation that they are a part of (empty: of none).
    """

    increase: int
    started: float
    deadline: float
    accepted: bool = False
    atomic: bool = False
    hedged: int = 0
    hedge_for: tuple[GroupRef, ...] = ()
    reservation: str = ""

    @property
    def owed_hedges(self) -> int:
        """Return how many of the machines that are still owed are hedges."""
        return min(self.hedged, self.increase)


class HeldNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A notice that a machine is about to go; times in epoch seconds.

    ``since``: when it was first given. ``deadline``: when the machine stops (None: unknown), ``scope``: as in Interruption.
    """

    instance_id: str
    id: str
    kind: InterruptionKind
    since: float
    deadline: float | None = None
    scope: FailureScope | None = None


Notices = Mapping[GroupRef, tuple[HeldNotice, ...]]


class UnhealthyCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Too many nodes are not ready: ``unready`` of ``nodes``, of which ``tolerated`` may be; times in epoch seconds.

    ``at_fault``: groups with too many unready nodes, or that are backed off. Planning resumes for all other groups at
    ``resumes_at`` (0: never by time alone).
    """

    since: float
    unready: int
    nodes: int
    tolerated: int
    at_fault: tuple[GroupRef, ...] = ()
    resumes_at: float = 0.0


class IncorrectSize(msgspec.Struct, frozen=True, kw_only=True):
    """A number of nodes that differs from the target, unchanged since ``since`` (epoch seconds): rules ca and seed."""

    registered: int
    target: int
    since: float


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """A group that is not asked to grow after a failure; times in epoch seconds, ``duration`` in seconds.

    ``delivered``: how many requests arrived in full since the backoff ended (see ``allowance``). ``asked``: when
    machines were asked for that never appeared (0: no such failure). ``shared_from``: the group that failed, if this
    one did not and shares its zone or instance type; such a backoff is short, and no probation follows.
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

    ``pause``: how long that is, in seconds. ``times``: how many busy answers came in a row.
    """

    until: float
    pause: float
    times: int = 1
    code: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class SampleNode:
    """An existing node that the group's next nodes will resemble, with its mirror and DaemonSet pods."""

    node: Node
    pods: tuple[Pod, ...] = ()


class Flapping(msgspec.Struct, frozen=True, kw_only=True):
    """A group that grew again soon after it had shrunk, ``turns`` times in a row; times in epoch seconds.

    Nothing is removed from it before ``until``. ``last``: when it last grew.
    """

    turns: int
    last: float
    until: float


class RemovalFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A node whose removal failed; times in epoch seconds.

    ``at``: when it last failed. ``times``: how often in a row it could not be drained or deleted. ``until``: when the
    removal may be tried again.
    """

    times: int
    at: float
    until: float
    message: str


class MovedPods(NamedTuple):
    """The number of pods of one controller that removals moved ``at`` one time (epoch seconds)."""

    at: float
    pods: int


class MostNodes(NamedTuple):
    """The number of nodes ``at`` one time (epoch seconds)."""

    nodes: int
    at: float


_NO_NODES = MostNodes(0, 0.0)


@dataclass(frozen=True)
class Recheck:
    """A node that could not be emptied: when it is simulated again (epoch seconds), and why the last simulation failed."""

    at: float
    reason: Unremovable


@dataclass(frozen=True, kw_only=True)
class ScaleDownMemory:
    """The memory of scale-down; times in epoch seconds, nodes by name.

    Kept over a restart: ``unneeded_since``: unneeded nodes. ``grown_at``, ``shrunk_at``, ``failed_at``: when each group
    last grew, lost a node by scale-down, or failed to delete one. ``removal_started_at``: when a removal last began.
    ``marking_failed_at``: when tainting a node last failed. ``quarantined_until``: groups in which other machines
    disappeared during a deletion. ``flapping``: groups that grow and shrink in turn. ``moved_pods``: pods moved within an
    hour, by controller. ``removal_failures``: nodes whose removal failed.

    Not kept: ``room_found_at``: when room was last found for a check-capacity request. ``rechecks``: nodes that could
    not be emptied in a simulation. ``hints``: where each pod (its uid, or ``namespace/name``) could last move.
    ``pending_hints``: where each pending pod last fitted. ``engine_started``: when this process first planned.
    ``updated_at``: when it last planned (0: never). ``interval``: the shortest time between two plans, in seconds.
    ``most_nodes``: the largest recent number of nodes of groups. ``deleting``: machines that scale-down deleted and
    that still exist. ``watched``: deleted machines of groups that are still checked for other machines that disappear.
    """

    unneeded_since: Mapping[str, float] = field(default_factory=dict)
    grown_at: Mapping[GroupRef, float] = field(default_factory=dict)
    shrunk_at: Mapping[GroupRef, float] = field(default_factory=dict)
    failed_at: Mapping[GroupRef, float] = field(default_factory=dict)
    removal_started_at: float = 0.0
    marking_failed_at: float = 0.0
    quarantined_until: Mapping[GroupRef, float] = field(default_factory=dict)
    flapping: Mapping[GroupRef, Flapping] = field(default_factory=dict)
    moved_pods: Mapping[str, tuple[MovedPods, ...]] = field(default_factory=dict)
    removal_failures: Mapping[str, RemovalFailure] = field(default_factory=dict)
    rechecks: Mapping[str, Recheck] = field(default_factory=dict)
    hints: PodDestinations = field(default_factory=PodDestinations)
    pending_hints: Mapping[str, str] = field(default_factory=dict)
    deleting: Mapping[Machine, float] = field(default_factory=dict)
    watched: Mapping[Machine, float] = field(default_factory=dict)
    engine_started: float = 0.0
    room_found_at: float = 0.0
    updated_at: float = 0.0
    interval: float = 0.0
    most_nodes: MostNodes = _NO_NODES


@dataclass(frozen=True, kw_only=True)
class MoveDestinations:
    """The destinations of a move's pods: existing nodes (``existing``, by the pod's ``namespace/name``), or new ones."""

    existing: Mapping[str, str]
    new_nodes: tuple[PlannedNode, ...]


class TemplateHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The ``traits`` of a group's new nodes, by subject, and when each last ``changed``, in epoch seconds.

    ``changed`` has no time for labels and taints that the template had when it was first read. As long as it could not be
    read (``has_template``), the only traits are those that the provider reports of machines.
    """

    traits: dict[str, str] = {}
    changed: dict[str, float] = {}
    has_template: bool = False


class Correction(NamedTuple):
    """The value that a provider's template ``said``, and the one that real nodes have (None: none)."""

    said: str | None
    found: str | None


class ShownNode(NamedTuple):
    """A real node, also one that is gone, and its amounts that differ from its group's template, by resource.

    ``created`` is in epoch seconds.
    """

    name: str
    created: float
    amounts: dict[str, Correction] = {}


class LearnedTemplate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The differences of a group's last real nodes from its provider's template (docs/adr/0035-learned-templates.md).

    ``machine``, ``marks``: fingerprints of the template's amounts and devices, and of its labels and taints. Only nodes
    created at ``since`` or later count. A real node last showed something at about ``shown_at`` (epoch seconds; 0: never).
    ``nodes``: the last few, newest first. ``corrections``: of labels, taints and numbers of devices, by subject, as the node
    ``marks_of`` showed them. ``startup_taints``: keys of taints that nodes lose soon after they are ready.
    ``device_seconds``: the longest time after that until devices came. ``slices``, ``csi_drivers``: those of ``marks_of``;
    ``static_pods``: the requests of its static pods; ``daemon_extra``: what its DaemonSet pods request beyond their
    DaemonSets. ``told``: the subjects that an event has reported.
    """

    machine: str = ""
    marks: str = ""
    since: float = 0.0
    shown_at: float = 0.0
    nodes: tuple[ShownNode, ...] = ()
    marks_of: str = ""
    corrections: dict[str, Correction] = {}
    startup_taints: tuple[str, ...] = ()
    device_seconds: float = 0.0
    slices: tuple[ResourceSliceSpec, ...] = ()
    csi_drivers: tuple[CsiNodeDriver, ...] = ()
    static_pods: dict[str, str] = {}
    daemon_extra: dict[str, str] = {}
    told: tuple[str, ...] = ()


class YoungNode(NamedTuple):
    """A new node: all taints (``key:effect``) that it was seen with before it was settled, and its devices now."""

    taints: frozenset[str] = frozenset()
    devices: frozenset[str] = frozenset()


class TemplateEvidence(NamedTuple):
    """The input of a group's learned template, and when to compute the template again (``again_at``, epoch seconds)."""

    template: Node
    nodes: tuple[Node, ...]
    again_at: float


# Seconds after a search for moves that found none until the same search is repeated at the latest.
LONGEST_REST = 900.0


@dataclass(frozen=True, kw_only=True)
class MoveMemory:
    """The memory of moves: those ``under_way``, by their ids, and the ``pauses`` of nodes, by name.

    ``returns``: pauses of moves to preferred groups only: of nodes, by name, and of groups to which pods do not go back, as
    ``provider/group``.

    Not kept over a restart: ``places``: those of pods, by the move's id. ``searched_at``: when moves were last searched for
    (epoch seconds). ``vain``: a hash of the input of the last search if it found none, ``again_at``: when to repeat the
    same search, ``vain_times``: how many in a row found none. ``renewed_at``: when nodes were last renewed, ``unrenewed``: why nodes were not, by name.
    ``unreturned``: nodes for whose pods no preferred group was found, in the order of the searches.
    """

    under_way: Mapping[str, Move] = field(default_factory=dict)
    pauses: Mapping[str, MovePause] = field(default_factory=dict)
    returns: Mapping[str, MovePause] = field(default_factory=dict)
    places: Mapping[str, MoveDestinations] = field(default_factory=dict)
    searched_at: float = 0.0
    renewed_at: float = 0.0
    unrenewed: Mapping[str, str] = field(default_factory=dict)
    unreturned: tuple[str, ...] = ()
    vain: int = 0
    vain_times: int = 0
    again_at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The memory that is kept from loop to loop; times in epoch seconds.

    ``requests``: scale-up requests, oldest first. ``given_up``: overdue machines that are still part of the target;
    ``withdrawn_at``: when their withdrawal was last tried. ``unregistered_since``: when an instance without a node was
    first seen. ``late``: instances that were without a node for too long, and names of nodes that never became ready.
    ``seen_failures``: ids of failures that were handled. ``node_groups``: the group of each providerID, also after its
    instance is gone. ``last_known``: each group as it was last read. ``members``: the membership of nodes, not kept
    over a restart. ``samples``: sample nodes. ``never_ran``: instances without a node that never were one. ``ran``:
    machines that are reported as failed creations although they ran.

    ``deletions``: when each machine that counts for the deletion budget was deleted; ``deletion_window``: for how many
    seconds it counts. ``empty_deletions``, ``empty_deletion_window``: the same for nodes without pods to move.
    ``deletion_tried``: when the deletion of a machine or failure that still exists was last requested. ``arrivals``:
    learned provision times. ``empty_since``: since when an autoprovisioned group has been empty, not kept over a
    restart. ``never_up``: nodes that are not up, by name: when their condition Ready last changed, or a sentinel of
    clusterstate/readiness.py. ``looked_at``: when the cluster was last observed, not kept over a restart.
    ``unhealthy``: why the cluster is not healthy (None: it is). ``deferrals``: groups that wait for a busy cloud.
    ``writes_in_flight``: writes of a former process that may be under way. ``purchases``: for which pods each group
    grew. ``planned_pods``: which pods the machines under way are for. ``notices``: machines that clouds are about to take.
    ``moves``: nodes that are replaced by others. ``templates``: traits of new nodes of each group, while drift is watched.
    ``learned``: how real nodes differ from templates. Not kept over a restart: ``young_nodes``, new nodes by name, and
    ``template_evidence``, the input of learned templates that are not computed again in each loop. ``named``: groups of --nodes,
    by their names there, that were ever listed.
    """

    requests: Mapping[GroupRef, tuple[ScaleUpRequest, ...]] = field(default_factory=dict)
    backoffs: Mapping[GroupRef, Backoff] = field(default_factory=dict)
    deferrals: Mapping[GroupRef, Deferral] = field(default_factory=dict)
    given_up: Mapping[GroupRef, int] = field(default_factory=dict)
    withdrawn_at: Mapping[GroupRef, float] = field(default_factory=dict)
    size_gaps: Mapping[GroupRef, IncorrectSize] = field(default_factory=dict)
    unregistered_since: Mapping[Machine, float] = field(default_factory=dict)
    late: frozenset[Machine] = frozenset()
    seen_failures: frozenset[tuple[GroupRef, str]] = frozenset()
    never_ran: frozenset[Machine] = frozenset()
    ran: frozenset[Machine] = frozenset()
    deletions: Mapping[Machine, float] = field(default_factory=dict)
    deletion_window: float = SafetySettings().deletion_window
    empty_deletions: Mapping[Machine, float] = field(default_factory=dict)
    empty_deletion_window: float = SafetySettings().empty_deletion_window
    deletion_tried: Mapping[Machine, float] = field(default_factory=dict)
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
    planned_pods: PlannedPodsByGroup = field(default_factory=dict)
    notices: Notices = field(default_factory=dict)
    moves: MoveMemory = field(default_factory=MoveMemory)
    templates: Mapping[GroupRef, TemplateHistory] = field(default_factory=dict)
    learned: Mapping[GroupRef, LearnedTemplate] = field(default_factory=dict)
    young_nodes: Mapping[str, YoungNode] = field(default_factory=dict)
    template_evidence: Mapping[GroupRef, TemplateEvidence] = field(default_factory=dict)
    named: frozenset[GroupRef] = frozenset()


@dataclass(frozen=True, kw_only=True)
class PlanMemory:
    """The part of a plan that the next loop must know: the parts of ``Memory`` that planning changes.

    ``call_retries`` says when each request (by id) whose provider the plan calls is tried again. It becomes a part of
    ``Memory`` only for calls that are made.
    """

    scale_down: ScaleDownMemory
    provisioning: ProvisioningMemory
    purchases: Purchases
    planned_pods: PlannedPodsByGroup
    moves: MoveMemory
    call_retries: Mapping[str, Retry] = field(default_factory=dict)

    @staticmethod
    def of(memory: Memory) -> "PlanMemory":
        """Return these parts as they were before the plan."""
        return PlanMemory(
            scale_down=memory.scale_down,
            provisioning=memory.provisioning,
            purchases=memory.purchases,
            planned_pods=memory.planned_pods,
            moves=memory.moves,
        )

    def with_called(self, called: Iterable[str]) -> "PlanMemory":
        """Return the memory if providers are called for these requests (ids), and for no others."""
        made, held = set(called), self.provisioning
        retries = {name: retry for name, retry in self.call_retries.items() if name in made}
        provisioning = replace(held, retries={**held.retries, **retries}) if retries else held
        return replace(self, provisioning=provisioning, call_retries={})

    def put_into(self, memory: Memory) -> Memory:
        """Return the memory of the loop with these parts."""
        return replace(
            memory,
            scale_down=self.scale_down,
            provisioning=self.provisioning,
            purchases=self.purchases,
            planned_pods=self.planned_pods,
            moves=self.moves,
        )
