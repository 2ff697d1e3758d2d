"""The page of a sweep: the Pareto front of each scenario, differences to the baseline, and every run with its report."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nodewright_simulator.page import PALETTE, Cell, Content, make_page, make_table, section, text_of
from nodewright_simulator.sweep.compare import (
    Difference,
    Row,
    compare,
    find_front,
    mean,
    objectives,
    say_interval,
)
from nodewright_simulator.sweep.figures import FIGURES, MAIN, OBJECTIVES, in_words

_MOST_ROWS = 2000
_STYLE = """
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 8px 20px; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--quiet); font-size: 14px; }
svg .grid { stroke: var(--grid); } svg .axis { stroke: var(--line); } svg a circle { cursor: pointer; }
svg .ring circle { fill: var(--paper); fill-opacity: .8; } svg .ring { pointer-events: none; } svg .ring text { fill: var(--text); font-weight: 600; }
"""
_WIDTH, _HEIGHT = 520.0, 360.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 16.0, 16.0, 48.0


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """Everything that the page shows. ``partners`` is by id of a run the run of the baseline with the same scenario and seed."""

    name: str
    rows: Sequence[Row]
    variants: Sequence[str]
    scenarios: Sequence[str]
    baseline: str
    partners: Mapping[str, Row]

    def of(self, variant: str, scenario: str | None = None) -> list[Row]:
        """Return the runs of a variant, of one scenario or of all."""
        return [row for row in self.rows if row.variant == variant and scenario in (None, row.scenario)]


def write_sweep_page(result: SweepResult) -> str:
    """Return the page as text."""
    charts = "".join(_chart(result, scenario) for scenario in result.scenarios)
    about = (
        "Each point is a run and opens its report; its size grows with evictions. A ring with a letter is the mean of a variant. "
        "It is solid on the Pareto front: no other variant is as good in cost, p99 wait and evictions and better in one."
    )
    body = section(
        "Cost, waits and evictions",
        f'<p class="none">{about}</p>{_keys(result)}<div class="charts">{charts}</div>',
    )
    body += section("Variants", _variants(result))
    body += section(f"Differences to {result.baseline}", _differences(result))
    body += section("Runs", _runs(result))
    seeds = len({row.seed for row in result.rows})
    lead = f"{len(result.rows):,} runs: {_number(result.variants, 'variant')}, {_number(result.scenarios, 'scenario')}, {seeds} seeds."
    versions = ", ".join(sorted({row.version for row in result.rows}))
    footer = text_of(
        f"Simulated by nodewright {versions} on virtual time. This page fetches nothing; reports are in runs/."
    )
    return make_page(result.name, lead.replace(" 1 seeds", " 1 seed"), body, footer=footer, style=_STYLE)


def _number(things: Sequence[str], noun: str) -> str:
    return f"{len(things)} {noun}" if len(things) == 1 else f"{len(things)} {noun}s"


def _colour(result: SweepResult, variant: str) -> str:
    return PALETTE[result.variants.index(variant) % len(PALETTE)]


def _letter(result: SweepResult, variant: str) -> str:
    """Return A to Z, then AA, AB."""
    number = result.variants.index(variant)
    return (chr(64 + number // 26) if number >= 26 else "") + chr(65 + number % 26)


def _keys(result: SweepResult) -> str:
    items = (
        f'<li><i style="background:{_colour(result, name)}"></i>{_letter(result, name)} {text_of(name, 80)}</li>'
        for name in result.variants
    )
    return f'<ul class="keys">{"".join(items)}</ul>'


def _chart(result: SweepResult, scenario: str) -> str:
    rows = [row for row in result.rows if row.scenario == scenario]
    across = "cost" if any(row.figures["cost"] is not None for row in rows) else "node_hours"
    xs, ys = _Scale.over(rows, across, _LEFT, _WIDTH - _RIGHT), _Scale.over(rows, "p99_wait", _HEIGHT - _BOTTOM, _TOP)
    most = max((row.figures["evictions"] or 0 for row in rows), default=0)
    drawing = [*_axes(xs, ys, across)]
    for row in rows:
        place = f'cx="{xs.place(row):.1f}" cy="{ys.place(row):.1f}" r="{4 + 7 * math.sqrt((row.figures["evictions"] or 0) / (most or 1)):.1f}"'
        title = f"<title>{text_of(_say(row))}</title>"
        circle = f'<circle {place} fill="{_colour(result, row.variant)}" fill-opacity=".55">{title}</circle>'
        drawing.append(f'<a href="{text_of(row.report)}">{circle}</a>' if row.report else circle)
    drawing += _means(result, scenario, xs, ys)
    label = text_of(f"{scenario}: p99 wait over {FIGURES[across].title}")
    return (
        f'<div><h3>{text_of(scenario)}</h3><svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="group" aria-label="{label}">'
        f"{''.join(drawing)}</svg></div>"
    )


def _say(row: Row) -> str:
    return f"{row.variant}, seed {row.seed}: " + ", ".join(
        f"{FIGURES[name].title} {in_words(name, row.figures[name])}" for name in OBJECTIVES
    )


def _means(result: SweepResult, scenario: str, xs: "_Scale", ys: "_Scale") -> Iterator[str]:
    """Yield a ring with its letter for each variant; those that are not on the front are dashed."""
    points = {name: objectives(found) for name in result.variants if (found := result.of(name, scenario))}
    front = find_front(points)
    for name in points:
        found = result.of(name, scenario)
        x, y = xs.at(mean(found, xs.figure) or 0), ys.at(mean(found, "p99_wait") or 0)
        style = 'stroke-width="3"' if name in front else 'stroke-width="1.5" stroke-dasharray="3 3"'
        ring = f'cx="{x:.1f}" cy="{y:.1f}" r="10" stroke="{_colour(result, name)}" {style}'
        letter = f'<text x="{x:.1f}" y="{y + 5:.1f}" text-anchor="middle">{_letter(result, name)}</text>'
        yield f'<g class="ring"><circle {ring}/>{letter}</g>'


@dataclass(frozen=True)
class _Scale:
    """Where values of a figure are drawn."""

    figure: str
    low: float
    high: float
    start: float
    end: float

    @staticmethod
    def over(rows: Sequence[Row], figure: str, start: float, end: float) -> "_Scale":
        values = [row.figures[figure] or 0.0 for row in rows]
        low, high = min(values), max(values)
        margin = (high - low) * 0.08 or max(abs(high) * 0.1, 1.0)
        return _Scale(figure, max(0.0, low - margin), high + margin, start, end)

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def place(self, row: Row) -> float:
        return self.at(row.figures[self.figure] or 0.0)

    def ticks(self) -> Iterator[float]:
        rough = (self.high - self.low) / 5
        size = 10 ** math.floor(math.log10(rough))
        step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
        for number in range(math.ceil(self.low / step), math.floor(self.high / step) + 1):
            yield round(number * step, 9)


def _axes(xs: _Scale, ys: _Scale, across: str) -> Iterator[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for value in xs.ticks():
        x = xs.at(value)
        yield f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{value:,g}</text>'
    for value in ys.ticks():
        y = ys.at(value)
        yield f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{value:,g}</text>'
    yield f'<path class="axis" fill="none" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>'
    yield f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">{_axis_title(across)}</text>'
    middle = (_TOP + bottom) / 2
    yield f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">{_axis_title("p99_wait")}</text>'


def _axis_title(figure: str) -> str:
    unit = FIGURES[figure].unit
    return f"{FIGURES[figure].title}, {unit}" if unit else FIGURES[figure].title


def _variants(result: SweepResult) -> str:
    rows: list[list[Content]] = []
    for scenario in result.scenarios:
        points = {name: objectives(found) for name in result.variants if (found := result.of(name, scenario))}
        front = find_front(points)
        for name in points:
            found = result.of(name, scenario)
            cells = [_figure(figure, mean(found, figure)) for figure in MAIN]
            rows.append([scenario, _name(name), Cell(text="yes" if name in front else "", tone="good"), *cells])
    return make_table(
        ("scenario", "variant", "on the front", *(FIGURES[name].title for name in MAIN)), rows, _MOST_ROWS
    )


def _name(variant: str) -> Cell:
    return Cell(text=variant, tone="name")


def _figure(name: str, value: float | None) -> Cell:
    return Cell(text=in_words(name, value), value=value, tone="short")


def _differences(result: SweepResult) -> str:
    rows: list[list[Content]] = []
    for variant in result.variants:
        if variant == result.baseline:
            continue
        scenarios: list[str | None] = [*result.scenarios]
        for scenario in [*scenarios, None] if len(scenarios) > 1 else scenarios:
            found = result.of(variant, scenario)
            differences = [compare(found, result.partners, figure) for figure in OBJECTIVES] if found else []
            if any(differences):
                pairs = max(one.pairs for one in differences if one is not None)
                cells = [cell for one in differences for cell in _change(one)]
                rows.append([_name(variant), scenario or "all", Cell(text=str(pairs), value=pairs), *cells])
    header = [title for name in OBJECTIVES for title in (FIGURES[name].title, "change", "95% interval")]
    note = (
        '<p class="none">Means over pairs of runs with the same scenario and seed. The interval is a paired bootstrap over '
        "seeds; it is empty with one seed. A change is coloured if the interval does not hold 0.</p>"
    )
    return note + make_table(("variant", "scenario", "pairs", *header), rows, _MOST_ROWS)


def _change(found: Difference | None) -> tuple[Cell, Cell, Cell]:
    if found is None:
        return Cell(text="-"), Cell(text=""), Cell(text="")
    tone = ("good" if found.change < 0 else "bad") if found.is_clear else "short"
    sign = "-" if found.change < 0 else "+"
    said = f"{sign}{in_words(found.figure, abs(found.change))}"
    said += f" ({found.relative:+.1%})" if found.relative is not None else ""
    return (
        _figure(found.figure, found.after),
        Cell(text=said, value=found.change, tone=tone),
        Cell(text=say_interval(found), tone="short"),
    )


def _runs(result: SweepResult) -> str:
    rows: list[list[Content]] = [
        [
            Cell(text=row.id, link=row.report, tone="short"),
            row.scenario,
            _name(row.variant),
            Cell(text=str(row.seed), value=row.seed),
            *(_figure(figure, row.figures[figure]) for figure in MAIN),
        ]
        for row in result.rows
    ]
    return make_table(("run", "scenario", "variant", "seed", *(FIGURES[name].title for name in MAIN)), rows, _MOST_ROWS)
