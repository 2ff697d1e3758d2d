"""How buffers of spare capacity stand: from what was planned for them."""

from enum import StrEnum

import msgspec

from nodewright.model.capacity_buffer import LIMITED, READY, CapacityBuffer
from nodewright.planner.capacity_buffers.desk import BufferAllocation
from nodewright.planner.plan import Plan


class BufferState(StrEnum):
    """Whether the room is there: all of it on ready nodes, some on its way, some nowhere; or nothing is wanted or held."""

    FULL = "full"
    COMING = "coming"
    SHORT = "short"
    EMPTY = "empty"
    IDLE = "idle"
    ERROR = "error"


class BufferFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One buffer: what its pods are like, for how many of them room is ``held`` on nodes that are there, ``coming`` or
    ``missing``, and why.
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
    """By their names."""
    return tuple(sorted(map(_facts, plan.buffers.holdings), key=lambda one: one.buffer))


def _facts(holding: BufferAllocation) -> BufferFacts:
    state, why = _state(holding)
    limited = holding.buffer.status.condition(LIMITED)
    said = [why, limited.message if limited is not None and limited.is_true else ""]
    return BufferFacts(
        buffer=holding.buffer.key,
        shape=_shape(holding.buffer),
        pods=len(holding.pods),
        held=holding.held,
        coming=holding.coming,
        missing=holding.missing if holding.injected else 0,
        state=state,
        why="; ".join(filter(None, said)),
    )


def _state(holding: BufferAllocation) -> tuple[BufferState, str]:
    ready = holding.buffer.status.condition(READY)
    if ready is not None and not ready.is_true:
        return BufferState.ERROR, ready.message
    if not holding.pods:
        return BufferState.EMPTY, holding.why
    if not holding.injected:
        return BufferState.IDLE, "its pods are not planned for now"
    if holding.missing:
        return BufferState.SHORT, holding.why
    return (BufferState.COMING if holding.coming else BufferState.FULL), ""


def _shape(buffer: CapacityBuffer) -> str:
    """What the pods are like, by name."""
    spec = buffer.spec
    if spec.scalable_ref is not None:
        return f"{spec.scalable_ref.kind} {spec.scalable_ref.name}"
    return f"PodTemplate {spec.pod_template_ref.name}" if spec.pod_template_ref is not None else ""
