"""The clock of durations under jumps of the wall clock: 30 s, 10 min and a day, both ways."""

from dataclasses import dataclass, field

import pytest

from nodewright.adapters.clocks import FOLLOWS, SteadyClock

START = 1_700_000_000.0
JUMPS = [sign * size for size in (30.0, 600.0, 86400.0) for sign in (1, -1)]


@dataclass
class Machine:
    """Its time since boot, and by how much its time of day is off."""

    passed: float = 5000.0
    jumped: float = 0.0
    slept: list[float] = field(default_factory=list)

    def wall(self) -> float:
        return START + self.passed - 5000.0 + self.jumped

    def elapsed(self) -> float:
        return self.passed

    def clock(self) -> SteadyClock:
        return SteadyClock(self.wall, self.elapsed, self.slept.append)


def test_without_jumps_it_tells_the_wall_clocks_time() -> None:
    machine = Machine()
    clock = machine.clock()
    for _ in range(1000):
        machine.passed += 7.7
        assert clock.now() == pytest.approx(machine.wall(), abs=1e-5)


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("looks", [1, 60])
def test_no_duration_is_wrong_by_more_than_a_tenth(jump: float, looks: int) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.jumped = jump
    before = clock.now()
    for _ in range(looks):
        machine.passed += 600.0 / looks
        clock.now()
    assert 600.0 * (1 - FOLLOWS) - 1e-3 <= clock.now() - before <= 600.0 * (1 + FOLLOWS) + 1e-3


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_that_is_taken_back_after_30_s_leaves_3_s_at_most(jump: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.jumped = jump
    machine.passed += 30.0
    told = clock.now()
    machine.jumped = 0.0
    assert abs(clock.behind()) <= 3.0 + 1e-3
    machine.passed += 30.0
    assert clock.now() > told
    assert clock.now() == pytest.approx(machine.wall(), abs=1e-3)


@pytest.mark.parametrize("jump", JUMPS)
def test_a_lasting_correction_is_followed_in_ten_times_its_length(jump: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.jumped = jump
    for _ in range(100):
        before = clock.now()
        machine.passed += abs(jump) / 10
        assert clock.now() > before
    assert clock.behind() == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("jump", JUMPS)
def test_a_clock_that_starts_takes_the_wall_clocks_time_over_at_once(jump: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.jumped = jump
    clock.start()
    assert clock.now() == machine.wall()
    machine.passed += 10.0
    assert clock.now() == machine.wall()


def test_a_sleep_is_as_long_as_it_says() -> None:
    machine = Machine()
    clock = machine.clock()
    clock.sleep(3.0)
    clock.sleep(-1.0)
    assert machine.slept == [3.0, 0.0]
