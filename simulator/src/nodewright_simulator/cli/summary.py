"""A simulation's result in numbers, for people and for programs."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.console import Console

from nodewright.actuation.drain import REMOVAL_REASON_PREFIX
from nodewright.cli.screen import count, make_table, safe
from nodewright.clusterstate.backoff import NO_MACHINE
from nodewright.model.removal import RemovalEnded, RemovalResult
from nodewright_simulator.journal import Fact, What
from nodewright_simulator.result import OTHER_TROUBLES, SCALE_UP_FAILURES, Decision, SimulationResult


def scale_down_in_words(result: SimulationResult) -> str:
    """Return ``4 nodes removed (3 empty, 1 underutilized), 5 pods evicted; not removed: 1 FailedToEvictPods``."""
    removed = [over for over in result.removals if over.result == RemovalResult.OK]
    reasons = ", ".join(f"{number} {reason}" for reason, number in _reasons(removed).items())
    said = f"{count(len(removed), 'node')} removed{f' ({reasons})' if reasons else ''}, "
    said += f"{count(_evictions(result), 'pod')} evicted"
    failed = Counter(str(over.result) for over in result.removals if over.result != RemovalResult.OK)
    listed = ", ".join(f"{number} {what}" for what, number in sorted(failed.items()))
    return f"{said}; not removed: {listed}" if listed else said


def scale_down_json(result: SimulationResult) -> dict[str, Any]:
    """Return the part about scale-down of ``--output json``."""
    removed = [over for over in result.removals if over.result == RemovalResult.OK]
    return {
        "removed": dict(_reasons(removed)),
        "evicted": _evictions(result),
        "removals": list(_each(result)),
    }


def _each(result: SimulationResult) -> Iterator[dict[str, Any]]:
    for over in result.removals:
        yield {
            "node": over.removal.node,
            "group": str(over.removal.group),
            "reason": str(over.removal.reason),
            "started": over.started,
            "ended": over.at,
            "result": str(over.result),
            "message": over.message,
            "evicted": list(over.evicted),
        }
    for removing, at in result.interrupted:
        node = removing.removal.node
        evicted = list(_evicted(result, node, removing.started, at))
        if any(
            over.removal.node == node and over.at >= at and {*evicted} <= {*over.evicted} for over in result.removals
        ):
            continue  # the next engine went on with it
        yield {
            "node": node,
            "group": str(removing.removal.group),
            "reason": str(removing.removal.reason),
            "started": removing.started,
            "ended": None,
            "result": "Interrupted",
            "message": "the engine or the run ended before it did",
            "evicted": evicted,
        }


def _evicted(result: SimulationResult, node: str, since: float, until: float) -> Iterator[str]:
    for fact in result.journal:
        if fact.what == What.POD_EVICTED and fact.where == node and since <= fact.at <= until:
            yield fact.name


def _reasons(removed: list[RemovalEnded]) -> Counter[str]:
    return Counter(str(over.removal.reason) for over in removed)


def _evictions(result: SimulationResult) -> int:
    return sum(fact.what == What.POD_EVICTED for fact in result.journal)


_PAUSED = "Paused"
# Facts about the engine's process that the table of troubles lists, and their texts.
_INTERRUPTIONS = {
    What.ENGINE_CRASHED: "the engine died",
    What.ENGINE_STOPPED: "the engine's pod was moved",
}


@dataclass(frozen=True, kw_only=True)
class Interruptions:
    """How often the engine was kept from its work; ``refused_deletions`` counts calls, those without answer too."""

    refused_deletions: int
    pauses: int
    crashes: int
    stops: int
    restarts: int


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """One kind of trouble: when it was first met (epoch seconds), how often, and what was said then."""

    at: float
    what: str
    times: int
    message: str


def sum_interruptions(result: SimulationResult) -> Interruptions:
    """Return the totals of the run."""
    facts = Counter(fact.what for fact in result.journal)
    refused = sum(d.what == "delete" and d.outcome in ("refused", "unknown") for d in result.decisions)
    return Interruptions(
        refused_deletions=refused,
        pauses=facts[What.PAUSED],
        crashes=facts[What.ENGINE_CRASHED],
        stops=facts[What.ENGINE_STOPPED],
        restarts=max(0, facts[What.ENGINE_STARTED] - 1),
    )


def find_troubles(result: SimulationResult) -> Iterator[Trouble]:
    """Yield each kind of trouble once, in the order in which they first occurred. For a pause the engine's event counts."""
    met = [(held.at, held.event.reason, held.event.message) for held in result.events if held.event.reason in _TOLD]
    met += [(fact.at, _INTERRUPTIONS[fact.what], _back(result, fact.at)) for fact in _deaths(result)]
    times = Counter(what for _, what, _ in met)
    first: dict[str, tuple[float, str]] = {}
    for at, what, message in sorted(met, key=lambda one: one[0]):
        first.setdefault(what, (at, message))
    for what, (at, message) in first.items():
        yield Trouble(at=at, what=what, times=times[what], message=message)


def _deaths(result: SimulationResult) -> Iterator[Fact]:
    return (fact for fact in result.journal if fact.what in _INTERRUPTIONS)


def _back(result: SimulationResult, died: float) -> str:
    """Return in words how long after its end the engine ran again."""
    starts = (fact.at for fact in result.journal if fact.what == What.ENGINE_STARTED and fact.at >= died)
    back = next(starts, None)
    return f"there again {back - died:,.0f} s later" if back is not None else "not there again"


_TOLD = frozenset({*OTHER_TROUBLES, _PAUSED})

SCHEMA = 1
FAILURE_EVENTS = (*SCALE_UP_FAILURES, *OTHER_TROUBLES)
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
_MOST_GROUPS = 30


@dataclass(frozen=True, kw_only=True)
class GroupSums:
    """Totals of one group, as in ``--output json``.

    ``peak`` and ``last`` count nodes, ``asked`` and ``failed`` machines, ``failed_calls`` writes of every kind that were
    refused or timed out.
    """

    group: str
    asked: int
    failed: int
    failed_calls: int
    peak: int
    last: int


def sum_groups(result: SimulationResult) -> tuple[GroupSums, ...]:
    """Return the groups that had a node or were asked for one, the largest first."""
    asked, failed, refused = Counter[str](), Counter[str](), Counter[str]()
    for decision in result.decisions:
        refused[decision.group] += decision.outcome in ("refused", "unknown")
        if decision.what == "increase":
            asked[decision.group] += max(0, decision.after - decision.before)
        # Machines that were withdrawn, or deleted for another reason, never became nodes.
        elif not decision.message.startswith(REMOVAL_REASON_PREFIX):
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
    """Return the document of ``--output json``; docs/commands.md describes it."""
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
        "least_cost_usd": result.least_cost.usd if result.least_cost is not None else None,
        "cost_over_least": result.least_cost.ratio if result.least_cost is not None else None,
        "price_sources": list(result.price_sources),
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
    """Yield when something failed, and the message."""
    wanted = reasons or FAILURE_EVENTS
    return ((timed.at, timed.event.message) for timed in result.events if timed.event.reason in wanted)


def increases(result: SimulationResult) -> Iterator[Decision]:
    """Yield the scale-ups that a cloud accepted, at least in part."""
    return (
        decision for decision in result.decisions if decision.what == "increase" and decision.after > decision.before
    )


def print_result(console: Console, result: SimulationResult, description: str = "") -> None:
    """Print the totals, then each group."""
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
        yield "cost", _cost_in_words(result.cost, result)


def _cost_in_words(cost: float, result: SimulationResult) -> str:
    least, by = result.least_cost, f" by {' and '.join(result.price_sources)}" if result.price_sources else ""
    beside = f"; {least.ratio:.2f} × the lower bound of ${least.usd:,.2f}" if least is not None else ""
    return f"${cost:,.2f}{by}{beside}"


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
    """Return ``45 s``, ``3.5 min``, ``149.3 d``."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.0f} s"


def format_clock(epoch_seconds: float) -> str:
    """Return the time of day."""
    return datetime.fromtimestamp(epoch_seconds, tz=UTC).strftime("%H:%M:%S")


_SOON_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class FailedScaleUp:
    """A failure: the scale-up that it befell, and the one that came instead, if any; times in epoch seconds."""

    at: float
    message: str
    before: Decision
    instead: Decision | None

    @property
    def seen_after(self) -> float:
        """Seconds from the call to the failure being noticed."""
        return self.at - self.before.at


def find_failed_scale_ups(result: SimulationResult) -> Iterator[FailedScaleUp]:
    """Yield every failed scale-up whose course is known, in order of time."""
    grown = list(increases(result))
    asked = [step for step in result.decisions if step.what == "increase"]
    for at, message in failures(result, *SCALE_UP_FAILURES):
        befallen = [step for step in asked if _is_befallen(step, at, message)]
        if befallen:
            after = (step for step in grown if at <= step.at <= at + _SOON_SECONDS and step.group != befallen[-1].group)
            yield FailedScaleUp(at=at, message=message, before=befallen[-1], instead=next(after, None))


def _is_befallen(step: Decision, at: float, message: str) -> bool:
    """Return whether the failure may be that of this call. A refused call fails at once, with the cloud's message."""
    if not any(f"group {step.group}{after}" in message for after in " :"):
        return False
    return step.at < at if step.after > step.before else step.at <= at and message.endswith(step.message or NO_MACHINE)


def print_setbacks(console: Console, result: SimulationResult) -> None:
    """Print the first failed scale-up step by step, and how many there were."""
    setbacks = list(find_failed_scale_ups(result))
    if not setbacks:
        return
    first = setbacks[0]
    table = make_table("The first failure", "at", "", "what happened")
    table.show_header = False
    table.add_row(safe(format_clock(first.before.at)), safe("asked", "green"), safe(_say(first.before)))
    seen = f"seen {format_span(first.seen_after)} after the call"
    table.add_row(safe(format_clock(first.at)), safe("failed", "red"), safe(f"{seen}: {first.message}"))
    if first.instead is not None:
        table.add_row(safe(format_clock(first.instead.at)), safe("instead", "green"), safe(_say(first.instead)))
    console.print(table)
    if len(setbacks) > 1:
        console.print(safe(f"{count(len(setbacks) - 1, 'more failure')} later.", "dim"), end="\n\n")


def print_troubles(console: Console, result: SimulationResult) -> None:
    """Print each kind of trouble beside failed scale-ups: its first time, how often, and the first message."""
    troubles = list(find_troubles(result))
    if not troubles:
        return
    table = make_table("What else happened", "first at", "times", "what", "said first", right=("times",))
    for trouble in troubles:
        cells = (format_clock(trouble.at), f"{trouble.times:,}", trouble.what, trouble.message)
        table.add_row(*(safe(cell) for cell in cells))
    console.print(table)


def _say(step: Decision) -> str:
    if step.after == step.before:
        return f"{step.group} to grow from {step.before}, for {count(step.pods, 'pod')}"
    return f"{step.group} {step.before} → {step.after}, for {count(step.pods, 'pod')}"
