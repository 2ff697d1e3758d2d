"""The figures of one run: what tables, gates and columns are made of."""

from collections.abc import Callable
from dataclasses import dataclass

from nodewright.model.removal import RemovalResult
from nodewright_simulator.journal import What
from nodewright_simulator.result import SCALE_UP_FAILURES, SimulationResult

Number = float | None


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a run. ``unit`` is USD, s, h, x or empty for a count; ``read`` returns None where it is not known."""

    name: str
    title: str
    unit: str
    read: Callable[[SimulationResult], Number]


def _evictions(result: SimulationResult) -> Number:
    return sum(fact.what == What.POD_EVICTED for fact in result.journal)


def _failed_scale_ups(result: SimulationResult) -> Number:
    return sum(timed.event.reason in SCALE_UP_FAILURES for timed in result.events)


def _removed(result: SimulationResult) -> Number:
    return sum(over.result == RemovalResult.OK for over in result.removals)


FIGURES = {
    figure.name: figure
    for figure in (
        Figure(name="cost", title="cost", unit="USD", read=lambda r: r.cost),
        Figure(
            name="least_cost",
            title="least cost",
            unit="USD",
            read=lambda r: r.least_cost.usd if r.least_cost is not None else None,
        ),
        Figure(
            name="cost_over_least",
            title="cost / least cost",
            unit="x",
            read=lambda r: r.least_cost.ratio if r.least_cost is not None else None,
        ),
        Figure(name="p50_wait", title="p50 wait", unit="s", read=lambda r: r.waiting.p50),
        Figure(name="p90_wait", title="p90 wait", unit="s", read=lambda r: r.waiting.p90),
        Figure(name="p99_wait", title="p99 wait", unit="s", read=lambda r: r.waiting.p99),
        Figure(name="longest_wait", title="longest wait", unit="s", read=lambda r: r.waiting.longest),
        Figure(name="still_waiting", title="pods that still wait", unit="", read=lambda r: r.still_waiting.pods),
        Figure(
            name="pods_started", title="pods started", unit="", read=lambda r: r.waiting.pods - r.still_waiting.pods
        ),
        Figure(name="evictions", title="evictions", unit="", read=_evictions),
        Figure(name="machines", title="machines bought", unit="", read=lambda r: r.increases),
        Figure(name="nodes_removed", title="nodes removed", unit="", read=_removed),
        Figure(name="failed_scale_ups", title="failed scale-ups", unit="", read=_failed_scale_ups),
        Figure(name="node_hours", title="node-hours", unit="h", read=lambda r: r.node_hours.used),
        Figure(name="busy_node_hours", title="node-hours with pods", unit="h", read=lambda r: r.node_hours.busy),
        Figure(name="loops", title="loops", unit="", read=lambda r: r.loops),
        Figure(name="violations", title="planned actions that broke a rule", unit="", read=lambda r: len(r.violations)),
    )
}
# The three that the Pareto front weighs: less is better.
OBJECTIVES = ("cost", "p99_wait", "evictions")
# Those of the tables of the page.
MAIN = ("cost", "cost_over_least", "p50_wait", "p99_wait", "still_waiting", "evictions", "machines", "node_hours")


def in_words(name: str, value: Number) -> str:
    """Return the value with its unit; a dash where it is not known."""
    if value is None:
        return "-"
    unit = FIGURES[name].unit
    if unit == "USD":
        return f"${value:,.2f}"
    return f"{value:,.{_digits(value)}f}{f' {unit}'.replace(' x', ' ×') if unit else ''}"


def _digits(value: float) -> int:
    if value == int(value):
        return 0
    return 2 if abs(value) < 10 else 1
