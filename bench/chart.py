"""Draws docs/images/performance.svg: ``run.py idle-loop --output json | chart.py``, the time of a loop over the size of
the cluster, beside the Go figures for the same loop (baselines, §2: scale-down off, 40 pods a node).
"""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

_LEFT, _WIDTH, _TOP, _HEIGHT = 60, 660, 40, 240
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
    pods = max(at for curve in curves.values() for at, _ in curve)
    most = max(value for curve in curves.values() for _, value in curve)
    floor, right = _TOP + _HEIGHT, _LEFT + _WIDTH
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right + 30} {floor + 50}" font-family="sans-serif">',
        f'<rect width="{right + 30}" height="{floor + 50}" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="14">Milliseconds of a loop over thousands of running pods</text>',
        f'<path d="M{_LEFT},{_TOP}V{floor}H{right}" fill="none" stroke="#444"/>',
    ]
    for share in (0.0, 0.5, 1.0):
        y, x = floor - _HEIGHT * share, _LEFT + _WIDTH * share
        parts += [
            f'<text x="{_LEFT - 6}" y="{y + 4:.0f}" font-size="11" text-anchor="end">{most * share:.0f}</text>',
            f'<text x="{x:.0f}" y="{floor + 16}" font-size="11" text-anchor="middle">{pods * share:.0f}</text>',
        ]
    for number, (title, curve) in enumerate(curves.items()):
        places = [(_LEFT + _WIDTH * at / pods, floor - _HEIGHT * value / most) for at, value in curve]
        line, colour = " ".join(f"{x:.1f},{y:.1f}" for x, y in places), _COLOURS[number % len(_COLOURS)]
        top = _TOP + 18 * number
        parts += [
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>',
            *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places),
            f'<rect x="{right - 210}" y="{top}" width="12" height="12" fill="{colour}"/>',
            f'<text x="{right - 193}" y="{top + 10}" font-size="12">{title}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    _PAGE.write_text(draw(curves_of(json.load(sys.stdin))), encoding="utf-8")
