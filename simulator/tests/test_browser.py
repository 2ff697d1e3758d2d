"""In a real browser every chart is drawn, nothing is fetched and nothing goes wrong."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodewright_simulator.report import write_report
from nodewright_simulator.result import SimulationResult

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
SHAPES = {
    "Pods": {"lines": 2},
    "Nodes per group": {"lines": 2, "points": 2},
    "Utilisation": {"lines": 2},
    "Cost per hour": {"lines": 2},
    "Cost so far": {"lines": 1},
}
COUNT_SHAPES = """sections => Object.fromEntries(sections.filter(s => s.querySelector('.js-plotly-plot')).map(s => [
    s.querySelector('h2').textContent,
    {
        lines: [...s.querySelectorAll('.scatterlayer .js-line')].filter(p => p.getTotalLength() > 10).length,
        points: s.querySelectorAll('.scatterlayer .point').length,
        legend: [...s.querySelectorAll('.legendtext')].map(t => t.textContent),
    }]))"""


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
        self.page.wait_for_function("() => [...document.querySelectorAll('.js-plotly-plot')].length > 2")
        self.page.wait_for_selector(".scatterlayer .js-line")
        charts: dict[str, dict[str, Any]] = self.page.eval_on_selector_all("section", COUNT_SHAPES)
        return charts


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{CHROMIUM} is missing, and in CI it must be there")
        pytest.skip(f"{CHROMIUM} is not installed: the report was not looked at in a browser")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    page = browser.new_page(viewport={"width": 1240, "height": 900})
    yield Visit(page)
    page.close()


def test_every_chart_is_drawn_and_nothing_is_fetched(run: SimulationResult, visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(write_report(run), encoding="utf-8")
    charts = visit.open(file)
    drawn = {title: {kind: chart[kind] for kind in SHAPES[title]} for title, chart in charts.items()}
    assert drawn == SHAPES
    assert charts["Nodes per group"]["legend"] == ["failure", "scale-up", "fake/large", "fake/small"]
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


MEASURE = """charts => charts.map(chart => {
    const box = selector => chart.querySelector(selector).getBoundingClientRect();
    return {
        plot: box('.nsewdrag').width, chart: chart.getBoundingClientRect().width,
        legend: box('.legend').bottom, top: box('.nsewdrag').top,
        paper: getComputedStyle(chart.querySelector('.main-svg')).backgroundColor,
    }})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_wide_charts_with_the_legend_above_in_the_colours_of_the_page(
    run: SimulationResult, browser: Any, tmp_path: Path, scheme: str
) -> None:
    file = tmp_path / "report.html"
    file.write_text(write_report(run), encoding="utf-8")
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    visit = Visit(page)
    visit.open(file)
    page.wait_for_timeout(300)
    measured = page.eval_on_selector_all(".js-plotly-plot", MEASURE)
    assert len(measured) == len(SHAPES)
    for chart in measured:
        assert chart["plot"] > 0.65 * chart["chart"]
        assert chart["legend"] <= chart["top"] + 8
        assert chart["paper"] == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(22, 27, 34)")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert visit.complaints == []
    page.close()
