"""ProvisioningRequests and CapacityBuffers as ``status``, ``plan`` and ``explain`` show them."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from rich.console import Console

from nodewright.cli.dry_run.dry_run import DryRun
from nodewright.cli.screen import count, make_table, safe
from nodewright.model.action import CreateNodeGroup, IncreaseSize
from nodewright.model.duration import format_duration, format_moment
from nodewright.model.plan import Expansion
from nodewright.planner.explain import BufferFacts, BufferState, RequestFacts, RequestPhase

_REQUEST_STYLES = {
    RequestPhase.BOOKED: "green",
    RequestPhase.CONSUMED: "green",
    RequestPhase.WAITING: "yellow",
    RequestPhase.REVOKED: "red",
    RequestPhase.FAILED: "red",
    RequestPhase.EXPIRED: "dim",
}
# Rows of a table; --output json has all.
_MOST = 30
_OVER = (RequestPhase.CONSUMED, RequestPhase.EXPIRED, RequestPhase.REVOKED, RequestPhase.FAILED)


def print_requests(console: Console, requests: Sequence[RequestFacts], now: float) -> None:
    """Print the requests: first those that have not ended, each part with the oldest first."""
    if not requests:
        return
    table = make_table("Requests for capacity", "request", "class", "pods", "", "since", "why", right=("pods",))
    shown = sorted(requests, key=lambda one: (one.phase in _OVER, one.since, one.request))
    for one in shown[:_MOST]:
        state = safe(one.phase, _REQUEST_STYLES.get(one.phase, ""))
        since = safe(format_duration(round(max(0.0, now - one.since))))
        table.add_row(
            safe(one.request, "bold"),
            safe(one.class_name),
            safe(f"{one.pods:,}"),
            state,
            since,
            safe(request_line(one, now)),
        )
    console.print(table)
    if len(shown) > _MOST:
        console.print(safe(f"{count(len(shown) - _MOST, 'request')} more: see --output json"), end="\n\n")


def request_expansions(dry_run: DryRun) -> Iterator[Expansion]:
    """Yield how much groups grow for atomic ProvisioningRequests."""
    most = {ref: group.seen.group.max_size for ref, group in dry_run.state.groups.items()}
    most |= {
        action.group: action.spec.max_size for action in dry_run.plan.actions if isinstance(action, CreateNodeGroup)
    }
    for action in dry_run.plan.actions:
        if isinstance(action, IncreaseSize) and action.request is not None and not action.request.is_gang:
            yield Expansion(
                group=action.group,
                current=action.expected_target,
                target=action.target,
                maximum=most[action.group],
            )


def request_line(one: RequestFacts, now: float) -> str:
    """Return what the request's condition says, until when its room is held, and when it is tried again."""
    said = one.message or one.reason
    parts = [said] if said else ["it has no condition yet"]
    if one.booked_until is not None:
        of = f"for {count(one.held, 'pod')} " if one.held is not None else ""
        parts.append(f"room is held {of}until {format_moment(one.booked_until)}")
    if one.next_try is not None:
        parts.append(f"looked at again after {format_moment(max(now, one.next_try))}")
    return "; ".join(part.rstrip(".") for part in parts)


def request_json(one: RequestFacts) -> dict[str, Any]:
    """Return a request for ``--output json``: times as texts, null where there is none."""
    return {
        "request": one.request,
        "class": one.class_name,
        "pods": one.pods,
        "state": one.phase.value,
        "since": format_moment(one.since),
        "reason": one.reason or None,
        "message": one.message or None,
        "booked_until": _moment(one.booked_until),
        "held_pods": one.held,
        "next_try_at": _moment(one.next_try),
    }


def _moment(at: float | None) -> str | None:
    return format_moment(at) if at is not None else None


_BUFFER_STYLES = {
    BufferState.FULL: "green",
    BufferState.COMING: "yellow",
    BufferState.SHORT: "red",
    BufferState.ERROR: "red",
}


def print_buffers(console: Console, buffers: Sequence[BufferFacts]) -> None:
    """Print the buffers; those that lack room come first."""
    if not buffers:
        return
    table = make_table("Spare capacity", "buffer", "pods like", "pods", "there", "", "why", right=("pods", "there"))
    shown = sorted(buffers, key=lambda one: (one.state in (BufferState.FULL, BufferState.EMPTY), one.buffer))
    for one in shown[:_MOST]:
        state = safe(one.state, _BUFFER_STYLES.get(one.state, ""))
        cells = (safe(one.shape), safe(f"{one.pods:,}"), safe(f"{one.held:,}"), state, safe(buffer_line(one)))
        table.add_row(safe(one.buffer, "bold"), *cells)
    console.print(table)
    if len(shown) > _MOST:
        console.print(safe(f"{count(len(shown) - _MOST, 'buffer')} more: see --output json"), end="\n\n")


def buffer_line(one: BufferFacts) -> str:
    """Return what is on its way, what is missing, and why."""
    coming = f"room for {count(one.coming, 'pod')} is on its way" if one.coming else ""
    missing = f"{count(one.missing, 'pod')} without room" if one.missing else ""
    return "; ".join(filter(None, (coming, ": ".join(filter(None, (missing, one.why))))))


def buffer_json(one: BufferFacts) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(one)
    return fields | {"why": one.why or None}


def buffer_expansions(dry_run: DryRun) -> Iterator[Expansion]:
    """Yield how much groups grow for buffers."""
    return (expansion for report in dry_run.plan.spare for expansion in report.expansions)
