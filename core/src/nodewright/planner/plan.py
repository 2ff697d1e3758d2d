"""The result of planning: actions, and the reasons for them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodewright.clusterstate.memory import ProvisioningMemory, Purchases, Retry, ScaleDownMemory
from nodewright.model.action import GroupWrite, SizeWrite
from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.condition import Condition
from nodewright.model.group import GroupRef
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import ProvisioningRequest, RequestClass
from nodewright.model.quantity import Quantity
from nodewright.model.reason import ScaleDownResult, ScaleUpResult, SkipReason, Unhelped, Unremovable
from nodewright.model.removal import NodeRemoval

PlannedAction = SizeWrite | GroupWrite


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """One group's part of a scale-up; sizes count machines."""

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
class OptionSummary:
    """An expansion that was weighed: what it would have cost and helped."""

    group: GroupRef
    nodes: int
    pods: int
    chosen: bool


@dataclass(frozen=True, kw_only=True)
class ScaleUpReport:
    """What scale-up planning decided, and why.

    ``triggered`` are the pods for whose sake groups grow; ``awaiting`` could run on some group but not the
    chosen one and are planned again next loop; ``unhelped`` carry a reason per group. ``skipped`` are groups
    left out whatever the pod, ``probed`` those that were asked for less than they were wanted for. ``partial`` says
    what there was no time for, empty: nothing.
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


@dataclass(frozen=True, kw_only=True)
class ScaleDownReport:
    """What scale-down planning decided, and why; nodes by name.

    ``removals`` start now. ``unneeded`` says since when each node that could go has not been needed (epoch seconds),
    ``unremovable`` why others stay, as far as CA says so; ``passed_over`` is why each node stays of which CA says
    nothing. ``utilization`` is the ratio of those that were measured. ``mark`` and ``unmark`` are nodes whose soft
    taint is to be added or removed. ``cooldown_until`` (epoch seconds) is when removals may begin again,
    ``next_change`` when time alone changes what is planned. ``partial`` says what there was no time for. ``memory`` is
    for the next loop; None: it stays as it was.
    """

    result: ScaleDownResult = ScaleDownResult.NOT_TRIED
    removals: tuple[NodeRemoval, ...] = ()
    unneeded: Mapping[str, float] = field(default_factory=dict)
    unremovable: Mapping[str, Unremovable] = field(default_factory=dict)
    passed_over: Mapping[str, Unremovable] = field(default_factory=dict)
    utilization: Mapping[str, float] = field(default_factory=dict)
    mark: tuple[str, ...] = ()
    unmark: tuple[str, ...] = ()
    cooldown_until: float = 0.0
    next_change: float = math.inf
    partial: str = ""
    memory: ScaleDownMemory | None = None

    def with_memory(self, **changes: Any) -> "ScaleDownReport":
        """The report with something else to remember."""
        return replace(self, memory=replace(self.memory or ScaleDownMemory(), **changes))


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
    ``unmet``; ``waiting`` if the call fails. ``retry`` is remembered if the call is made.
    """

    request: ProvisioningRequest
    provider: str
    request_class: RequestClass
    resources: Mapping[str, Quantity]
    met: Condition
    unmet: Condition
    waiting: Condition
    retry: Retry


@dataclass(frozen=True, kw_only=True)
class ProvisioningReport:
    """What was decided about ProvisioningRequests.

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


def with_called(memory: ProvisioningMemory, calls: Iterable[ProviderCall]) -> ProvisioningMemory:
    """Return the memory after these provider calls: each request is tried again when its ``retry`` says so."""
    retries = {call.request.id: call.retry for call in calls}
    return replace(memory, retries={**memory.retries, **retries}) if retries else memory


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
    """What was decided about buffers: all that this process serves, and those whose status is to be written."""

    allocations: tuple[BufferAllocation, ...] = ()
    writes: tuple[CapacityBuffer, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HeldBack:
    """An action that was planned and waits: why, and until when (epoch seconds) at least.

    ``event`` is the reason of the event that tells an operator; empty: none does.
    """

    action: PlannedAction
    reason: str
    until: float
    event: str = ""


@dataclass(frozen=True, kw_only=True)
class MisfitNode:
    """A node that was bought for pods like ``pod`` and does not take them, for this ``reason``.

    The group is not grown for such pods before ``until`` (epoch seconds).
    """

    group: GroupRef
    node: str
    pod: str
    reason: str
    until: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to do now, in order, and the reasons.

    ``fitting`` are pending pods for which there is room already, on nodes that are or will be; ``waiting`` are too
    young to be planned for. ``spare`` are the reports of growth for ``buffers``. ``salvo`` are the reports of further
    expansions. ``hedge`` is the report of machines that are bought twice. ``min_size`` is the report of growing groups to
    their minimum. ``halted`` says why nothing but clean-up
    is planned, empty otherwise, ``cut_short`` that corrections leave the rest to the next loop. ``quotas`` are those
    whose status is to be written, with it. ``misfits`` are machines that came and do not take the pods they were bought
    for, ``purchases`` what to remember of such things (None: what is known already). ``room_by`` is when room that is
    counted on must be there (epoch seconds). ``held_back`` is no part of ``actions``; ``paused`` says why all of it
    waits, and until when. ``provisioning_memory`` is what to remember of requests (None: it stays as it was).
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
    purchases: Purchases | None = None
    provisioning_memory: ProvisioningMemory | None = None
    room_by: float = math.inf
    held_back: tuple[HeldBack, ...] = ()
    paused: str = ""

    @property
    def partial(self) -> str:
        """What there was no time for; empty: for everything."""
        reports: tuple[ScaleUpReport | ScaleDownReport, ...] = (
            self.scale_up,
            *self.salvo,
            *self.spare,
            self.scale_down,
        )
        return "; ".join(report.partial for report in reports if report.partial)
