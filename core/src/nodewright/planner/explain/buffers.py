"""Describe the state of CapacityBuffers, from what was planned for them."""

from enum import StrEnum

import msgspec

from nodewright.model.capacity_buffer import LIMITED, READY, CapacityBuffer
from nodewright.model.plan import BufferAllocation, Plan


class BufferState(StrEnum):
    """How much of the spare capacity exists.

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
    return tuple(sorted(map(_facts, plan.buffers.allocations), key=lambda one: one.buffer))


def _facts(allocation: BufferAllocation) -> BufferFacts:
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
