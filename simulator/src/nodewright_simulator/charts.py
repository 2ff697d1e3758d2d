"""The charts of a report as plain values, and their time axis. assets/report.js draws them with uPlot."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nodewright.model.printable import printable
from nodewright_simulator.page import PALETTE
from nodewright_simulator.result import Series, SimulationResult

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_MOST_POINTS = 1200
_MOST_WAITS = 400
_OTHERS_COLOUR = "#B0B7BF"
_BAD, _CALM = "#C62828", "#0072B2"
_RESOURCE_NAMES = {"cpu": "CPU", "memory": "memory", "nvidia.com/gpu": "GPU"}
Chart = dict[str, Any]


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


def make_charts(result: SimulationResult, axis: TimeAxis) -> dict[str, Chart]:
    """Return the charts by title.

    ``x`` are the places of the values; ``timed``: they are on ``axis``. ``unit`` is of the values (``%``: shares), ``most``
    the end of their axis (None: as the values need), and each series has ``name``, ``colour`` and ``values``, each
    valid until the next (``linear``: it changes evenly).
    """
    series, points = result.series, pick_points(result.series)

    def pick(values: Sequence[Any], digits: int = 4) -> list[Any]:
        picked = [values[i] for i in points]
        return [round(value, digits) if isinstance(value, float) else value for value in picked]

    timed = {
        "x": [axis.place(series.times[i]) for i in points],
        "across": f"{axis.unit} since the start",
        "timed": True,
    }
    charts: dict[str, Chart] = {
        "Pods": timed
        | {
            "unit": "",
            "series": [
                {"name": "running", "colour": _CALM, "values": pick(series.running)},
                {"name": "pending", "colour": _BAD, "filled": True, "values": pick(series.pending)},
            ],
        },
        "Nodes per group": timed | {"unit": "", "stacked": True, "series": _nodes(series, pick)},
    }
    if result.waiting.pods:
        charts["Waits"] = _waits(result)
    charts["Utilisation"] = timed | {
        "unit": "%",
        "most": 1.02,
        "series": [
            {"name": _RESOURCE_NAMES.get(name, name), "colour": PALETTE[number % len(PALETTE)], "values": pick(shares)}
            for number, (name, shares) in enumerate(series.utilisation.items())
        ],
    }
    if result.cost is not None:
        if any(series.rate):
            charts["Cost per hour"] = timed | {"unit": "$", "series": _rates(series, pick)}
        cost = {"name": "cost", "colour": PALETTE[2], "filled": True, "linear": True, "values": pick(series.cost)}
        charts["Cost so far"] = timed | {"unit": "$", "series": [cost]}
    return charts


def _nodes(series: Series, pick: Any) -> list[Chart]:
    return [
        {
            "name": printable(group, 60),
            "colour": PALETTE[number] if number < len(PALETTE) else _OTHERS_COLOUR,
            "values": pick(counts),
        }
        for number, (group, counts) in enumerate(main_groups(series.nodes).items())
    ]


def _rates(series: Series, pick: Any) -> list[Chart]:
    lines: tuple[tuple[str, Sequence[float | None], Chart], ...] = (
        ("all machines", series.rate, {"colour": PALETTE[2]}),
        ("lower bound", series.bound, {"colour": PALETTE[5], "dashed": True}),
    )
    return [{"name": name, **style, "values": pick(values)} for name, values, style in lines if any(values)]


def _waits(result: SimulationResult) -> Chart:
    """Return the share of all pods that started within each time. Those that still wait at the end never did."""
    waits = sorted(result.pod_waits.values())
    places = sorted({1.0, *(max(1.0, round(wait, 1)) for wait in waits)})
    if len(places) > _MOST_WAITS:
        step = len(places) / _MOST_WAITS
        places = sorted({places[0], places[-1], *(places[int(number * step)] for number in range(_MOST_WAITS))})
    end = max([*places[-1:], result.waiting.longest, 10.0])
    places += [round(end, 1)] if end > places[-1] else []
    total = len(waits) + result.still_waiting.pods
    shares = [round(bisect_right(waits, place + 0.05) / total, 4) if total else 0.0 for place in places]
    still = result.still_waiting.pods
    name = "started within this time" + (f" ({still:,} of {total:,} still wait)" if still else "")
    return {
        "x": places,
        "across": "seconds from creation to start, 1 or less at the left",
        "timed": False,
        "unit": "%",
        "most": 1.02,
        "series": [{"name": name, "colour": _CALM, "filled": True, "values": shares}],
    }


def main_groups(nodes: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    """Return the groups that grew largest, and the sum of all others as one."""
    ranked = sorted((group for group, counts in nodes.items() if any(counts)), key=lambda g: (-max(nodes[g]), g))
    main = {group: nodes[group] for group in ranked[: len(PALETTE)]}
    rest = [nodes[group] for group in ranked[len(PALETTE) :]]
    if rest:
        main[f"{len(rest)} other groups"] = [sum(counts) for counts in zip(*rest, strict=True)]
    return main
