"""The picture of prices over the bound: what is drawn, and that the one in the repository shows the page's figures."""

import re
from pathlib import Path

import pytest

from cost_chart import draw, find_ratios

DOCS = Path(__file__).parents[2] / "docs"


def test_prices_are_summed_by_family_and_divided_by_the_bound() -> None:
    rows = [
        {"family": "a", "price": 3.0, "karpenter": 4.0, "bound": 2.0},
        {"family": "a", "price": 1.0, "karpenter": 4.0, "bound": 2.0},
        {"family": "b", "price": 6.0, "karpenter": 5.0, "bound": 5.0},
    ]
    assert find_ratios({"ours": rows}) == {"ours": {"a": 1.0, "b": 1.2}, "Karpenter": {"a": 2.0, "b": 1.0}}


def test_bars_are_as_long_as_prices_are_above_the_bound() -> None:
    drawn = draw({"ours": {"a": 1.1, "b": 1.0}, "Karpenter": {"a": 1.2, "b": 1.4}})
    bars = [float(width) for width in re.findall(r'width="([0-9.]+)" height="9"', drawn)]
    assert bars == pytest.approx([bars[3] / 4, bars[3] / 2, 0.0, bars[3]], abs=0.1)
    assert {"a", "b", "ours", "Karpenter", "10 %", "20 %", "0 %", "40 %"} <= set(texts(drawn))


def test_the_picture_shows_the_figures_of_the_page() -> None:
    table = [line.strip("| ").split(" | ") for line in (DOCS / "cost.md").read_text().splitlines()]
    heads = next(line for line in table if line[:2] == ["family", "Karpenter"])
    drawn = texts((DOCS / "images" / "cost.svg").read_text())
    _, *titles = drawn[: drawn.index("plain-kwok")]
    assert titles == ["least-cost", "price", "Karpenter"]
    families = table[table.index(heads) + 2 :][:11]
    for line, place in zip(families, range(4, len(drawn), 4), strict=True):
        shown = [float(text.removesuffix(" %")) / 100 + 1 for text in drawn[place + 1 : place + 4]]
        assert drawn[place] == line[0]
        assert shown == pytest.approx([float(line[heads.index(title)]) for title in titles], abs=0.011)


def texts(drawn: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
