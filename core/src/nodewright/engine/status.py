"""The status of everything that is remembered: for a running engine, a simulation and a saved state."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from nodewright.actuation import Pause
from nodewright.actuation.write_gate import ClusterLimits
from nodewright.clusterstate.backoff import allowance, is_active, is_deferred
from nodewright.clusterstate.deletions import recent_deletions
from nodewright.clusterstate.memory import (
    ArrivalHistory,
    Backoff,
    Deferral,
    HeldNotice,
    Memory,
    ScaleUpRequest,
    UnhealthyCluster,
)
from nodewright.model.capability import Capability
from nodewright.model.group import GroupRef
from nodewright.model.move import Move
from nodewright.model.plan import OutdatedNode
from nodewright.model.removal import Removing
from nodewright.planner.explain import BufferFacts, RequestFacts
from nodewright.snapshot.observation import GroupSeen

_UNDECLARED = "the provider does not report failures"


@dataclass(frozen=True, kw_only=True)
class Detection:
    """The way in which failures of a group are detected.

    ``fast``: the provider reports them in every loop; otherwise machines are overdue after ``timeout`` seconds, and
    ``why_not`` is why it is not fast. ``learned``: the timeout is learned from the group's own machines.
    """

    fast: bool
    timeout: float
    learned: bool = False
    why_not: str = ""


@dataclass(frozen=True, kw_only=True)
class GroupStatus:
    """One node group. Counts are machines, ``target`` is None where it is not known, as is ``detection``.

    ``requests`` still owe machines, each with the moment at which it is given up; ``given_up`` are overdue and still
    part of the target; ``unregistered`` instances are no nodes yet, ``late`` of them (or of the nodes) for too long,
    and ``next_late`` (epoch seconds) is when the next of them will be. ``probation`` is how many machines it may be
    asked for until it delivers, None for as many as are needed. ``deferral``: the cloud was busy. ``deleted`` counts
    towards the budget. ``disputed`` machines ran, and the cloud reports them as failed creations.
    ``quarantined_until`` (epoch seconds): no node is removed until then, because machines disappeared that no controller
    deleted; None: the group is not quarantined. ``autoprovisioned`` is the machine type of a group that was made on demand.
    """

    ref: GroupRef
    min_size: int = 0
    max_size: int = 0
    target: int | None = None
    detection: Detection | None = None
    requests: tuple[ScaleUpRequest, ...] = ()
    given_up: int = 0
    unregistered: int = 0
    late: int = 0
    disputed: int = 0
    next_late: float | None = None
    backoff: Backoff | None = None
    deferral: Deferral | None = None
    probation: int | None = None
    deleted: int = 0
    quarantined_until: float | None = None
    autoprovisioned: str = ""


@dataclass(frozen=True, kw_only=True)
class BudgetStatus:
    """The use of a deletion budget of the cluster.

    ``used`` machines count, and ``limit`` of them are allowed within ``window`` seconds. The limit depends on the number of
    nodes, and is None if that number is not known. A window of 0 allows any number.
    """

    used: int = 0
    limit: int | None = None
    window: float = 0.0


@dataclass(frozen=True, kw_only=True)
class StatusReport:
    """The status at ``now`` (epoch seconds).

    ``empty_deletions``: the budget for nodes without pods to move, ``deletions``: that for all others. ``unneeded``: since
    when nodes, by name, have been unneeded. ``removing``: nodes that are being removed. ``unhealthy``: why the cluster is
    unhealthy (None: it is healthy). ``capacity``: ProvisioningRequests, ``buffers``: CapacityBuffers (None: not read).
    ``notices``: machines that clouds are about to take, the earliest deadline first. ``moves``: those under way.
    ``outdated``: nodes that are to be replaced for their age or drift (None: there is no plan).
    """

    now: float = 0.0
    groups: tuple[GroupStatus, ...] = ()
    pause: Pause | None = None
    deletions: BudgetStatus = BudgetStatus()
    empty_deletions: BudgetStatus = BudgetStatus()
    unneeded: Mapping[str, float] = field(default_factory=dict)
    removing: tuple[Removing, ...] = ()
    capacity: tuple[RequestFacts, ...] | None = None
    buffers: tuple[BufferFacts, ...] | None = None
    unhealthy: UnhealthyCluster | None = None
    notices: tuple[tuple[GroupRef, HeldNotice], ...] = ()
    moves: tuple[Move, ...] = ()
    outdated: tuple[OutdatedNode, ...] | None = None


def make_status(
    memory: Memory,
    now: float,
    *,
    pause: Pause | None = None,
    limits: ClusterLimits = ClusterLimits(),  # noqa: B008 - it cannot be changed
    removing: Iterable[Removing] = (),
    capacity: tuple[RequestFacts, ...] | None = None,
) -> StatusReport:
    """Return the status. Backoffs and pauses that are over are left out."""
    deletions = recent_deletions(memory.deletions, memory.deletion_window, now)
    empty_deletions = recent_deletions(memory.empty_deletions, memory.empty_deletion_window, now)
    gone = (*deletions, *empty_deletions)
    machines = {"unregistered": memory.unregistered_since, "late": memory.late, "deleted": gone, "disputed": memory.ran}
    counts = {what: Counter(ref for ref, _ in found) for what, found in machines.items()}
    alone = (memory.backoffs, memory.deferrals, memory.scale_down.quarantined_until)
    known = {*memory.last_known, *memory.requests, *memory.given_up}.union(*alone, *counts.values())
    waiting = _waiting(memory)
    notices = [(ref, notice) for ref, held in memory.notices.items() for notice in held]
    groups = (_group_status(ref, memory, counts, waiting.get(ref, ()), now) for ref in sorted(known))
    return StatusReport(
        now=now,
        groups=tuple(groups),
        pause=pause if pause is not None and pause.holds(now) else None,
        deletions=BudgetStatus(used=len(deletions), limit=limits.of_others, window=memory.deletion_window),
        empty_deletions=BudgetStatus(
            used=len(empty_deletions), limit=limits.of_empty, window=memory.empty_deletion_window
        ),
        unneeded=memory.scale_down.unneeded_since,
        removing=tuple(sorted(removing, key=lambda held: (held.started, held.removal.node))),
        capacity=capacity,
        unhealthy=memory.unhealthy,
        moves=tuple(memory.moves.under_way.values()),
        notices=tuple(sorted(notices, key=lambda pair: (pair[1].deadline or math.inf, pair[1].instance_id))),
    )


def _waiting(memory: Memory) -> dict[GroupRef, list[float]]:
    """Return since when the instances of each group that are not late have been without a node, oldest first."""
    found: dict[GroupRef, list[float]] = {}
    for machine, since in sorted(memory.unregistered_since.items(), key=lambda item: item[1]):
        if machine not in memory.late:
            found.setdefault(machine[0], []).append(since)
    return found


def _with_ends(requests: Iterable[ScaleUpRequest], ends: Sequence[float]) -> Iterator[ScaleUpRequest]:
    """Yield the requests with the times at which they are given up.

    ``ends``: those of instances without a node. They count for the oldest requests (clusterstate/requests.py).
    """
    for request in requests:
        covering, ends = ends[: request.increase], ends[request.increase :]
        if covering:
            yield replace(request, increase=len(covering), deadline=covering[0])
        if len(covering) < request.increase:
            yield replace(request, increase=request.increase - len(covering))


def _group_status(
    ref: GroupRef, memory: Memory, counts: Mapping[str, Counter[GroupRef]], waiting: Sequence[float], now: float
) -> GroupStatus:
    seen, backoff, deferral = memory.last_known.get(ref), memory.backoffs.get(ref), memory.deferrals.get(ref)
    detection = _detection(seen, memory.arrivals.get(ref)) if seen is not None else None
    ends = [since + detection.timeout for since in waiting] if detection is not None else []
    quarantined = memory.scale_down.quarantined_until.get(ref)
    return GroupStatus(
        ref=ref,
        min_size=seen.group.min_size if seen is not None else 0,
        max_size=seen.group.max_size if seen is not None else 0,
        target=seen.target if seen is not None else None,
        detection=detection,
        requests=tuple(_with_ends(memory.requests.get(ref, ()), ends)),
        given_up=memory.given_up.get(ref, 0),
        unregistered=counts["unregistered"][ref],
        late=counts["late"][ref],
        disputed=counts["disputed"][ref],
        next_late=ends[0] if ends else None,
        backoff=backoff if is_active(backoff, now) else None,
        deferral=deferral if is_deferred(deferral, now) else None,
        probation=allowance(backoff, now),
        deleted=counts["deleted"][ref],
        quarantined_until=quarantined if quarantined is not None and quarantined > now else None,
        autoprovisioned=seen.group.autoprovisioned if seen is not None else "",
    )


def _detection(seen: GroupSeen, history: ArrivalHistory | None) -> Detection:
    fast = Capability.FAST_FAILURE_DETECTION
    learned = history.held if history is not None else 0.0
    is_fast = fast in seen.capabilities
    return Detection(
        fast=is_fast,
        timeout=learned or seen.options.max_node_provision_seconds,
        learned=learned > 0,
        why_not="" if is_fast else seen.group.switched_off.get(fast) or _UNDECLARED,
    )
