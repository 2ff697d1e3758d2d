"""Requests for capacity, for people and for programs: the same in ``status``, ``plan`` and ``explain``."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console

from nodewright.cli.dry_run.trial import Trial
from nodewright.cli.screen import count, make_table, safe
from nodewright.model.action import CreateNodeGroup, IncreaseSize
from nodewright.model.duration import format_duration
from nodewright.model.timestamps import format_moment
from nodewright.planner.explain import RequestFacts, RequestPhase
from nodewright.planner.plan import Expansion

_STYLES = {
    RequestPhase.BOOKED: "green",
    RequestPhase.CONSUMED: "green",
    RequestPhase.WAITING: "yellow",
    RequestPhase.REVOKED: "red",
    RequestPhase.FAILED: "red",
    RequestPhase.EXPIRED: "dim",
}
# A table is no list of five thousand requests.
_MOST = 30
_OVER = (RequestPhase.CONSUMED, RequestPhase.EXPIRED, RequestPhase.REVOKED, RequestPhase.FAILED)


def print_requests(console: Console, requests: Sequence[RequestFacts], now: float) -> None:
    """Those that are not over first, the oldest before the others."""
    if not requests:
        return
    table = make_table("Requests for capacity", "request", "class", "pods", "", "since", "why", right=("pods",))
    shown = sorted(requests, key=lambda one: (one.phase in _OVER, one.since, one.request))
    for one in shown[:_MOST]:
        state = safe(one.phase, _STYLES.get(one.phase, ""))
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


def request_expansions(trial: Trial) -> Iterator[Expansion]:
    """What groups grow by for requests of all or nothing."""
    most = {ref: group.seen.group.max_size for ref, group in trial.state.groups.items()}
    most |= {action.group: action.spec.max_size for action in trial.plan.actions if isinstance(action, CreateNodeGroup)}
    for action in trial.plan.actions:
        if isinstance(action, IncreaseSize) and action.request is not None:
            yield Expansion(
                group=action.group,
                current=action.expected_target,
                target=action.target,
                maximum=most[action.group],
            )


def request_line(one: RequestFacts, now: float) -> str:
    """What its condition says, until when its room is held, and when it is looked at again."""
    said = one.message or one.reason
    parts = [said] if said else ["nobody has said anything about it"]
    if one.booked_until is not None:
        of = f"for {count(one.held, 'pod')} " if one.held is not None else ""
        parts.append(f"room is held {of}until {format_moment(one.booked_until)}")
    if one.next_try is not None:
        parts.append(f"looked at again after {format_moment(max(now, one.next_try))}")
    return "; ".join(part.rstrip(".") for part in parts)


def request_json(one: RequestFacts) -> dict[str, Any]:
    """Times as texts, null where there is none."""
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
