"""A simulation's result in numbers, for people and for programs."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.console import Console

from nodewright.actuation.removals.deleter import REMOVAL
from nodewright.adapters.simulated.result import OTHER_TROUBLES, SCALE_UP_FAILURES, Decision, SimulationResult
from nodewright.cli.screen import count, make_table, safe
from nodewright.cli.simulation.removals import scale_down_in_words, scale_down_json
from nodewright.cli.simulation.troubles import Interruptions, sum_interruptions

SCHEMA = 1
FAILURE_EVENTS = (*SCALE_UP_FAILURES, *OTHER_TROUBLES)
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
_MOST_GROUPS = 30


@dataclass(frozen=True, kw_only=True)
class GroupSums:
    """What one group went through, as ``--output json`` has it. ``peak`` and ``last`` count nodes, ``asked`` and
    ``failed`` machines, ``failed_calls`` writes of every kind that were refused or never answered.
    """

    group: str
    asked: int
    failed: int
    failed_calls: int
    peak: int
    last: int


def sum_groups(result: SimulationResult) -> tuple[GroupSums, ...]:
    """Groups that had a node or were asked for one, the largest first."""
    asked, failed, refused = Counter[str](), Counter[str](), Counter[str]()
    for decision in result.decisions:
        refused[decision.group] += decision.outcome in ("refused", "unknown")
        if decision.what == "increase":
            asked[decision.group] += max(0, decision.after - decision.before)
        elif not decision.message.startswith(REMOVAL):  # what is withdrawn or deleted otherwise never came up
            failed[decision.group] += max(0, decision.before - decision.after)
    peaks = {group: max(counts, default=0) for group, counts in result.series.nodes.items()}
    found = [
        GroupSums(
            group=group,
            asked=asked[group],
            failed=failed[group],
            failed_calls=refused[group],
            peak=peaks.get(group, 0),
            last=result.final.nodes.get(group, 0),
        )
        for group in dict.fromkeys([*asked, *refused, *peaks])
    ]
    return tuple(sorted(found, key=lambda sums: (-sums.peak, -sums.asked, sums.group)))


def as_json(result: SimulationResult, report: str | None) -> dict[str, Any]:
    """The document of ``--output json``; docs/commands.md describes it."""
    waiting, still, interruptions = result.waiting, result.still_waiting, sum_interruptions(result)
    hours = result.node_hours
    return {
        "schema": SCHEMA,
        "title": result.title,
        "start": result.start,
        "end": result.end,
        "loops": result.loops,
        "happenings": result.happenings,
        "pods": {
            "started": waiting.pods - still.pods,
            "pending": result.final.pending,
            "running": result.final.running,
        },
        "waiting_seconds": {
            "p50": waiting.p50,
            "p90": waiting.p90,
            "p95": waiting.p95,
            "p99": waiting.p99,
            "longest": waiting.longest,
        },
        "still_waiting": {"pods": still.pods, "p50": still.p50, "longest": still.longest},
        "node_hours": {"used": hours.used, "busy": hours.busy, "oracle": hours.oracle},
        "cost_usd": result.cost,
        "machines_asked": result.increases,
        "machines_hedged": result.hedged,
        "scale_down": scale_down_json(result),
        "failures": {reason: len(list(failures(result, reason))) for reason in FAILURE_EVENTS},
        "refused_deletions": interruptions.refused_deletions,
        "pauses": interruptions.pauses,
        "engine": {
            "crashes": interruptions.crashes,
            "stops": interruptions.stops,
            "restarts": interruptions.restarts,
        },
        "groups": [asdict(sums) for sums in sum_groups(result)],
        "problems": list(result.problems),
        "violations": list(result.violations),
        "audit": [msgspec.structs.asdict(record) for record in result.audit],
        "report": report,
    }


def failures(result: SimulationResult, *reasons: str) -> Iterator[tuple[float, str]]:
    """When something failed, and what was said of it."""
    wanted = reasons or FAILURE_EVENTS
    return ((timed.at, timed.event.message) for timed in result.events if timed.event.reason in wanted)


def increases(result: SimulationResult) -> Iterator[Decision]:
    """The scale-ups that a cloud accepted, at least in part."""
    return (
        decision for decision in result.decisions if decision.what == "increase" and decision.after > decision.before
    )


def print_result(console: Console, result: SimulationResult, description: str = "") -> None:
    """The totals, then each group."""
    console.print(safe(result.title, "bold"))
    if description:
        console.print(safe(description))
    table = make_table("", "", "")
    table.title, table.show_header = None, False
    for name, value in _totals(result):
        table.add_row(safe(name, "dim"), safe(value))
    console.print(table)
    _print_groups(console, result)
    for violation in result.violations:
        console.print(safe(f"a planned action broke a rule: {violation}", "red"))
    for problem, times in Counter(result.problems).items():
        console.print(safe(f"{count(times, 'loop')}: {problem}", "red"))


def _print_groups(console: Console, result: SimulationResult) -> None:
    groups = sum_groups(result)
    if not groups:
        return
    numbers = ("peak", "at the end", "asked for", "failed", "refused")
    table = make_table("Nodes by group", "group", *numbers, right=numbers)
    for sums in groups[:_MOST_GROUPS]:
        values = (sums.peak, sums.last, sums.asked, sums.failed, sums.failed_calls)
        table.add_row(safe(sums.group), *(safe(f"{value:,}") for value in values))
    console.print(table)
    if len(groups) > _MOST_GROUPS:
        console.print(safe(f"{count(len(groups) - _MOST_GROUPS, 'smaller group')}: see --output json"))


def _totals(result: SimulationResult) -> Iterator[tuple[str, str]]:
    waiting, still, hours = result.waiting, result.still_waiting, result.node_hours
    span, moments = format_span(result.end - result.start), count(result.happenings, "moment")
    yield "time", f"{span} of virtual time, {moments} of change, {count(result.loops, 'loop')}"
    yield (
        "pods",
        f"{waiting.pods - still.pods:,} started, {result.final.running:,} run at the end, {result.final.pending:,} wait",
    )
    percentiles = ", ".join(f"p{rank} {format_span(value)}" for rank, value in _percentiles(result))
    yield "waiting", f"{percentiles}, longest {format_span(waiting.longest)}"
    if still.pods:
        yield "still waiting", f"{count(still.pods, 'pod')} at the end, longest {format_span(still.longest)} so far"
    hedges = f", {result.hedged:,} of them hedges" if result.hedged else ""
    yield "scale-ups", f"{count(len(list(increases(result))), 'call')} for {count(result.increases, 'machine')}{hedges}"
    if result.removals:
        yield "scale-down", scale_down_in_words(result)
    yield "failures", _failures_in_words(result)
    yield from _interruptions_in_words(sum_interruptions(result))
    yield "node-hours", _hours_in_words(hours.used, hours.busy, hours.oracle)
    if result.cost is not None:
        yield "cost", f"${result.cost:,.2f}"


def _percentiles(result: SimulationResult) -> tuple[tuple[int, float], ...]:
    waiting = result.waiting
    return (50, waiting.p50), (90, waiting.p90), (95, waiting.p95), (99, waiting.p99)


def _failures_in_words(result: SimulationResult) -> str:
    counts = [(reason, len(list(failures(result, reason)))) for reason in FAILURE_EVENTS]
    return ", ".join(f"{number:,} {reason}" for reason, number in counts if number) or "none"


def _interruptions_in_words(found: Interruptions) -> Iterator[tuple[str, str]]:
    if found.refused_deletions:
        yield "deletions", f"{count(found.refused_deletions, 'call')} refused, or never answered"
    if found.pauses:
        yield "pauses", f"{found.pauses:,} of all writes to clouds"
    if found.crashes or found.stops:
        ends = [f"died {count(found.crashes, 'time')}"] if found.crashes else []
        ends += [f"was moved {count(found.stops, 'time')}"] if found.stops else []
        yield "the engine", f"{', '.join(ends)}, started again {count(found.restarts, 'time')}"


def _hours_in_words(used: float, busy: float, oracle: float) -> str:
    share = f"; each group's peak all the time: {oracle:,.1f}" if oracle else ""
    return f"{used:,.1f}, {busy:,.1f} with pods{share}"


def format_span(seconds: float) -> str:
    """``45 s``, ``3.5 min``, ``149.3 d``."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.0f} s"


def format_clock(epoch_seconds: float) -> str:
    """The time of day."""
    return datetime.fromtimestamp(epoch_seconds, tz=UTC).strftime("%H:%M:%S")
