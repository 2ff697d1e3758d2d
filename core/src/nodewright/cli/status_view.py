"""The status as ``nodewright status`` shows it, as a table or as JSON."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from nodewright.cli.capacity_view import buffer_json, print_buffers, print_requests, request_json
from nodewright.cli.screen import count, make_table, name_some, safe
from nodewright.clusterstate.memory import Backoff, Deferral, HeldNotice, ScaleUpRequest, UnhealthyCluster
from nodewright.clusterstate.readiness import describe_unhealthy
from nodewright.engine.status import BudgetStatus, Detection, GroupStatus, StatusReport
from nodewright.model.duration import format_duration, format_moment
from nodewright.model.plan import OutdatedNode
from nodewright.model.removal import Removing

SCHEMA = 1


def print_status(console: Console, report: StatusReport) -> None:
    """Print what is unusual or under way, then every group."""
    console.print(safe(f"Status as of {format_moment(report.now)}", "bold"))
    if report.pause is not None:
        left = _left(report.pause.until, report)
        console.print(safe(f"Writes to clouds are {report.pause}, for another {left}.", "bold yellow"))
    if report.unhealthy is not None:
        said = describe_unhealthy(report.unhealthy, report.now)
        since = format_duration(round(report.now - report.unhealthy.since))
        console.print(safe(f"For {since} the {said}.", "bold yellow"))
    budget, of_empty = report.deletions, report.empty_deletions
    console.print(
        safe(
            f"Deletion budget of the cluster: {used_budget(budget)}."
            if budget.window
            else "There is no limit to deletions."
        )
    )
    if of_empty.used:
        console.print(safe(f"Empty nodes have a budget of their own: {used_budget(of_empty)}."))
    _print_nodes(console, report)
    print_requests(console, report.capacity or (), report.now)
    print_buffers(console, report.buffers or ())
    if not report.groups:
        return
    table = make_table("Node groups", "group", "size", "failures are found", "under way", "not grown", right=("size",))
    for group in report.groups:
        waiting = Text("\n").join(safe(line) for line in list_under_way(group, report))
        limit = why_limited(group, report)
        style = "yellow" if limit else ""
        cells = (safe(_size(group)), safe(_found(group.detection)), waiting, safe(limit, style))
        table.add_row(Text("\n").join(_names(group)), *cells)
    console.print(table)


def _notice(notice: HeldNotice) -> str:
    when = f"at {format_moment(notice.deadline)}" if notice.deadline is not None else "without a deadline"
    return f"{notice.instance_id} ({notice.kind}, {when})"


def _print_nodes(console: Console, report: StatusReport) -> None:
    """Print the nodes that are leaving or may be removed, and the moves."""
    if report.unneeded:
        named = name_some([f"{node} for {_since(at, report)}" for node, at in sorted(report.unneeded.items())])
        console.print(safe(f"{count(len(report.unneeded), 'node')} not needed: {named}."))
    if report.removing:
        named = name_some([_on_its_way(held, report) for held in report.removing], most=10)
        console.print(safe(f"{count(len(report.removing), 'node')} on the way out: {named}."))
    if report.notices:
        named = name_some([_notice(notice) for _, notice in report.notices], most=10)
        console.print(safe(f"{count(len(report.notices), 'machine')} about to be taken by a cloud: {named}."))
    for move in report.moves:
        console.print(safe(f"{move.describe()}; for {_since(move.started, report)} now."))
    if report.outdated:
        named = name_some([_outdated(one) for one in report.outdated], most=10)
        console.print(safe(f"{count(len(report.outdated), 'node')} to be replaced: {named}."))


def _outdated(one: OutdatedNode) -> str:
    return f"{one.node} ({one.why}{f'; not now: {one.held}' if one.held else ''})"


def _names(group: GroupStatus) -> Iterator[Text]:
    yield safe(group.ref, "bold")
    if group.autoprovisioned:
        yield safe(f"created by the autoscaler, of machine type {group.autoprovisioned}", "dim")


def as_json(report: StatusReport) -> dict[str, Any]:
    """Return the document of ``--output json``. docs/commands.md describes its keys; keys are only ever added."""
    return {
        "schema": SCHEMA,
        "now": format_moment(report.now),
        "paused_until": format_moment(report.pause.until) if report.pause is not None else None,
        "unhealthy": None if report.unhealthy is None else _unhealthy(report.unhealthy, report.now),
        "deletions": _budget(report.deletions),
        "empty_deletions": _budget(report.empty_deletions),
        "unneeded": {node: format_moment(since) for node, since in sorted(report.unneeded.items())},
        "removals": [_removal(held) for held in report.removing],
        "interruptions": [
            {
                "instance": notice.instance_id,
                "group": str(ref),
                "kind": notice.kind,
                "since": format_moment(notice.since),
                "deadline": format_moment(notice.deadline) if notice.deadline is not None else None,
            }
            for ref, notice in report.notices
        ],
        "moves": [
            {
                "id": move.id,
                "reason": move.reason.value,
                "stage": move.stage.value,
                "sources": list(move.sources),
                "removed": list(move.removed),
                "added": {str(one.group): one.nodes for one in move.added},
                "started_at": format_moment(move.started),
                "deadline": format_moment(move.deadline),
                "savings_per_hour": move.savings,
                "score": move.score,
            }
            for move in report.moves
        ],
        "outdated": None
        if report.outdated is None
        else [
            {
                "node": one.node,
                "group": str(one.group),
                "reason": one.reason.value,
                "why": one.why,
                "held": one.held or None,
            }
            for one in report.outdated
        ],
        "groups": [_group(group, report.now) for group in report.groups],
        "capacity_requests": None if report.capacity is None else [request_json(one) for one in report.capacity],
        "capacity_buffers": None if report.buffers is None else [buffer_json(one) for one in report.buffers],
    }


def _unhealthy(unhealthy: UnhealthyCluster, now: float) -> dict[str, Any]:
    return {
        "since": format_moment(unhealthy.since),
        "unready": unhealthy.unready,
        "nodes": unhealthy.nodes,
        "tolerated": unhealthy.tolerated,
        "at_fault": [str(ref) for ref in unhealthy.at_fault],
        "resumes_at": format_moment(unhealthy.resumes_at) if unhealthy.resumes_at else None,
        "message": describe_unhealthy(unhealthy, now),
    }


def _group(group: GroupStatus, now: float) -> dict[str, Any]:
    found = group.detection
    return {
        "group": str(group.ref),
        "provider": group.ref.provider,
        "id": group.ref.group_id,
        "min": group.min_size,
        "max": group.max_size,
        "target": group.target,
        "failure_detection": found and {
            "fast": found.fast, "timeout_seconds": found.timeout, "learned": found.learned, "why_not_fast": found.why_not or None
        },
        "requests": [_request(request, now) for request in group.requests],
        "given_up": group.given_up,
        "unregistered": group.unregistered,
        "late": group.late,
        "disputed": group.disputed,
        "next_late_at": format_moment(group.next_late) if group.next_late is not None else None,
        "backoff": _backoff(group.backoff, now) if group.backoff is not None else None,
        "deferral": _deferral(group.deferral, now) if group.deferral is not None else None,
        "probation": {"at_most": group.probation} if group.probation is not None else None,
        "deleted": group.deleted,
        "quarantined_until": format_moment(group.quarantined_until) if group.quarantined_until is not None else None,
        "autoprovisioned": group.autoprovisioned or None,
    }  # fmt: skip


def _removal(held: Removing) -> dict[str, Any]:
    removal = held.removal
    return {
        "node": removal.node,
        "group": str(removal.group),
        "reason": removal.reason.value,
        "pods": list(removal.pods),
        "stage": held.stage.value,
        "started_at": format_moment(held.started),
    }


def _request(request: ScaleUpRequest, now: float) -> dict[str, Any]:
    return {
        "owed": request.increase,
        "asked_at": format_moment(request.started),
        "given_up_at": format_moment(request.deadline),
        "seconds_left": max(0.0, request.deadline - now),
    }


def _backoff(backoff: Backoff, now: float) -> dict[str, Any]:
    return {
        "until": format_moment(backoff.until),
        "seconds_left": max(0.0, backoff.until - now),
        "error_class": backoff.error_class.value,
        "code": backoff.code,
        "message": backoff.message,
        "shared_from": backoff.shared_from or None,
    }


def _deferral(deferral: Deferral, now: float) -> dict[str, Any]:
    return {
        "until": format_moment(deferral.until),
        "seconds_left": max(0.0, deferral.until - now),
        "times": deferral.times,
        "code": deferral.code,
        "message": deferral.message,
    }


def _budget(budget: BudgetStatus) -> dict[str, Any]:
    return {"used": budget.used, "limit": budget.limit, "window_seconds": budget.window}


def used_budget(budget: BudgetStatus) -> str:
    """Return how much of a budget is used."""
    limit = f" of {budget.limit:,}" if budget.limit is not None else ""
    return f"{budget.used:,}{limit} used within {format_duration(budget.window)}"


def _size(group: GroupStatus) -> str:
    target = "?" if group.target is None else f"{group.target:,}"
    return f"{target} ({group.min_size:,}–{group.max_size:,})" if group.detection is not None else target  # noqa: RUF001


def _found(detection: Detection | None) -> str:
    if detection is None:
        return "not known yet"
    timeout = format_duration(round(detection.timeout)) + (", learned" if detection.learned else "")
    if detection.fast:
        return f"at once (overdue after {timeout})"
    return f"when overdue, after {timeout}: {detection.why_not}"


def list_under_way(group: GroupStatus, report: StatusReport) -> Iterator[str]:
    """Yield what is under way in a group."""
    for request in group.requests:
        end = f"given up in {_left(request.deadline, report)}" if request.deadline > report.now else "overdue"
        yield f"{count(request.increase, 'machine')} owed, {end}"
    if group.unregistered:
        late = f", {group.late:,} of them for too long" if group.late else ""
        end = f", the next given up in {_left(group.next_late, report)}" if group.next_late is not None else ""
        yield f"{count(group.unregistered, 'instance')} without a node{late}{end}"
    if group.disputed:
        yield f"{count(group.disputed, 'machine')} that ran, called failed by the cloud"
    if group.given_up:
        yield f"{count(group.given_up, 'machine')} given up"
    if group.deleted:
        yield f"{count(group.deleted, 'machine')} charged to the deletion budget"


def why_limited(group: GroupStatus, report: StatusReport) -> str:
    """Return for how long the group is not grown, or with how few machines it is tried."""
    backoff = group.backoff
    if backoff is not None:
        why = ": ".join(filter(None, (backoff.code or backoff.error_class.value, backoff.message)))
        with_whom = f" with {backoff.shared_from}" if backoff.shared_from else ""
        return f"for {_left(backoff.until, report)}{with_whom}: {why}"
    if group.deferral is not None:
        why = f"{group.deferral.code}: {group.deferral.message}"
        return f"deferred for {_left(group.deferral.until, report)} because the cloud is busy: {why}"
    if group.probation is not None:
        return f"on probation: at most {count(group.probation, 'machine')} until it delivers"
    if group.quarantined_until is not None:
        left = _left(group.quarantined_until, report)
        return f"no node is removed for {left}: the last deletion took other machines with it"
    return ""


def _on_its_way(held: Removing, report: StatusReport) -> str:
    return f"{held.removal.node} ({held.removal.reason}, {held.stage}, for {_since(held.started, report)})"


def _since(at: float, report: StatusReport) -> str:
    return format_duration(round(max(0.0, report.now - at)))


def _left(until: float, report: StatusReport) -> str:
    return format_duration(round(max(0.0, until - report.now)))
