"""The report of a simulation: one HTML page with charts, timelines and tables that fetches nothing."""

import json
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from nodewright.model.duration import format_duration
from nodewright_simulator.charts import Chart, TimeAxis, make_charts
from nodewright_simulator.inputs import digest_files, hash_inputs
from nodewright_simulator.page import Cell, Content, make_cards, make_page, make_table, section, text_of
from nodewright_simulator.result import OTHER_TROUBLES, SCALE_UP_FAILURES, SimulationResult, WaitingTimes
from nodewright_simulator.scenario import Scenario
from nodewright_simulator.timeline import STYLE, draw_lanes, draw_timeline

_MOST_ROWS = 400


def summary(result: SimulationResult) -> list[tuple[str, str, str]]:
    """Return the figures at the top: name, amount and note."""
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
        figures.append(("Cost", f"${result.cost:,.2f}", f"by {' and '.join(result.price_sources)}"))
    if result.least_cost is not None:
        note = f"of ${result.least_cost.usd:,.2f}, the least for the pods of each moment"
        figures.append(("Against the lower bound", f"{result.least_cost.ratio:.2f} ×", note))
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
    """Return the table of writes to the cloud and their outcomes."""
    rows: list[list[Content]] = [
        [
            _time(axis, decision.at),
            decision.what,
            decision.group,
            Cell(text=f"{decision.before} → {decision.after}", value=decision.after, tone="short"),
            Cell(text=str(decision.pods or ""), value=decision.pods),
            Cell(text=decision.outcome, tone="" if decision.outcome == "done" else "bad"),
            Cell(text="; ".join(dict.fromkeys(word for word in (decision.why, decision.message) if word)), tone="name"),
        ]
        for decision in result.decisions
    ]
    return make_table(("time", "decision", "group", "size", "pods", "outcome", "why"), rows, _MOST_ROWS)


def failures(result: SimulationResult, axis: TimeAxis) -> str:
    """Return the table of failures, of actions that were dropped, and of loops that broke off."""
    rows: list[list[Content]] = [
        [_time(axis, timed.at), timed.event.reason, timed.event.message]
        for timed in result.events
        if timed.event.reason in (*SCALE_UP_FAILURES, *OTHER_TROUBLES)
    ]
    rows += [["", "dropped action", violation] for violation in result.violations]
    rows += [["", "loop ended early", problem] for problem in result.problems]
    return make_table(("time", "what", "message"), rows, _MOST_ROWS)


def _time(axis: TimeAxis, at: float) -> Cell:
    return Cell(text=axis.say(at), value=at, tone="short")


def _short(seconds: float) -> str:
    return format_duration(round(seconds, 1) if seconds < 10 else round(seconds))


@cache
def _asset(name: str) -> str:
    return (files("nodewright_simulator") / "assets" / name).read_text(encoding="utf-8")


CHART_STYLE = (
    _asset("uPlot.min.css")
    + """
.chart { min-height: 240px; } .uplot, .u-wrap { font-family: inherit; } .u-select { background: color-mix(in srgb, var(--link) 20%, transparent); }
.tip { position: absolute; top: 4px; z-index: 5; display: none; pointer-events: none; background: var(--paper); color: var(--text);
  border: 1px solid var(--line); border-radius: 6px; padding: 4px 8px; font-size: 12px; max-width: 320px; overflow-wrap: anywhere; }
.tip i { display: inline-block; width: 9px; height: 9px; border-radius: 2px; margin-right: 5px; }
"""
)


def chart_script() -> str:
    """Return the script that draws the charts of a page."""
    return _asset("uPlot.iife.min.js") + _asset("report.js")


def write_report(result: SimulationResult, scenario: Scenario | None = None, *, description: str = "") -> str:
    """Return the page as text. ``scenario`` tells of outages, seed and hash; ``description`` stands for its own."""
    axis = TimeAxis.spanning(result.start, result.end)
    charts = make_charts(result, axis)
    body = f'<div class="cards">{make_cards(summary(result))}</div>\n'
    body += "".join(draw_chart(title, chart, number) for number, (title, chart) in enumerate(charts.items()))
    body += section("What happened when", draw_timeline(result, axis, scenario))
    body += section("Failures", failures(result, axis))
    body += section("Decisions", decisions(result, axis))
    body += section("Nodes", draw_lanes(result, axis))
    data = {"from": 0, "until": axis.place(result.end), "charts": list(charts.values())}
    lead = description or (scenario.description if scenario is not None else "")
    return make_page(
        result.title,
        lead,
        body + embed_data(data),
        footer=text_of(_foot(scenario)),
        style=CHART_STYLE + STYLE,
        script=chart_script(),
    )


def draw_chart(title: str, chart: Chart, number: int) -> str:
    """Return a section for the chart with this place in the data, with its legend."""
    keys = "".join(
        f'<li><i style="background:{series["colour"]}"></i>{text_of(series["name"], 60)}</li>'
        for series in chart["series"]
    )
    label = text_of(f"{title}: {', '.join(series['name'] for series in chart['series'])}")
    return section(
        title,
        f'<ul class="keys">{keys}</ul><div class="chart" data-chart="{number}" role="img" aria-label="{label}"></div>',
    )


def embed_data(data: dict[str, Any]) -> str:
    """Return the values of charts as an element; no text in it can end it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<script type="application/json" id="data">{safe}</script>'


def say_inputs(scenario: Scenario) -> str:
    """Return seed and hash of the inputs, for the foot of a page."""
    return f"Seed {scenario.seed}. Hash of the inputs: {hash_inputs(scenario, digest_files(scenario))}."


def _foot(scenario: Scenario | None) -> str:
    about = f"Simulated by nodewright {version('nodewright-simulator')} on virtual time."
    about += f" {say_inputs(scenario)}" if scenario is not None else ""
    return f"{about} This page is complete: it fetches nothing."
