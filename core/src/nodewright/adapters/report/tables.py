"""The tables of a report; every cell is escaped."""

from collections.abc import Iterable, Sequence
from html import escape

from nodewright.adapters.report.axis import TimeAxis
from nodewright.adapters.simulated.result import OTHER_TROUBLES, SCALE_UP_FAILURES, SimulationResult, WaitingTimes
from nodewright.model.complaint import printable
from nodewright.model.duration import format_duration

_MOST_ROWS = 400
Row = Sequence[str]


def summary(result: SimulationResult) -> list[tuple[str, str, str]]:
    """The figures at the top: what, how much, and a word to it."""
    waiting, still, hours, final = result.waiting, result.still_waiting, result.node_hours, result.final
    figures = [
        ("Simulated time", TimeAxis(result.start, "", 1).say(result.end), f"{result.loops:,} loops"),
        (
            "Pods started",
            f"{waiting.pods - still.pods:,}",
            f"{final.running:,} running, {final.pending:,} pending at the end",
        ),
        ("Median wait", _short(waiting.p50), f"p90 {_short(waiting.p90)}, p99 {_short(waiting.p99)}"),
        ("Longest wait", _short(waiting.longest), _still_waiting(still) or "from creation to start"),
        ("Machines bought", f"{result.increases:,}", _bought(result)),
        ("Node-hours", f"{hours.used:,.1f}", f"{hours.busy:,.1f} of them with pods"),
    ]
    if hours.oracle:
        share = f"{hours.used / hours.oracle:.0%}"
        figures.append(("Against the oracle", share, f"of {hours.oracle:,.1f} h: each group's peak, all the time"))
    if result.cost is not None:
        figures.append(("Cost", f"${result.cost:,.2f}", "by the provider's prices"))
    return figures


def _still_waiting(still: WaitingTimes) -> str:
    """Return how many pods wait at the end and for how long; nothing if none does."""
    if still.pods <= 1:
        return f"1 pod still waits, for {_short(still.longest)} so far" if still.pods else ""
    return f"{still.pods:,} pods still wait, longest {_short(still.longest)} so far"


def _bought(result: SimulationResult) -> str:
    hedges = f", {result.hedged:,} bought as hedges" if result.hedged else ""
    return f"{sum(result.final.nodes.values()):,} nodes at the end{hedges}"


def decisions(result: SimulationResult, axis: TimeAxis) -> str:
    """What was asked of the cloud, and how it ended."""
    rows = [
        (
            axis.say(decision.at),
            decision.what,
            decision.group,
            f"{decision.before} → {decision.after}",
            str(decision.pods) if decision.pods else "",
            decision.outcome,
            decision.message,
        )
        for decision in result.decisions
    ]
    return table(("time", "decision", "group", "size", "pods", "outcome", "why"), rows)


def failures(result: SimulationResult, axis: TimeAxis) -> str:
    """What did not go as it should, actions that were dropped, loops that did not come to an end."""
    rows = [
        (axis.say(timed.at), timed.event.reason, timed.event.message)
        for timed in result.events
        if timed.event.reason in (*SCALE_UP_FAILURES, *OTHER_TROUBLES)
    ]
    rows += [("", "dropped action", violation) for violation in result.violations]
    rows += [("", "loop ended early", problem) for problem in result.problems]
    return table(("time", "what", "message"), rows)


def table(header: Row, rows: Sequence[Row]) -> str:
    """An HTML table of at most a few hundred rows."""
    if not rows:
        return '<p class="none">None.</p>'
    shown = rows[:_MOST_ROWS]
    more = f'<p class="none">and {len(rows) - len(shown):,} more</p>' if len(rows) > len(shown) else ""
    body = "\n".join(f"<tr>{_cells(row)}</tr>" for row in shown)
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>{more}'


def _cells(row: Iterable[str]) -> str:
    return "".join(f"<td>{escape(printable(cell, 400))}</td>" for cell in row)


def _short(seconds: float) -> str:
    return format_duration(round(seconds, 1) if seconds < 10 else round(seconds))
