"""A deadline starts a loop right after it passes, and never a busy loop."""

import math

import pytest

from nodewright.engine.timers import WakeUps


class Loops:
    """Loops that take no time: each starts when the last one says, at the latest a scan interval after it."""

    def __init__(self, interval: float = 10.0) -> None:
        self._wake_ups = WakeUps()
        self._interval = interval
        self.now = 1_800_000_000.0

    def run(self, deadline: float, *, did_something: bool = False) -> float:
        """Run a loop that finds the deadline; return how many seconds later the next one starts."""
        started, interval = self.now, self._interval
        wake_at = self._wake_ups.next_at(deadline, started=started, did_something=did_something, scan_interval=interval)
        self.now = min(wake_at, started + interval)
        return self.now - started


def test_a_loop_starts_right_after_the_deadline() -> None:
    loops = Loops()
    assert loops.run(loops.now + 3) == pytest.approx(3.01)
    assert loops.run(math.inf) == 10


def test_the_scan_comes_first() -> None:
    assert Loops().run(1_800_000_011.0) == 10


def test_a_deadline_that_stays_due_slows_down_to_the_scan_interval() -> None:
    loops = Loops()
    waits = [loops.run(loops.now) for _ in range(8)]
    assert waits == pytest.approx([0.01, 1, 2, 4, 8, 10, 10, 10])


def test_a_deadline_in_the_past_does_too() -> None:
    loops = Loops()
    waits = [loops.run(loops.now - 500) for _ in range(5)]
    assert waits == pytest.approx([0, 1, 2, 4, 8], abs=0.01)


def test_loops_that_do_something_follow_after_a_second() -> None:
    loops = Loops()
    waits = [loops.run(loops.now + 0.1, did_something=True) for _ in range(4)]
    assert waits == pytest.approx([0.11, 1, 1, 1])


def test_a_loop_without_a_deadline_ends_the_pause() -> None:
    loops = Loops()
    for _ in range(3):
        loops.run(loops.now)
    assert loops.run(math.inf) == 10
    assert loops.run(loops.now + 0.5) == pytest.approx(0.51)


def test_a_deadline_further_away_ends_the_pause() -> None:
    loops = Loops(interval=30.0)
    for _ in range(4):
        loops.run(loops.now)
    assert loops.run(loops.now + 9) == pytest.approx(9.01)
    assert loops.run(loops.now + 0.5) == 1
