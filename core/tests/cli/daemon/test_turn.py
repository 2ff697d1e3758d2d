"""Whose turn it is: a loop waits for one page at most, however many are asked for."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue
from typing import TypeVar

import pytest
from core.tests.cli.console.worlds import build_world

from nodewright.cli.daemon.debug_server import DebugServer
from nodewright.cli.daemon.turn import Turn
from nodewright.engine.report import LoopReport
from nodewright.model.settings import Settings
from nodewright.testkit import FakeClock
from nodewright.testkit.world import NOW

T = TypeVar("T")
LONG = 60.0


class Watched(threading.Condition):
    """Tells ``waits`` of each thread that waits for its turn, in the order in which they come."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: Queue[str] = Queue()

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        self.waits.put(threading.current_thread().name)
        return super().wait_for(predicate, timeout)


def test_a_loop_goes_before_pages_that_wait_longer() -> None:
    watched, order = Watched(), Queue[str]()
    turn = Turn(watched)

    def page() -> None:
        with turn.page(LONG) as got:
            order.put(f"page {got}")

    def loop() -> None:
        with turn.loop():
            order.put("loop")

    pages = [threading.Thread(target=page, name="page") for _ in range(10)]
    waiting = threading.Thread(target=loop, name="loop")
    with turn.page(LONG):
        watched.waits.get(timeout=LONG)
        for thread in (*pages, waiting):
            thread.start()
            watched.waits.get(timeout=LONG)
    for thread in (*pages, waiting):
        thread.join(LONG)
    assert [order.get_nowait() for _ in range(11)] == ["loop", *["page True"] * 10]


def test_no_page_gets_the_turn_while_a_loop_has_it_and_all_may_have_it_later() -> None:
    turn = Turn()
    with turn.loop(), turn.page(0.0) as got:
        assert not got
    for _ in range(2):
        with turn.page(0.0) as got:
            assert got


class CountedTurn(Turn):
    """Counts the pages that are written, and whether one is written while it has the turn."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0
        self.looked = False

    @contextmanager
    def page(self, patience: float) -> Iterator[bool]:
        with super().page(patience) as got:
            self.looked = True
            yield got
            self.looked = False

    @contextmanager
    def writing(self) -> Iterator[None]:
        assert not self.looked
        self.written += 1
        yield


@pytest.mark.parametrize(
    ("path", "query"),
    [
        *((path, {}) for path in ("/", "/groups", "/pods", "/nodes", "/events", "/status", "/bundle")),
        ("/what-if", {}),
        ("/object", {"kind": "loop"}),
        ("/object", {"kind": "pod", "name": "none"}),
        ("/explain", {"kind": "loop"}),
    ],
)
def test_pages_are_written_one_at_a_time_and_without_the_turn(path: str, query: dict[str, str]) -> None:
    turn = CountedTurn()
    server = DebugServer(FakeClock(NOW), turn=turn)
    state = build_world("small").state()
    server.publish(LoopReport(started=NOW, finished=NOW, state=state), Settings(), None)
    server.pages()[path](query | ({"output": "table"} if path in ("/status", "/explain") else {}))
    assert turn.written > 0
