"""The page in Chromium: nothing goes wrong, nothing comes from elsewhere, and it fits a phone."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from core.tests.cli.console.test_what_if import make_server
from core.tests.cli.console.worlds import BAD_NAME, build_last_loop, build_world

from nodewright.actuation import Event
from nodewright.adapters.web import WebServer
from nodewright.cli.daemon.debug_server import DebugServer
from nodewright.testkit import FakeClock
from nodewright.testkit.world import NOW

PATHS = (
    "/",
    "/groups",
    "/pods",
    "/nodes",
    "/events",
    "/what-if",
    "/what-if?add=name%3Dx%2Ccpu%3D9%2Cmemory%3D9Gi",
    "/what-if?add=wrong",
    "/object?kind=pod&name=default/train-0",
)

pytestmark = pytest.mark.slow


@contextmanager
def serve(server: DebugServer) -> Iterator[str]:
    web = WebServer("debug_address", "127.0.0.1:0", server.pages())
    web.start()
    try:
        yield f"http://127.0.0.1:{web.port}"
    finally:
        web.stop()


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    """The address of a daemon's page, with names that a browser might run."""
    server, last = make_server(build_world("hostile")), build_last_loop(build_world("hostile"))
    for number in range(3):
        server.publish(replace(last.report, finished=NOW + 60 * number), last.settings, None)
    server.history.record(Event(kind="Node", name=BAD_NAME, reason="Lost", message=BAD_NAME, type="Warning"))
    with serve(server) as address:
        yield address


@pytest.fixture(scope="module")
def other_places() -> Iterator[Mapping[str, str]]:
    """Addresses of pages of an empty cluster, of a large one, and of a daemon whose first loop has not ended."""
    with ExitStack() as opened:
        found = {"nothing": opened.enter_context(serve(DebugServer(FakeClock(NOW))))}
        for kind in ("empty", "large"):
            server, last = DebugServer(FakeClock(NOW)), build_last_loop(build_world(kind))
            server.publish(last.report, last.settings, None)
            found[kind] = opened.enter_context(serve(server))
        yield found


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_view(browser: Any, place: str, width: int, scheme: str) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page.set_default_timeout(120_000)
    complaints: list[str] = []
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    for path in PATHS:
        page.goto(place + path)
        if path in ("/", "/events"):
            page.wait_for_selector("#chart canvas")
        assert page.evaluate("document.documentElement.scrollWidth") == width, path
        assert page.locator("h1").count() == 1
    # What htmx fetches replaces the view, and leaves the chart alone.
    page.goto(place)
    page.wait_for_selector("#chart canvas")
    page.locator(".asof").evaluate("line => line.setAttribute('data-old', '')")
    page.wait_for_selector(".asof:not([data-old])", timeout=60_000)
    assert page.locator("#chart canvas").count() == 1
    # A keyboard reaches the search.
    page.goto(f"{place}/nodes")
    page.keyboard.press("/")
    page.keyboard.type("general-3")
    page.keyboard.press("Enter")
    page.wait_for_url("**/nodes?q=general-3")
    assert page.locator("tbody tr").count() == 1
    page.close()
    refused = [one for one in complaints if "status of 400" in one]  # the question that is wrong
    assert complaints == refused[:1]
    assert all(url.startswith(place) for url in asked)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_axe_finds_nothing_serious(axe: Any, browser: Any, place: str, width: int, scheme: str) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page.set_default_timeout(120_000)
    for path in PATHS:
        page.goto(place + path)
        assert axe.find_faults(page) == [], path
    assert axe.find_planted_fault(page) == ["image-alt"]
    page.close()


@pytest.mark.parametrize("kind", ["nothing", "empty", "large"])
def test_other_clusters_fit_a_phone(browser: Any, other_places: Mapping[str, str], kind: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
    page.set_default_timeout(120_000)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    for path in ("/", "/groups", "/pods", "/nodes", "/events", "/what-if"):
        page.goto(other_places[kind] + path)
        assert page.locator("h1").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") == 390, path
    assert complaints == []
    page.close()


@pytest.mark.parametrize("kind", ["nothing", "empty", "large"])
def test_axe_finds_nothing_serious_in_other_clusters(
    axe: Any, browser: Any, other_places: Mapping[str, str], kind: str
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
    page.set_default_timeout(120_000)
    for path in ("/", "/groups", "/pods", "/nodes"):
        page.goto(other_places[kind] + path)
        assert axe.find_faults(page) == [], path
    page.close()


# Whether a person sees where the focus is.
SHOWS_FOCUS = """() => { const style = getComputedStyle(document.activeElement);
    return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0; }"""


def tab_to(page: Any, reached: str) -> None:
    """Press the tabulator until the expression about the focused ``element`` is true; each stop shows the focus."""
    for _ in range(40):
        page.keyboard.press("Tab")
        assert page.evaluate(SHOWS_FOCUS)
        if page.evaluate(f"() => {{ const element = document.activeElement; return {reached}; }}"):
            return
    pytest.fail(f"no stop of the tabulator is one with {reached}")


def test_a_keyboard_is_enough(browser: Any, place: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 844})
    page.set_default_timeout(120_000)
    page.goto(place)
    for title, path in (("Groups", "/groups"), ("Nodes", "/nodes"), ("Events", "/events"), ("What if", "/what-if")):
        tab_to(page, f"element.textContent.trim() === '{title}'")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**{path}")
    # The first stop leads past the views.
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    tab_to(page, "element.name === 'add'")
    page.keyboard.type("name=xl,cpu=96,memory=768Gi,price_per_hour=4,max_size=50")
    page.keyboard.press("Enter")
    page.wait_for_url("**/what-if?add=*")
    assert page.get_by_role("heading", name="Difference to now").count() == 1
    # By the button, and with a value that is refused: the page says so, and keeps what was typed.
    tab_to(page, "element.name === 'workload'")
    page.keyboard.type("default/none")
    tab_to(page, "element.name === 'replicas'")
    page.keyboard.type("many")
    tab_to(page, "element.tagName === 'BUTTON'")
    page.keyboard.press("Enter")
    page.wait_for_url("**replicas=many*")
    assert "give how many the workload is to have" in page.get_by_role("status").inner_text()
    assert page.locator("input[name=workload]").input_value() == "default/none"
    page.close()
