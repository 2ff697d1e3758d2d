"""The result of planning: actions, status writes and events, and the reasons for them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from nodewright.model.action import GroupWrite, SizeWrite
from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.disruption import DisruptionReason
from nodewright.model.group import GroupRef
from nodewright.model.interruption import InterruptionKind
from nodewright.model.meta import Condition
from nodewright.model.move import Move, RejectedMove
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import ProvisioningRequest, RequestClass
from nodewright.model.quantity import Quantity
from nodewright.model.reason import ScaleDownResult, ScaleUpResult, SkipReason, Unhelped, Unremovable
from nodewright.model.removal import NodeRemoval

PlannedAction = SizeWrite | GroupWrite


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """One group's part of a scale-up; sizes are in machines."""

    group: GroupRef
    current: int
    target: int
    maximum: int

    @property
    def added(self) -> int:
        return self.target - self.current

    def __str__(self) -> str:
        return f"{self.group} {self.current}->{self.target} (max: {self.maximum})"


@dataclass(frozen=True, kw_only=True)
class PlannedNode:
    """A node that a plan adds to a group, with the pods that it is for.

    ``kinds``: how many of them are of which kind (``kind_of``), as sorted pairs; nodes with alike pods share it.
    """

    group: GroupRef
    pods: tuple[Pod, ...]
    kinds: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class MixCost:
    """The cost of the planned nodes, in USD an hour.

    ``bound``: for these pods no nodes of the groups that may grow are cheaper (None: it is of more pods than got a place).
    ``is_cut``: the time for improvements (--least-cost-budget) was up early.
    """

    price: float
    bound: float | None
    is_cut: bool = False


@dataclass(frozen=True, kw_only=True)
class OptionSummary:
    """An option that scale-up compared: how many nodes it adds, and how many pods it helps."""

    group: GroupRef
    nodes: int
    pods: int
    chosen: bool


@dataclass(frozen=True, kw_only=True)
class ScaleUpReport:
    """The decisions of scale-up planning, with reasons.

    Groups grow for the pods ``triggered``. Pods in ``awaiting`` fit a group that was not chosen; the next loop plans for
    them again. ``unhelped`` pods have a reason for each group. ``skipped`` groups may not grow for any pod now.
    ``probed`` groups are on probation and get fewer nodes than they would otherwise. ``partial`` says what was left out
    because a time limit passed; empty: nothing. ``expander`` names the expander that chose, with the reason if it is not
    the first one that was wanted. Under least-cost ``nodes`` are the new nodes with their pods, and ``cost`` is what they cost.
    ``unwanted`` groups take some of the pods, and the mix has no node of them.
    """

    result: ScaleUpResult = ScaleUpResult.NOT_NEEDED
    expansions: tuple[Expansion, ...] = ()
    options: tuple[OptionSummary, ...] = ()
    triggered: tuple[Pod, ...] = ()
    awaiting: tuple[Pod, ...] = ()
    unhelped: tuple[Unhelped, ...] = ()
    skipped: Mapping[GroupRef, SkipReason] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    probed: Mapping[GroupRef, SkipReason] = field(default_factory=dict)
    partial: str = ""
    expander: str = ""
    nodes: tuple[PlannedNode, ...] = ()
    cost: MixCost | None = None
    unwanted: frozenset[GroupRef] = frozenset()


@dataclass(frozen=True, kw_only=True)
class ScaleDownReport:
    """The decisions of scale-down planning, with reasons; nodes by name.

    Times are in seconds since the epoch. ``removals`` start now. ``unneeded`` says since when each removable node has been
    unneeded, ``unremovable`` why other nodes stay; ``passed_over`` is the reason for nodes about which CA reports none.
    ``utilization`` has the ratio of each node that was measured. ``soft_taint`` and ``soft_untaint`` are nodes whose soft taint is
    to be added or removed. Removals may begin again at ``cooldown_until``. Time alone changes the plan at ``next_change``
    (inf: never). ``partial`` says what was left out because a time limit passed; empty: nothing. ``missing_pods`` says why
    the list of pods is not believed, so that no removal starts; empty: it is.
    """

    result: ScaleDownResult = ScaleDownResult.NOT_TRIED
    removals: tuple[NodeRemoval, ...] = ()
    unneeded: Mapping[str, float] = field(default_factory=dict)
    unremovable: Mapping[str, Unremovable] = field(default_factory=dict)
    passed_over: Mapping[str, Unremovable] = field(default_factory=dict)
    utilization: Mapping[str, float] = field(default_factory=dict)
    soft_taint: tuple[str, ...] = ()
    soft_untaint: tuple[str, ...] = ()
    cooldown_until: float = 0.0
    next_change: float = math.inf
    partial: str = ""
    missing_pods: str = ""


@dataclass(frozen=True, kw_only=True)
class StatusWrite:
    """Conditions to be written to a ProvisioningRequest.

    ``is_apply``: by server-side apply, which leaves the conditions of others alone; else the whole status is written, as
    CA does. ``is_acceptance``: it says that the request is accepted; unless it is written nothing is done for the request.
    If one of ``groups`` has not grown, ``otherwise`` is written instead of ``conditions``.
    """

    request: ProvisioningRequest
    conditions: tuple[Condition, ...]
    is_apply: bool = True
    is_acceptance: bool = False
    groups: tuple[GroupRef, ...] = ()
    otherwise: tuple[Condition, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PendingEvent:
    """An event that is still to be emitted: of ``pod``, or without one of the request (``namespace/name``)."""

    request: str
    reason: str
    message: str
    pod: Pod | None = None
    is_warning: bool = False


@dataclass(frozen=True, kw_only=True)
class ProviderCall:
    """Call ``provider`` to serve a request; ``resources`` are those of all of its pods together.

    One of the conditions is written, with the provider's reason and message: ``met`` if the capacity is there, else
    ``unmet``; ``waiting`` if the call fails.
    """

    request: ProvisioningRequest
    provider: str
    request_class: RequestClass
    resources: Mapping[str, Quantity]
    met: Condition
    unmet: Condition
    waiting: Condition


@dataclass(frozen=True, kw_only=True)
class ProvisioningReport:
    """The decisions about ProvisioningRequests.

    ``writes`` are written before a cloud is called, ``results`` afterwards, when the outcomes of ``calls`` and of the
    increases are known. ``expired`` requests are deleted. ``consumers`` are pods that wait for the capacity of their
    request. ``reserved`` says for how many pods of each request (``namespace/name``) room is reserved, and
    ``reservation_seconds`` for how long at most. ``examined``: capacity was looked for. Time alone changes the decisions
    at ``next_change`` (seconds since the epoch; inf: never).
    """

    writes: tuple[StatusWrite, ...] = ()
    results: tuple[StatusWrite, ...] = ()
    calls: tuple[ProviderCall, ...] = ()
    expired: tuple[ProvisioningRequest, ...] = ()
    consumers: tuple[Pod, ...] = ()
    events: tuple[PendingEvent, ...] = ()
    reserved: Mapping[str, int] = field(default_factory=dict)
    reservation_seconds: float | None = None
    examined: bool = False
    next_change: float = math.inf

    @property
    def has_writes(self) -> bool:
        return bool(self.writes or self.results or self.calls or self.expired)


@dataclass(frozen=True, kw_only=True)
class BufferAllocation:
    """One CapacityBuffer with the status it will have, and its virtual pods.

    ``held`` of the pods fit on existing nodes, ``coming`` on upcoming ones; ``why`` says why the others fit nowhere.
    ``injected``: the pods were planned for.
    """

    buffer: CapacityBuffer
    pods: tuple[Pod, ...] = ()
    injected: bool = False
    held: int = 0
    coming: int = 0
    why: str = ""

    @property
    def missing(self) -> int:
        return len(self.pods) - self.held - self.coming


@dataclass(frozen=True, kw_only=True)
class BufferReport:
    """The decisions about buffers: all that this process serves, and those whose status is to be written."""

    allocations: tuple[BufferAllocation, ...] = ()
    writes: tuple[CapacityBuffer, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HeldBack:
    """A planned action that waits: why, and at least until when (seconds since the epoch).

    ``event`` is the reason of the event that reports it to the operator; empty: there is no event.
    """

    action: PlannedAction
    reason: str
    until: float
    event: str = ""


@dataclass(frozen=True, kw_only=True)
class MisfitNode:
    """A node that was added for pods like ``pod`` and rejects them, for this ``reason``.

    The group does not grow for such pods before ``until`` (seconds since the epoch).
    """

    group: GroupRef
    node: str
    pod: str
    reason: str
    until: float


@dataclass(frozen=True, kw_only=True)
class LeavingNode:
    """A node whose machine the cloud is about to take; times in seconds since the epoch.

    It is drained as soon as its pods have places on ready nodes (``has_room``), and at ``drain_by`` at the latest (inf: there
    is no deadline). ``is_draining``: the drain is under way, or begins now.
    """

    node: str
    group: GroupRef
    kind: InterruptionKind
    deadline: float | None
    drain_by: float
    has_room: bool
    is_draining: bool


@dataclass(frozen=True, kw_only=True)
class OutdatedNode:
    """A node that is to be replaced for its age or because new nodes of its group differ.

    ``why`` says what is wrong with it, ``held`` why it is not replaced now; empty: its replacement begins or is under way.
    """

    node: str
    group: GroupRef
    reason: DisruptionReason
    why: str
    held: str = ""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The actions of one loop, in order, and the reasons for them.

    ``scale_up`` is the report of the first expansion for pending pods, ``salvo`` those of further ones. ``hedge`` reports
    nodes that are added a second time, ``min_size`` growth of groups to their minimum, ``spare`` growth for ``buffers``.
    Pending pods in ``fitting`` fit on existing or upcoming nodes, including those that this plan buys; those in ``waiting``
    are too young to plan for.

    ``halted`` says why only clean-up is planned, ``cut_short`` why the next loop plans all but the size corrections, and
    ``paused`` why all writes wait, and until when; each is empty if this is not so. ``held_back`` actions wait, and are
    not in ``actions``. ``quotas`` have the status that is to be written. ``misfits`` are new nodes that reject the pods
    they were added for. ``leaving`` are nodes whose machine the cloud is about to take. ``moves`` are those under way
    and those that end now, ``rejected_move`` is the best one that was found and does not pay; ``search_at`` is when the next
    may begin. ``outdated`` are nodes that are to be replaced;
    at ``renew_at`` the next node is, or room for it is searched. Room of preempted pods that the plan counts on must be
    free at ``room_by``. All are in seconds since the epoch (inf: never).
    """

    actions: tuple[PlannedAction, ...] = ()
    scale_up: ScaleUpReport = field(default_factory=ScaleUpReport)
    salvo: tuple[ScaleUpReport, ...] = ()
    hedge: ScaleUpReport | None = None
    min_size: ScaleUpReport | None = None
    fitting: tuple[Pod, ...] = ()
    waiting: tuple[Pod, ...] = ()
    scale_down: ScaleDownReport = field(default_factory=ScaleDownReport)
    provisioning: ProvisioningReport = field(default_factory=ProvisioningReport)
    buffers: BufferReport = field(default_factory=BufferReport)
    spare: tuple[ScaleUpReport, ...] = ()
    halted: str = ""
    cut_short: str = ""
    quotas: tuple[CapacityQuota, ...] = ()
    misfits: tuple[MisfitNode, ...] = ()
    leaving: tuple[LeavingNode, ...] = ()
    moves: tuple[Move, ...] = ()
    rejected_move: RejectedMove | None = None
    outdated: tuple[OutdatedNode, ...] = ()
    search_at: float = math.inf
    renew_at: float = math.inf
    room_by: float = math.inf
    held_back: tuple[HeldBack, ...] = ()
    paused: str = ""

    @property
    def partial(self) -> str:
        """Return what was left out because a time limit passed; empty: nothing."""
        reports: tuple[ScaleUpReport | ScaleDownReport, ...] = (
            self.scale_up,
            *self.salvo,
            *self.spare,
            self.scale_down,
        )
        return "; ".join(report.partial for report in reports if report.partial)

    def without_writes(self) -> "Plan":
        """Return a plan that writes nothing and reports what this one decided about growth.

        It starts from an empty plan: a new kind of write is left out until its field is added here.
        """
        return Plan(
            scale_up=self.scale_up,
            salvo=self.salvo,
            hedge=self.hedge,
            min_size=self.min_size,
            fitting=self.fitting,
            waiting=self.waiting,
            scale_down=ScaleDownReport(result=self.scale_down.result),
            spare=self.spare,
            halted=self.halted,
            cut_short=self.cut_short,
            room_by=self.room_by,
        )
