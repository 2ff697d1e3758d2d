"""The page in Chromium: nothing goes wrong, nothing comes from elsewhere, and it fits a phone."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
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
    "/what-if?add=name%3Dx%2Ccpu%3D9%2Cmemory%3D9Gi",
    "/object?kind=pod&name=default/train-0",
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    """The address of a daemon's page, with names that a browser might run."""
    server = DebugServer(FakeClock(NOW))
    for number in range(3):
        last = build_last_loop(build_world("hostile"))
        server.publish(replace(last.report, finished=NOW + 60 * number), last.settings, None)
    server.history.record(Event(kind="Node", name=BAD_NAME, reason="Lost", message=BAD_NAME, type="Warning"))
    web = WebServer("debug_address", "127.0.0.1:0", server.pages())
    web.start()
    yield f"http://127.0.0.1:{web.port}"
    web.stop()


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
    assert complaints == []
    assert all(url.startswith(place) for url in asked)
