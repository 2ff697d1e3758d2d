"""The page of the daemon: every view of small, empty and hostile clusters, and what is shown while a loop runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import msgspec
import pytest
from core.tests.cli.console.worlds import BAD_NAME, build_last_loop, build_world

from nodewright.actuation import Event, Pause
from nodewright.cli.console.history import History
from nodewright.cli.console.last_loop import LastLoop
from nodewright.cli.console.pages import Console
from nodewright.cli.console.views import View
from nodewright.cli.daemon.debug_server import DebugServer
from nodewright.testkit import FakeClock
from nodewright.testkit.world import NOW

VIEWS = ("/", "/groups", "/pods", "/nodes", "/events")
Looker = Callable[[], LastLoop | str]


class Looking(DebugServer):
    """A source of loops as a test says."""

    def __init__(self, find: Looker) -> None:
        super().__init__(FakeClock(NOW))
        self._find = find

    @contextmanager
    def look(self, _: float = 0.0) -> Iterator[LastLoop | str]:
        yield self._find()


def make_console(find: Looker, history: History | None = None) -> Console:
    return Console(Looking(find), history or History(FakeClock(NOW)), FakeClock(NOW))


def read(console: Console, path: str, **query: str) -> str:
    page = console.pages()[path](query)
    assert page.status == 200, page.body
    assert page.content_type == "text/html; charset=utf-8"
    return page.body.decode()


@pytest.mark.parametrize("kind", ["empty", "small", "hostile"])
@pytest.mark.parametrize("path", VIEWS)
def test_every_view_of_every_cluster(kind: str, path: str) -> None:
    last, history = build_last_loop(build_world(kind)), History(FakeClock(NOW))
    history.record(Event(kind="Node", name=BAD_NAME, reason="Drained", message=f"it is {BAD_NAME}", type="Warning"))
    text = read(make_console(lambda: last, history), path)
    assert BAD_NAME not in text
    assert "<script>" not in text
    assert text.count("</html>") == 1


def test_now_says_who_waits_why_and_which_group_backs_off_until_when() -> None:
    last = build_last_loop(build_world("small"), pause=Pause(since=NOW, until=NOW + 600))
    text = read(make_console(lambda: last), "/")
    assert "Writes to clouds are paused until" in text
    assert "40 not helped" in text
    assert "Insufficient cpu" in text
    assert "backs off" in text
    assert "no capacity in zone a" in text
    assert "$0.1920" in text


def test_a_pod_is_found_by_its_name_and_a_node_by_its_group() -> None:
    last = build_last_loop(build_world("small"))
    console = make_console(lambda: last)
    assert "train-3" in read(console, "/pods", q="train-3")
    assert "There is nothing to show" in read(console, "/pods", q="nobody")
    nodes = read(console, "/nodes", group="cloud/general")
    assert "general-0" in nodes
    assert "gpu-0" not in nodes
    assert "NotUnderutilized" in nodes


@pytest.mark.parametrize("page", ["2", "0", "-1", "x", "99999999999", "²"])
def test_pages_of_a_long_list(page: str) -> None:
    world = build_world("empty")
    for number in range(3):
        world.add_group(f"g{number}", 50, max_size=90)
    last = build_last_loop(world)
    text = read(make_console(lambda: last), "/nodes", page=page)
    assert "150 nodes" in text
    assert f"page {'2' if page == '2' else '1'} of 2" in text


def test_one_object_is_explained_as_by_the_command() -> None:
    last = build_last_loop(build_world("hostile"))
    console = make_console(lambda: last)
    text = read(console, "/object", kind="group", name=f"cloud/{BAD_NAME}")
    assert "backoff" in text
    assert BAD_NAME not in text
    assert console.pages()["/object"]({"kind": "group", "name": "cloud/none"}).status == 404
    assert console.pages()["/object"]({"kind": "cloud", "name": "x"}).status == 400


def test_a_loop_that_failed_is_explained_as_by_the_command() -> None:
    last = build_last_loop(build_world("small"))
    failed = replace(last, report=replace(last.report, plan=None, problem="KeyError: 'a'"))
    console = make_console(lambda: failed)
    assert "KeyError: &#39;a&#39;" in read(console, "/object", kind="loop")
    page = console.pages()["/object"]({"kind": "node", "name": "general-0"})
    assert (page.status, b"KeyError" in page.body) == (503, True)


def test_while_a_loop_runs_the_result_of_the_one_before_is_shown() -> None:
    seen: list[LastLoop | str] = [build_last_loop(build_world("small")), "a loop is running"]
    console = make_console(lambda: seen[0])
    before = read(console, "/")
    del seen[0]
    during = read(console, "/")
    assert "40 not helped" in before
    assert "40 not helped" in during
    assert "the result of the one before" in during
    page = console.pages()["/nodes"]({})
    assert (page.status, b"a loop is running" in page.body) == (503, True)


def test_a_loop_is_looked_at_once() -> None:
    last = build_last_loop(build_world("small"))
    view = View(last)
    assert view.waiting is view.waiting
    assert [row.name for row in view.groups][:1] == ["cloud/spot"]
    assert {row.state for row in view.groups} == {"backs off", "well"}


def test_the_chart_gets_columns_and_the_moments_of_warnings() -> None:
    last, history = build_last_loop(build_world("small")), History(FakeClock(NOW + 2))
    history.take(last.report)
    history.take(last.report)  # too soon after the first
    history.record(Event(kind="Node", name="n", reason="Lost", message="gone", type="Warning"))
    history.record(Event(kind="Node", name="n", reason="Lost", message="gone", type="Warning"))
    history.record(Event(kind="Pod", name="d/p", reason="TriggeredScaleUp", message="helped"))
    told = msgspec.json.decode(make_console(lambda: last, history).pages()["/series.json"]({}).body)
    assert told["samples"]["nodes"] == [12]
    assert told["samples"]["pending"] == [49]
    assert told["warnings"] == [[NOW + 2, "Lost"]]
    assert [(one.event.reason, one.times) for one in history.events()] == [("Lost", 2)]


def test_static_files_come_from_here() -> None:
    pages = make_console(lambda: "nothing yet").pages()
    for name in ("console.css", "console.js", "htmx.min.js", "uPlot.iife.min.js", "uPlot.min.css", "icon.svg"):
        page = pages[f"/static/{name}"]({})
        assert page.status == 200
        assert page.lasts
        assert b"//cdn" not in page.body
