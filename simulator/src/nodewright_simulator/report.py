"""The report of a simulation: one HTML page with charts and tables that fetches nothing, not even plotly.js."""

from collections.abc import Iterable, Sequence
from html import escape

from nodewright.model.duration import format_duration
from nodewright.model.printable import printable
from nodewright_simulator.charts import TimeAxis, draw_charts, plotly_script
from nodewright_simulator.result import OTHER_TROUBLES, SCALE_UP_FAILURES, SimulationResult, WaitingTimes

_MOST_ROWS = 400
Row = Sequence[str]


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
    """Return the table of failures, of actions that were dropped, and of loops that broke off."""
    rows = [
        (axis.say(timed.at), timed.event.reason, timed.event.message)
        for timed in result.events
        if timed.event.reason in (*SCALE_UP_FAILURES, *OTHER_TROUBLES)
    ]
    rows += [("", "dropped action", violation) for violation in result.violations]
    rows += [("", "loop ended early", problem) for problem in result.problems]
    return table(("time", "what", "message"), rows)


def table(header: Row, rows: Sequence[Row]) -> str:
    """Return an HTML table of at most a few hundred rows."""
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


_STYLE = """
:root { color-scheme: light dark; --page: #F3F5F7; --paper: white; --text: #24292F; --quiet: #57606A; --line: #DDE2E7;
  --row: #EDF0F2; --grid: #E8ECF0; }
@media (prefers-color-scheme: dark) { :root { --page: #0D1117; --paper: #161B22; --text: #E6EDF3; --quiet: #9DA7B1;
  --line: #30363D; --row: #21262D; --grid: #2A3038; } }
body { margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 24px 20px 48px; }
h1 { font-size: 26px; margin: 0 0 2px; } h2 { font-size: 17px; margin: 0 0 6px; }
.lead { color: var(--quiet); margin: 0 0 18px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(250px, 1fr)); gap: 12px; margin-bottom: 16px; }
.card, section { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; }
.card { padding: 12px 14px; } section { padding: 14px 16px; margin-bottom: 16px; }
.card .what { color: var(--quiet); font-size: 13px; } .card .figure { font-size: 24px; font-weight: 600; }
.card .note { color: var(--quiet); font-size: 13px; }
.wide { overflow-x: auto; max-height: 560px; overflow-y: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th { position: sticky; top: 0; background: var(--paper); text-align: left; color: var(--quiet); font-weight: 600; }
th, td { padding: 4px 12px 4px 0; border-bottom: 1px solid var(--row); vertical-align: top; overflow-wrap: anywhere; }
td:nth-child(-n+2) { white-space: nowrap; }
.none { color: var(--quiet); margin: 4px 0; }
footer { color: var(--quiet); font-size: 13px; }
@media (max-width: 640px) {
  main { padding: 14px 10px 32px; } h1 { font-size: 21px; } section { padding: 12px 10px; }
  .cards { grid-template-columns: 1fr 1fr; gap: 8px; } .card { padding: 9px 10px; } .card .figure { font-size: 19px; }
  table { min-width: 600px; }
}
"""

# Charts take the colours of the page. On a narrow screen their legend goes above them.
_FIT_CHARTS = """
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const fit = () => document.querySelectorAll('.js-plotly-plot').forEach(chart => {
  const narrow = chart.clientWidth < 640, grid = colour('--grid');
  Plotly.relayout(chart, {
    paper_bgcolor: colour('--paper'), plot_bgcolor: colour('--paper'), 'font.color': colour('--text'),
    'xaxis.gridcolor': grid, 'yaxis.gridcolor': grid, 'xaxis.zerolinecolor': grid, 'yaxis.zerolinecolor': grid,
    'margin.r': narrow ? 12 : 240, 'margin.l': narrow ? 56 : 64, 'margin.t': narrow ? 12 : 40,
    'margin.b': narrow ? 40 : 48, 'legend.orientation': narrow ? 'h' : 'v',
    'legend.x': narrow ? 0 : 1.01, 'legend.y': narrow ? 1.2 : 1, 'legend.yanchor': narrow ? 'bottom' : 'auto',
  });
});
fit();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', fit);
matchMedia('(max-width: 700px)').addEventListener('change', () => setTimeout(fit, 200));
"""


def write_report(result: SimulationResult, *, description: str = "") -> str:
    """Return the page as text."""
    charts = draw_charts(result)
    axis = TimeAxis.spanning(result.start, result.end)
    title = escape(printable(result.title))
    sections = [_section(name, chart) for name, chart in charts.items()]
    sections.append(_section("Failures", failures(result, axis)))
    sections.append(_section("Decisions", decisions(result, axis)))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; \
style-src 'unsafe-inline'; img-src data: blob:; font-src data:">
<link rel="icon" href="data:,">
<title>{title} · nodewright</title>
<style>{_STYLE}</style>
<script>{plotly_script()}</script>
</head>
<body>
<main>
<h1>{title}</h1>
<p class="lead">{escape(printable(description, 1000))}</p>
<div class="cards">{_cards(result)}</div>
{"".join(sections)}
<footer>Simulated by nodewright on virtual time. This page is complete: it fetches nothing.</footer>
</main>
<script>{_FIT_CHARTS}</script>
</body>
</html>
"""


def _cards(result: SimulationResult) -> str:
    return "\n".join(
        f'<div class="card"><div class="what">{escape(what)}</div><div class="figure">{escape(figure)}</div>'
        f'<div class="note">{escape(note)}</div></div>'
        for what, figure, note in summary(result)
    )


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>\n"
