"""Two runs side by side on one page: figures, charts with the same axes, and both timelines."""

from itertools import zip_longest
from typing import NamedTuple

from nodewright_simulator.charts import Chart, TimeAxis, make_charts
from nodewright_simulator.page import Cell, Content, make_page, make_table, section, text_of
from nodewright_simulator.report import CHART_STYLE, chart_script, draw_chart, embed_data, say_inputs
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.scenario import Scenario
from nodewright_simulator.sweep.figures import FIGURES, in_words
from nodewright_simulator.timeline import STYLE, draw_timeline

_STYLE = """
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 10px; } .pair > * { min-width: 0; }
@media (max-width: 760px) { .pair { grid-template-columns: 1fr; gap: 0; } }
"""


class Side(NamedTuple):
    """One of the runs, under its name."""

    name: str
    result: SimulationResult
    scenario: Scenario


def write_comparison(left: Side, right: Side) -> str:
    """Return the page as text."""
    sides = (left, right)
    axis = TimeAxis.spanning(left.result.start, max(side.result.end for side in sides))
    charts = [make_charts(side.result, axis) for side in sides]
    body, data = section("Figures", _figures(left, right)), list[Chart]()
    for title in dict.fromkeys([*charts[0], *charts[1]]):
        pair = [found.get(title) for found in charts]
        _share_axis([chart for chart in pair if chart is not None])
        drawn = []
        for side, chart in zip(sides, pair, strict=True):
            drawn.append(draw_chart(f"{title}: {side.name}", chart, len(data)) if chart is not None else "<div></div>")
            data += [chart] if chart is not None else []
        body += f'<div class="pair">{"".join(drawn)}</div>'
    for side in sides:
        body += section(f"What happened when: {side.name}", draw_timeline(side.result, axis, side.scenario))
    until = axis.place(max(side.result.end for side in sides))
    footer = " ".join(f"{side.name}: {say_inputs(side.scenario)}" for side in sides)
    return make_page(
        f"{left.name} and {right.name}",
        f"{left.result.title}: {left.scenario.description}",
        body + embed_data({"from": 0, "until": until, "charts": data}),
        footer=text_of(footer, 1000),
        style=CHART_STYLE + STYLE + _STYLE,
        script=chart_script(),
    )


def _figures(left: Side, right: Side) -> str:
    rows: list[list[Content]] = []
    for name, figure in FIGURES.items():
        before, after = figure.read(left.result), figure.read(right.result)
        change = after - before if before is not None and after is not None else None
        said = "" if change is None else f"{'-' if change < 0 else '+'}{in_words(name, abs(change))}"
        said += f" ({change / before:+.1%})" if change and before else ""
        cells = [Cell(text=in_words(name, value), value=value, tone="short") for value in (before, after)]
        rows.append([figure.title, *cells, Cell(text=said, value=change, tone="short")])
    return make_table(("figure", left.name, right.name, "change"), rows, len(rows))


def _share_axis(charts: list[Chart]) -> None:
    """Let charts beside each other end at the same value."""
    if all(chart.get("most") is None for chart in charts):
        most = max((_highest(chart) for chart in charts), default=0.0)
        for chart in charts:
            chart["most"] = (most or 1.0) * 1.06


def _highest(chart: Chart) -> float:
    columns = [[value or 0.0 for value in series["values"]] for series in chart["series"]]
    if chart.get("stacked"):
        return max((sum(values) for values in zip_longest(*columns, fillvalue=0.0)), default=0.0)
    return max((value for column in columns for value in column), default=0.0)
