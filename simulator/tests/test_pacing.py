"""The simulation runs exactly the loops that can change something."""

import math

from nodewright_simulator.agenda import Agenda
from nodewright_simulator.simulation import Pacing


def settled(timer: float = math.inf) -> Pacing:
    pacing = Pacing(0.0, 10.0)
    pacing.ran(10.0, settled=True, timer=timer)
    return pacing


def test_the_first_loop_runs_at_the_start() -> None:
    assert Pacing(100.0, 10.0).next_loop() == 100.0


def test_a_settled_engine_sleeps_until_something_changes() -> None:
    pacing = settled()
    assert pacing.next_loop() == math.inf
    pacing.changed(43.0)
    pacing.changed(57.0)
    assert pacing.next_loop() == 50.0


def test_a_change_on_a_tick_is_seen_by_that_tick() -> None:
    pacing = settled()
    pacing.changed(50.0)
    assert pacing.next_loop() == 50.0


def test_a_change_before_the_next_tick_waits_for_it() -> None:
    pacing = settled()
    pacing.changed(3.0)
    assert pacing.next_loop() == 10.0


def test_an_unsettled_engine_runs_at_the_next_tick() -> None:
    pacing = Pacing(0.0, 10.0)
    pacing.ran(10.0, settled=False, timer=math.inf)
    assert pacing.next_loop() == 10.0


def test_a_timer_is_passed_only_beyond_its_moment() -> None:
    assert settled(timer=35.0).next_loop() == 40.0
    assert settled(timer=40.0).next_loop() == 50.0
    assert settled(timer=5.0).next_loop() == 10.0


def test_the_earlier_of_change_and_timer_counts() -> None:
    pacing = settled(timer=75.0)
    pacing.changed(43.0)
    assert pacing.next_loop() == 50.0


def test_every_tick_means_every_tick() -> None:
    pacing = Pacing(0.0, 10.0, every_tick=True)
    pacing.ran(10.0, settled=True, timer=math.inf)
    assert pacing.next_loop() == 10.0


def test_happenings_of_one_moment_keep_their_order_and_may_set_off_more() -> None:
    agenda, seen = Agenda(), list[str]()

    def note(name: str) -> None:
        agenda.at(5.0, lambda at: seen.append(f"{name}@{at:g}"))

    agenda.at(9.0, lambda _: seen.append("later"))
    agenda.at(5.0, lambda _: note("third"))
    note("first")
    note("second")
    assert agenda.run_next() == 5.0
    assert seen == ["first@5", "second@5", "third@5"]
    assert agenda.next_due() == 9.0
