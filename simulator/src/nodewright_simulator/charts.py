"""The charts of a report and their time axis. Every name from outside is escaped: plotly reads markup in texts."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from nodewright.model.printable import printable
from nodewright_simulator.result import SCALE_UP_FAILURES, Series, SimulationResult

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_MOST_POINTS = 1500


@dataclass(frozen=True)
class TimeAxis:
    """Turns epoch seconds into the numbers on the axis, and into words."""

    start: float
    unit: str
    seconds: float

    @staticmethod
    def spanning(start: float, end: float) -> "TimeAxis":
        """Return an axis in minutes up to two hours, in hours up to three days, else in days."""
        span = end - start
        if span <= 2 * _HOUR:
            return TimeAxis(start, "minutes", _MINUTE)
        return TimeAxis(start, "hours", _HOUR) if span <= 3 * _DAY else TimeAxis(start, "days", _DAY)

    def place(self, at: float) -> float:
        return round((at - self.start) / self.seconds, 4)

    def say(self, at: float) -> str:
        """Return the time since the start as ``2d 03:04:05``."""
        seconds = round(at - self.start)
        days, rest = divmod(seconds, int(_DAY))
        hours, rest = divmod(rest, 3600)
        clock = f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
        return f"{days}d {clock}" if days else clock


def pick_points(series: Series, most: int = _MOST_POINTS) -> Sequence[int]:
    """Return the samples to draw: all of them, or those that keep the outline.

    Of each of many slices of time the last sample stays, and those with the most pending and the most running
    pods.
    """
    times = series.times
    if len(times) <= most:
        return range(len(times))
    width = (times[-1] - times[0]) / (most / 3) or 1.0
    chosen: set[int] = {0, len(times) - 1}
    first = 0
    for index in range(1, len(times) + 1):
        if index < len(times) and (times[index] - times[0]) // width == (times[first] - times[0]) // width:
            continue
        piece = range(first, index)
        chosen |= {index - 1, max(piece, key=series.pending.__getitem__), max(piece, key=series.running.__getitem__)}
        first = index
    return sorted(chosen)


# Okabe and Ito's colours, which colour-blind readers can tell apart, then softer ones of the same hues.
PALETTE = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#8C6BB1",
    "#7FB2A0",
    "#B5A642",
    "#4D7FA8",
)
_OTHERS_COLOUR = "#B0B7BF"
# Events that tell of machines that could not be had.
_GOOD, _BAD, _CALM = "#1B7F4B", "#C62828", "#0072B2"
_RESOURCE_NAMES = {"cpu": "CPU", "memory": "memory", "nvidia.com/gpu": "GPU"}
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


def draw_charts(result: SimulationResult) -> dict[str, str]:
    """Return the charts by title, as HTML without plotly.js."""
    axis = TimeAxis.spanning(result.start, result.end)
    points = pick_points(result.series)
    figures = {
        "Pods": _pods(result, axis, points),
        "Nodes per group": _nodes(result, axis, points),
        "Utilisation": _utilisation(result, axis, points),
    }
    if result.cost is not None:
        if any(result.series.rate):
            figures["Cost per hour"] = _rate(result, axis, points)
        figures["Cost so far"] = _cost(result, axis, points)
    return {title: _render(figure, f"chart-{number}") for number, (title, figure) in enumerate(figures.items())}


def plotly_script() -> str:
    """Return plotly.js, to be put into a script element."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - as above

    script: str = get_plotlyjs()
    return script


def label(name: str, limit: int = 60) -> str:
    """Return a name escaped, so that plotly and HTML show it literally."""
    return escape(printable(name, limit))


def _plotly() -> Any:
    import plotly.graph_objects as go  # noqa: PLC0415 - slow to import, and most runs draw nothing

    return go


def _pods(result: SimulationResult, axis: TimeAxis, points: Sequence[int]) -> Any:
    go = _plotly()
    figure = _figure(axis, "pods")
    times = [axis.place(result.series.times[i]) for i in points]
    for name, values, colour in (
        ("running", result.series.running, _CALM),
        ("pending", result.series.pending, _BAD),
    ):
        line = {"shape": "hv", "color": colour, "width": 2}
        fill = {"fill": "tozeroy"} if name == "pending" else {}
        figure.add_trace(go.Scatter(x=times, y=[values[i] for i in points], name=name, mode="lines", line=line, **fill))
    return figure


def _nodes(result: SimulationResult, axis: TimeAxis, points: Sequence[int]) -> Any:
    go = _plotly()
    figure = _figure(axis, "nodes")
    times = [axis.place(result.series.times[i]) for i in points]
    for number, (group, counts) in enumerate(_main_groups(result.series.nodes).items()):
        colour = PALETTE[number] if number < len(PALETTE) else _OTHERS_COLOUR
        line = {"shape": "hv", "width": 0.5, "color": colour}
        values = [counts[i] for i in points]
        figure.add_trace(
            go.Scatter(x=times, y=values, name=label(group, 32), mode="lines", stackgroup="nodes", line=line)
        )
    _mark_decisions(figure, result, axis)
    return figure


def _mark_decisions(figure: Any, result: SimulationResult, axis: TimeAxis) -> None:
    """Mark scale-ups and failures on top of the nodes."""
    go = _plotly()
    totals = [sum(counts) for counts in zip(*result.series.nodes.values(), strict=True)]
    failures = [(timed.at, timed.event.message) for timed in result.events if timed.event.reason in SCALE_UP_FAILURES]
    increases = [
        (decision.at, f"{decision.group}: {decision.before} → {decision.after} for {decision.pods} pods")
        for decision in result.decisions
        if decision.what == "increase" and decision.outcome in ("done", "partial")
    ]
    for name, marks, symbol, colour in (
        ("scale-up", increases, "triangle-up", _GOOD),
        ("failure", failures, "x", _BAD),
    ):
        heights = [_value_at(result.series.times, totals, at) for at, _ in marks]
        marker = {"symbol": symbol, "color": colour, "size": 9, "line": {"color": "white", "width": 1}}
        figure.add_trace(
            go.Scatter(
                x=[axis.place(at) for at, _ in marks],
                y=heights,
                name=name,
                mode="markers",
                marker=marker,
                text=[label(message, 160) for _, message in marks],
                hovertemplate="%{text}<extra></extra>",
            )
        )


def _utilisation(result: SimulationResult, axis: TimeAxis, points: Sequence[int]) -> Any:
    go = _plotly()
    figure = _figure(axis, "share of what nodes offer")
    figure.update_yaxes(tickformat=".0%", range=[0, 1.02])
    times = [axis.place(result.series.times[i]) for i in points]
    for number, (resource, shares) in enumerate(result.series.utilisation.items()):
        line = {"shape": "hv", "width": 1.5, "color": PALETTE[number % len(PALETTE)]}
        name = label(_RESOURCE_NAMES.get(resource, resource))
        figure.add_trace(go.Scatter(x=times, y=[shares[i] for i in points], name=name, mode="lines", line=line))
    return figure


def _rate(result: SimulationResult, axis: TimeAxis, points: Sequence[int]) -> Any:
    go = _plotly()
    figure = _figure(axis, "USD an hour")
    figure.update_yaxes(tickprefix="$")
    times = [axis.place(result.series.times[i]) for i in points]
    lines: tuple[tuple[str, Sequence[float | None], dict[str, object]], ...] = (
        ("all machines", result.series.rate, {"color": PALETTE[2]}),
        ("lower bound", result.series.bound, {"color": PALETTE[5], "dash": "dot"}),
    )
    for name, values, style in lines:
        if any(values):
            shown = [None if values[i] is None else round(values[i] or 0.0, 4) for i in points]
            line = {"shape": "hv", "width": 2, **style}
            figure.add_trace(go.Scatter(x=times, y=shown, name=name, mode="lines", line=line))
    return figure


def _cost(result: SimulationResult, axis: TimeAxis, points: Sequence[int]) -> Any:
    go = _plotly()
    figure = _figure(axis, "USD")
    figure.update_yaxes(tickprefix="$")
    times = [axis.place(result.series.times[i]) for i in points]
    cost = [round(result.series.cost[i], 4) for i in points]
    line = {"color": PALETTE[2], "width": 2}
    figure.add_trace(go.Scatter(x=times, y=cost, name="cost", mode="lines", line=line, fill="tozeroy"))
    return figure


def _figure(axis: TimeAxis, quantity: str) -> Any:
    grid = {"gridcolor": "#E8ECF0", "zerolinecolor": "#C9D1D9", "rangemode": "tozero"}
    layout = {
        "template": "none",
        "height": 368,
        "margin": {"l": 64, "r": 240, "t": 40, "b": 48},
        "font": {"family": _FONT, "size": 13, "color": "#24292F"},
        "hovermode": "x",
        "showlegend": True,
        "legend": {"x": 1.01, "y": 1, "xanchor": "left", "font": {"size": 12}},
        "xaxis": {**grid, "title": {"text": f"{axis.unit} since the start"}},
        "yaxis": {**grid, "title": {"text": quantity}},
    }
    return _plotly().Figure(layout=layout)


def _main_groups(nodes: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    """Return the groups that grew largest, and the sum of all others as one."""
    ranked = sorted((group for group, counts in nodes.items() if any(counts)), key=lambda g: (-max(nodes[g]), g))
    main = {group: nodes[group] for group in ranked[: len(PALETTE)]}
    rest = [nodes[group] for group in ranked[len(PALETTE) :]]
    if rest:
        main[f"{len(rest)} other groups"] = [sum(counts) for counts in zip(*rest, strict=True)]
    return main


def _value_at(times: Sequence[float], values: Sequence[int], at: float) -> int:
    """Return the value in force at a moment."""
    index = bisect_right(times, at) - 1
    return values[index] if 0 <= index < len(values) else 0


def _render(figure: Any, div_id: str) -> str:
    config = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["select2d", "lasso2d"]}
    html: str = figure.to_html(include_plotlyjs=False, full_html=False, div_id=div_id, config=config)
    return html
