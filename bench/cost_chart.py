"""Draws docs/images/cost.svg: by how many per cent prices are above the bound, by family of cases (docs/cost.md).

``cost_chart.py TITLE=FILE…``: each file is what ``cost.py --expander TITLE --output json`` printed; Karpenter's prices are
in each of them. The picture is narrow, so that it can be read on a phone, and dark where the reader's screen is.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PAGE = Path(__file__).parents[1] / "docs" / "images" / "cost.svg"
# Okabe and Ito's colours, told apart by everybody, on white and on black.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
_WIDTH, _LEFT, _RIGHT = 400, 104, 350
_BAR, _GAP, _TOP = 10, 8, 66
_STYLE = (
    "text{fill:#222}.ground{fill:#fff}.axis{stroke:#666}"
    "@media (prefers-color-scheme:dark){text{fill:#eee}.ground{fill:#111}.axis{stroke:#999}}"
)
# As in the JSON of cost.py.
Row = Mapping[str, Any]
# By title, then by family: the price over the bound.
Ratios = Mapping[str, Mapping[str, float]]


def find_ratios(rows: Mapping[str, Sequence[Row]]) -> Ratios:
    """Return the sums of prices over the sums of bounds, those of Karpenter last."""
    anyone = next(iter(rows.values()))
    ours = {title: _over_bound(held, "price") for title, held in rows.items()}
    return {**ours, "Karpenter": _over_bound(anyone, "karpenter")}


def _over_bound(rows: Sequence[Row], key: str) -> dict[str, float]:
    families = dict.fromkeys(row["family"] for row in rows)
    held = {family: [row for row in rows if row["family"] == family] for family in families}
    return {one: sum(row[key] for row in many) / sum(row["bound"] for row in many) for one, many in held.items()}


def draw(ratios: Ratios) -> str:
    families = list(next(iter(ratios.values())))
    most = max(value for each in ratios.values() for value in each.values()) - 1
    step = _BAR * len(ratios) + _GAP
    height = _TOP + step * len(families) + 12
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{_WIDTH}" height="{height}"/>',
        '<text x="10" y="22" font-size="14">Per cent above the bound; shorter is cheaper</text>',
    ]
    for number, title in enumerate(ratios):
        x = 10 + 100 * number
        lines.append(f'<rect x="{x}" y="36" width="12" height="12" fill="{_COLOURS[number]}"/>')
        lines.append(f'<text x="{x + 17}" y="46">{title}</text>')
    for place, family in enumerate(families):
        top = _TOP + step * place
        lines.append(f'<text x="{_LEFT - 6}" y="{top + (step - _GAP) / 2 + 4:.0f}" text-anchor="end">{family}</text>')
        for number, each in enumerate(ratios.values()):
            above, y = each[family] - 1, top + _BAR * number
            width = (_RIGHT - _LEFT) * above / most
            lines.append(
                f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR - 1}" fill="{_COLOURS[number]}"/>'
            )
            lines.append(f'<text x="{_LEFT + width + 4:.1f}" y="{y + 9}" font-size="11">{100 * above:.0f} %</text>')
    lines.append(f'<path class="axis" d="M{_LEFT},{_TOP - 4}V{height - 14}" fill="none"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    _given = (word.partition("=") for word in sys.argv[1:])
    _PAGE.write_text(draw(find_ratios({title: json.loads(Path(file).read_text()) for title, _, file in _given})))
