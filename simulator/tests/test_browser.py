"""In a real browser every chart is drawn, nothing is fetched and nothing goes wrong."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.comparison import Side, write_comparison
from nodewright_simulator.openb import demo_scenario
from nodewright_simulator.report import write_report
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.sweep.compare import Row
from nodewright_simulator.sweep.figures import FIGURES
from nodewright_simulator.sweep.sweep_page import SweepResult, write_sweep_page

EVIL = "</script><img src=x onerror=alert(1)>"

LINES = {"Pods": 2, "Nodes per group": 2, "Waits": 1, "Utilisation": 2, "Cost per hour": 2, "Cost so far": 1}
# How much of each line's colour is on its canvas, by the title of the chart.
COUNT_SHAPES = """sections => Object.fromEntries(sections.filter(s => s.querySelector('canvas')).map(s => {
    const canvas = s.querySelector('canvas'), keys = [...s.querySelectorAll('.keys i')];
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const near = (i, [r, g, b]) => Math.abs(pixels[i] - r) + Math.abs(pixels[i + 1] - g) + Math.abs(pixels[i + 2] - b) < 12;
    const drawn = keys.filter(key => {
        const wanted = getComputedStyle(key).backgroundColor.match(/\\d+/g).map(Number);
        let found = 0;
        for (let i = 0; i < pixels.length; i += 4) found += pixels[i + 3] > 200 && near(i, wanted);
        return found > 20;
    });
    return [s.querySelector('h2').textContent, {lines: drawn.length, legend: [...s.querySelectorAll('.keys li')].map(t => t.textContent)}];
    }))"""


class Visit:
    """A page that is open, and all that it asked for, said and got wrong."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))

    def open(self, file: Path) -> dict[str, dict[str, Any]]:
        """The charts by title: how many lines and points are drawn, and the legend."""
        self.page.goto(file.as_uri())
        self.page.wait_for_function("() => plots.length > 2 && plots.every(plot => plot.status === 1)")
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        charts: dict[str, dict[str, Any]] = self.page.eval_on_selector_all("section", COUNT_SHAPES)
        return charts


pytestmark = pytest.mark.slow


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    page = browser.new_page(viewport={"width": 1240, "height": 900})
    yield Visit(page)
    page.close()


def test_every_chart_is_drawn_and_nothing_is_fetched(run: SimulationResult, visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(write_report(run), encoding="utf-8")
    charts = visit.open(file)
    assert {title: chart["lines"] for title, chart in charts.items()} == LINES
    assert charts["Nodes per group"]["legend"] == ["fake/small", "fake/large"]
    assert charts["Cost per hour"]["legend"] == ["all machines", "lower bound"]
    assert visit.requests == [file.as_uri()]
    assert visit.complaints == []


def test_names_are_shown_and_never_run(evil_run: SimulationResult, visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(write_report(evil_run), encoding="utf-8")
    charts = visit.open(file)
    assert any(name.startswith("</script><img src=x") for name in charts["Nodes per group"]["legend"])
    assert "<img src=x onerror=alert(1)>" in visit.page.inner_text("h1")
    assert visit.page.locator("img").count() == 0
    assert visit.requests == [file.as_uri()]
    assert visit.complaints == []


MEASURE = """charts => charts.map(chart => ({
    plot: chart.querySelector('.u-over').getBoundingClientRect().width, chart: chart.getBoundingClientRect().width,
    legend: chart.parentElement.querySelector('.keys').getBoundingClientRect().bottom, top: chart.getBoundingClientRect().top,
    paper: getComputedStyle(chart.parentElement).backgroundColor,
    }))"""


@pytest.mark.parametrize("width", [390, 820, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_are_wide_with_the_legend_above_in_the_colours_of_the_page(
    run: SimulationResult, browser: Any, tmp_path: Path, scheme: str, width: int
) -> None:
    file = tmp_path / "report.html"
    file.write_text(write_report(run), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    visit = Visit(page)
    visit.open(file)
    measured = page.eval_on_selector_all(".chart", MEASURE)
    assert len(measured) == len(LINES)
    for chart in measured:
        assert chart["plot"] > 0.7 * chart["chart"]
        assert chart["legend"] <= chart["top"]
        assert chart["paper"] == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(22, 27, 34)")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert visit.complaints == []
    page.close()


def test_a_zoom_moves_all_charts_and_tracks(run: SimulationResult, visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(write_report(run), encoding="utf-8")
    visit.open(file)
    visit.page.evaluate("() => plots[0].setScale('x', {min: 0, max: 30})")
    visit.page.wait_for_function("() => plots.filter(plot => plot.scales.x.max === 30).length === 5")
    place = "() => Math.round(parseFloat(document.querySelector('.track i').style.left))"
    assert visit.page.evaluate(place) == 3  # a minute of thirty
    assert visit.complaints == []


def test_a_table_is_sorted_and_filtered(run: SimulationResult, visit: Visit, tmp_path: Path) -> None:
    steps = [replace(run.decisions[0], at=float(number), group=f"g{number % 7}", pods=number) for number in range(20)]
    file = tmp_path / "report.html"
    file.write_text(write_report(replace(run, decisions=steps)), encoding="utf-8")
    visit.open(file)
    table = visit.page.locator("section", has=visit.page.get_by_role("heading", name="Decisions"))
    first = table.locator("tbody tr:visible td:nth-child(5)").first
    table.get_by_role("button", name="pods").click()
    assert first.inner_text() == ""
    table.get_by_role("button", name="pods").click()
    assert first.inner_text() == "19"
    table.get_by_role("searchbox").fill("g3")
    assert table.locator("tbody tr:visible").count() == 3
    assert visit.complaints == []


@pytest.mark.parametrize("look", [(width, scheme) for width in (390, 1280) for scheme in ("light", "dark")])
@pytest.mark.parametrize("kind", ["report", "comparison", "sweep", "demo"])
def test_axe_finds_nothing_serious(
    axe: Any, run: SimulationResult, browser: Any, tmp_path: Path, kind: str, look: tuple[int, str]
) -> None:
    width, scheme = look
    file = tmp_path / "page.html"
    scenario = demo_scenario()
    sides = (Side("one", run, scenario), Side("other", run, scenario))
    pages: dict[str, Callable[[], str]] = {
        "report": lambda: write_report(run, scenario),
        "comparison": lambda: write_comparison(*sides),
        "sweep": lambda: write_sweep_page(make_sweep()),
        "demo": lambda: write_report(build_simulation(scenario, BuildOptions()).run(), scenario),
    }
    file.write_text(pages[kind](), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(file.as_uri())
    if kind != "sweep":
        page.wait_for_function("() => plots.length > 2 && plots.every(plot => plot.status === 1)")
    assert axe.find_faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert axe.find_planted_fault(page) == ["image-alt"]
    page.close()


def make_sweep() -> SweepResult:
    rows = [
        Row(
            id=f"{variant}-{seed}",
            sweep="x",
            variant=variant,
            scenario="two zones",
            seed=seed,
            version="0",
            settings={"expander": variant},
            figures={**dict.fromkeys(FIGURES, 1.0 + seed), "cost": cost + seed, "evictions": float(seed)},
            report=f"runs/{variant}-{seed}.html",
        )
        for variant, cost in (("price", 4.0), ("random", 5.0), (EVIL, 6.0))
        for seed in range(4)
    ]
    partners = {row.id: rows[row.seed] for row in rows}
    return SweepResult(
        name="x",
        rows=rows,
        variants=("price", "random", EVIL),
        scenarios=("two zones",),
        baseline="price",
        partners=partners,
    )
