"""Describe the state of CapacityBuffers and ProvisioningRequests, from what was planned for them."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from nodewright.clusterstate.memory import ProvisioningMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.model.capacity_buffer import LIMITED, READY, CapacityBuffer
from nodewright.model.meta import Condition
from nodewright.model.plan import BufferAllocation, Plan, ProvisioningReport
from nodewright.model.provisioning_request import (
    ACCEPTED,
    BOOKING_EXPIRED,
    CAPACITY_REVOKED,
    CONSUMED,
    FAILED,
    PROVISIONED,
    UNDER_WAY,
    ProvisioningRequest,
)


class BufferState(StrEnum):
    """The state of the spare capacity.

    FULL: all pods fit on existing nodes. COMING: some fit on upcoming nodes only. SHORT: some fit nowhere yet. EMPTY: the
    buffer has no pods. IDLE: its pods are not planned for. ERROR: its spec cannot be resolved.
    """

    FULL = "full"
    COMING = "coming"
    SHORT = "short"
    EMPTY = "empty"
    IDLE = "idle"
    ERROR = "error"


class BufferFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One buffer. ``shape`` names the object that its pods look like.

    ``held`` of its ``pods`` fit on existing nodes, ``coming`` on upcoming ones; ``why`` is why others are ``missing``.
    """

    buffer: str
    shape: str
    pods: int
    held: int
    coming: int
    missing: int
    state: BufferState
    why: str = ""


def buffers_planned(plan: Plan) -> tuple[BufferFacts, ...]:
    """Return all buffers, by name."""
    return tuple(sorted(map(_buffer_facts, plan.buffers.allocations), key=lambda one: one.buffer))


def _buffer_facts(allocation: BufferAllocation) -> BufferFacts:
    state, why = _state(allocation)
    limited = allocation.buffer.status.condition(LIMITED)
    said = [why, limited.message if limited is not None and limited.is_true else ""]
    return BufferFacts(
        buffer=allocation.buffer.key,
        shape=_shape(allocation.buffer),
        pods=len(allocation.pods),
        held=allocation.held,
        coming=allocation.coming,
        missing=allocation.missing if allocation.injected else 0,
        state=state,
        why="; ".join(filter(None, said)),
    )


def _state(allocation: BufferAllocation) -> tuple[BufferState, str]:
    ready = allocation.buffer.status.condition(READY)
    if ready is not None and not ready.is_true:
        return BufferState.ERROR, ready.message
    if not allocation.pods:
        return BufferState.EMPTY, allocation.why
    if not allocation.injected:
        return BufferState.IDLE, "its pods are not planned for now"
    if allocation.missing:
        return BufferState.SHORT, allocation.why
    return (BufferState.COMING if allocation.coming else BufferState.FULL), ""


def _shape(buffer: CapacityBuffer) -> str:
    """Return the name of the object that the pods look like."""
    spec = buffer.spec
    if spec.scalable_ref is not None:
        return f"{spec.scalable_ref.kind} {spec.scalable_ref.name}"
    return f"PodTemplate {spec.pod_template_ref.name}" if spec.pod_template_ref is not None else ""


class RequestPhase(StrEnum):
    """Phase of a request. The last four are final; BOOKED (its capacity is reserved) is the success before them."""

    NEW = "new"
    ACCEPTED = "accepted"
    PROVISIONING = "provisioning"
    WAITING = "waiting"
    BOOKED = "booked"
    CONSUMED = "consumed"
    EXPIRED = "expired"
    REVOKED = "revoked"
    FAILED = "failed"


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One request; times in seconds since the epoch.

    It is in its phase since ``since``; ``reason`` and ``message`` are those of the condition that says so. Its capacity is
    reserved until ``booked_until``, in the last loop for ``held`` of its ``pods``; None: nothing is reserved. It is tried
    again at ``next_try``.
    """

    request: str
    class_name: str
    pods: int
    phase: RequestPhase
    since: float
    reason: str = ""
    message: str = ""
    booked_until: float | None = None
    held: int | None = None
    next_try: float | None = None


def requests_seen(state: ClusterState, plan: Plan | None) -> tuple[RequestFacts, ...]:
    """Return the requests as they were at the beginning of a loop; ``plan`` is that of the loop, None: none yet."""
    requests = state.observation.provisioning.requests
    return facts_of_requests(requests, state.memory.provisioning, plan.provisioning if plan is not None else None)


def requests_planned(state: ClusterState, plan: Plan) -> tuple[RequestFacts, ...]:
    """Return the requests as they would be once the plan's status writes are done."""
    report = plan.provisioning
    after = {write.request.key: write.request for write in (*report.writes, *report.results)}
    gone = {request.key for request in report.expired}
    held = [after.get(one.key, one) for one in state.observation.provisioning.requests if one.key not in gone]
    asked = {call.request.key: call.provider for call in report.calls}
    facts = facts_of_requests(held, state.memory.provisioning, report)
    return tuple(
        msgspec.structs.replace(one, message=f"provider {asked[one.request]} is asked to serve it")
        if one.request in asked
        else one
        for one in facts
    )


def facts_of_requests(
    requests: Iterable[ProvisioningRequest], memory: ProvisioningMemory, report: ProvisioningReport | None
) -> tuple[RequestFacts, ...]:
    """Return the requests by name; ``report`` says what is reserved, and for how long. None: there is no plan yet."""
    facts = (_request_facts(request, memory, report or ProvisioningReport()) for request in requests)
    return tuple(sorted(facts, key=lambda one: one.request))


def _request_facts(
    request: ProvisioningRequest, memory: ProvisioningMemory, report: ProvisioningReport
) -> RequestFacts:
    phase, said = _phase(request)
    since = said.since if said is not None else request.created
    window = report.reservation_seconds
    is_reserved, waits = phase == RequestPhase.BOOKED, phase in (RequestPhase.WAITING, RequestPhase.ACCEPTED)
    retry = memory.retries.get(request.id) if waits else None
    return RequestFacts(
        request=request.key,
        class_name=request.spec.provisioning_class_name,
        pods=request.pod_count,
        phase=phase,
        since=since,
        reason=said.reason if said is not None else "",
        message=said.message if said is not None else "",
        booked_until=since + window if is_reserved and window is not None else None,
        held=report.reserved.get(request.key) if is_reserved else None,
        next_try=retry.at + retry.wait if retry is not None else None,
    )


def _phase(request: ProvisioningRequest) -> tuple[RequestPhase, Condition | None]:
    """Return the phase, and the condition that says so."""
    ends = {FAILED: RequestPhase.FAILED, CAPACITY_REVOKED: RequestPhase.REVOKED, BOOKING_EXPIRED: RequestPhase.EXPIRED}
    for kind, phase in ends.items():
        said = request.condition(kind)
        if said is not None and said.is_true:
            is_used = said.reason == CONSUMED
            return RequestPhase.CONSUMED if is_used else phase, said
    said = request.condition(PROVISIONED)
    if said is None:
        accepted = request.condition(ACCEPTED)
        return (RequestPhase.ACCEPTED if accepted is not None else RequestPhase.NEW), accepted
    if said.is_true:
        return RequestPhase.BOOKED, said
    return (RequestPhase.PROVISIONING if said.reason == UNDER_WAY else RequestPhase.WAITING), said
