"""The API server's time from the dates of its responses, beside a machine whose clock is wrong or is set."""

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewright.adapters.clocks import SteadyClock
from nodewright.adapters.server_time import DAY, FARTHEST_AHEAD, OLDEST, JumpWatch, ServerTime

START = OLDEST + 100 * DAY


@dataclass
class World:
    """The API server's true time, and how far the machine's clock is ahead of it."""

    true: float = START
    ahead: float = 0.0
    server_ahead: float = 0.0

    def now(self) -> float:
        return self.true + self.ahead

    def sleep(self, seconds: float) -> None:
        self.true += seconds

    def elapsed(self) -> float:
        return self.true - START + 5000.0

    def time(self) -> ServerTime:
        return ServerTime(self, self.elapsed)

    def respond(self, time: ServerTime, there: float = 0.01, back: float = 0.01) -> None:
        """Let a response come that took so long."""
        asked = time.elapsed()
        self.true += there
        date = math.floor(self.true + self.server_ahead)
        self.true += back
        time.hear(date, asked)


def test_until_a_response_comes_it_is_the_machines_time() -> None:
    world = World(ahead=-77.0)
    time = world.time()
    assert time.now() == world.now()
    world.ahead += 30.0
    assert (time.now(), time.is_heard, time.problem()) == (world.now(), False, "")


@pytest.mark.parametrize("ahead", [DAY, -DAY, 30.0, -30.0, 400 * DAY, -29 * DAY])
def test_one_response_corrects_a_machine_whose_clock_is_wrong(ahead: float) -> None:
    world = World(ahead=ahead)
    time = world.time()
    world.respond(time)
    assert time.now() == pytest.approx(world.true, abs=0.6)
    assert ("ahead of" if ahead > 0 else "behind") in time.problem()


def test_a_machine_whose_clock_was_never_set_is_corrected() -> None:
    world = World(ahead=-START)
    time = world.time()
    world.respond(time)
    assert time.now() == pytest.approx(world.true, abs=0.6)


@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.floats(0, 40), st.floats(0, 40), st.sampled_from((0.0, 30.0, -DAY))), min_size=1
    )
)
def test_the_more_it_hears_the_better_it_knows(calls: list[tuple[float, float, float, float]]) -> None:
    """Slow responses do not spoil what quick ones told, nor does a machine whose clock is set."""
    world = World(ahead=DAY)
    time, allowed = world.time(), math.inf
    for pause, there, back, jump in calls:
        world.true += pause
        world.ahead += jump
        world.respond(time, there, back)
        allowed = min(allowed, 1.0 + there + back)
        assert abs(time.now() - world.true) <= allowed + 1e-3


def test_a_machine_whose_clock_is_right_is_followed_exactly() -> None:
    world = World()
    time = world.time()
    for _ in range(100):
        world.true += 7.77
        world.respond(time)
        assert time.now() == pytest.approx(world.now(), abs=1e-5)
    assert time.problem() == ""


@pytest.mark.parametrize("jump", [DAY, -DAY, 600.0, -30.0])
def test_nothing_follows_when_the_machines_clock_is_set(jump: float) -> None:
    world = World()
    time = world.time()
    world.respond(time)
    world.ahead = jump
    world.true += 100.0
    assert time.now() == pytest.approx(world.true, abs=1e-5)


@pytest.mark.parametrize("jump", [DAY, -DAY, -600.0, 30.0])
def test_the_api_servers_clock_is_followed_when_it_is_set(jump: float) -> None:
    """At once here; the steady clock that is built on it runs a tenth faster or slower."""
    world = World()
    time = world.time()
    world.respond(time)
    steady = SteadyClock(time.now, world.elapsed, world.sleep)
    before = steady.now()
    world.server_ahead = jump
    world.true += 99.98
    world.respond(time)
    assert time.now() == pytest.approx(world.true + jump, abs=1.1)
    assert 90.0 <= steady.now() - before <= 110.0


@pytest.mark.parametrize("claimed", [FARTHEST_AHEAD + DAY, 3650 * DAY, OLDEST - START - DAY, -START])
def test_a_date_that_cannot_be_is_ignored_and_told(claimed: float) -> None:
    world = World(server_ahead=claimed)
    time = world.time()
    world.respond(time)
    assert (time.now(), time.is_heard) == (world.now(), False)
    assert time.problem().endswith("which cannot be: this machine's clock is used")
    world.server_ahead = 0.0
    world.respond(time)
    world.ahead, world.server_ahead = DAY, claimed
    world.respond(time)
    assert time.now() == pytest.approx(world.true, abs=1e-5)
    assert time.problem().endswith("which cannot be: its earlier responses are used")
    world.ahead = world.server_ahead = 0.0
    world.respond(time)
    assert time.problem() == ""


def test_responses_without_a_date_are_told_until_one_has_it() -> None:
    world = World(ahead=DAY)
    time = world.time()
    time.hear(None, time.elapsed())
    assert time.now() == world.now()
    assert "have no Date header" in time.problem()
    world.respond(time)
    time.hear(None, time.elapsed())
    assert time.now() == pytest.approx(world.true, abs=0.6)
    assert time.problem().endswith("ahead of the API server's, whose time is used instead")


@pytest.mark.parametrize("jump", [30.0, -30.0, DAY, -DAY])
def test_a_jump_is_told_once_there_and_once_back(jump: float) -> None:
    world = World()
    watch = JumpWatch(world.now, world.elapsed)
    world.true += 10.0
    world.ahead = jump
    assert [round(watch.take()), watch.take()] == [jump, 0.0]
    world.true += 30.0
    world.ahead = 1.0
    assert [round(watch.take()), watch.take()] == [1.0 - jump, 0.0]
    world.ahead = 0.0
    assert watch.take() == 0.0


def test_api_servers_whose_clocks_differ_are_told_four_times() -> None:
    """Each loop hears another one; what is used goes to and fro, and the steady clock stays between the two."""
    world = World()
    time = world.time()
    world.respond(time)
    watch = JumpWatch(time.now, world.elapsed)
    steady = SteadyClock(time.now, world.elapsed, world.sleep)
    told = []
    for loop in range(100):
        world.true += 10.0
        world.server_ahead = 0.0 if loop % 2 else 30.0
        world.respond(time)
        told.append(round(watch.take()))
        assert world.true - 1.5 <= steady.now() <= world.true + 31.5
    assert told[:4] == pytest.approx([30, -30, 30, -30], abs=2)
    assert told[4:] == [0] * 96
    world.server_ahead = 3600.0
    world.respond(time)
    assert watch.take() == pytest.approx(3600, abs=32)
