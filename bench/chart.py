"""Draws docs/images/performance.svg: ``run.py idle-loop --output json | chart.py``.

It shows the time of a loop over the size of the cluster, beside the Go figures for the same loop (docs/performance.md:
scale-down off, 40 pods a node).
"""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from svg import RIGHT, TOP, Axes

_PAGE = Path(__file__).parents[1] / "docs" / "images" / "performance.svg"
# Thousands of pods, milliseconds.
Curve = list[tuple[float, float]]
_GO: Curve = [(4, 14.3), (40, 180), (80, 429)]
# Okabe and Ito's colours, told apart by everybody.
_COLOURS = ("#E69F00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7")


def curves_of(rows: Iterable[dict[str, object]]) -> dict[str, Curve]:
    """By how many pods changed."""
    found: dict[str, Curve] = {"cluster-autoscaler, idle": _GO}
    for row in rows:
        name, seconds = re.fullmatch(r"idle-loop-(\d+)-(\d+)", str(row["name"])), row["seconds"]
        if name is not None and isinstance(seconds, dict):
            title = f"nodewright, {int(name[2]):,} pods change" if int(name[2]) else "nodewright, idle"
            found.setdefault(title, []).append((int(name[1]) / 100, seconds["median"] * 1000))
    return {title: sorted(curve) for title, curve in found.items()}


def draw(curves: dict[str, Curve]) -> str:
    points = [point for curve in curves.values() for point in curve]
    axes = Axes(height=240, most_x=max(x for x, _ in points), most_y=max(y for _, y in points))
    parts: list[str] = []
    for number, (title, curve) in enumerate(curves.items()):
        colour, top = _COLOURS[number % len(_COLOURS)], TOP + 18 * number
        parts += [
            axes.line(curve, colour),
            *(f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in axes.places(curve)),
            f'<rect x="{RIGHT - 210}" y="{top}" width="12" height="12" fill="{colour}"/>',
            f'<text x="{RIGHT - 193}" y="{top + 10}" font-size="12">{title}</text>',
        ]
    return axes.picture("Milliseconds of a loop over thousands of running pods", parts)


if __name__ == "__main__":
    _PAGE.write_text(draw(curves_of(json.load(sys.stdin))), encoding="utf-8")
