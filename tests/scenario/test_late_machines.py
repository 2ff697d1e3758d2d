"""Machines that are there and become nodes late, or never: who is left how long (docs/adr/0011-late-machines.md)."""

from typing import Any

import pytest
from tests.scenario.story import LOOP, MINUTE, PROVISION, Story

A = {"name": "a", "price_per_hour": 0.1}
B = {"name": "b", "price_per_hour": 0.2}
STAYS = {"scale-down-enabled": False}
ASKED = LOOP
SEEN = ASKED + LOOP
TIMED_OUT = SEEN + PROVISION + LOOP


def first_one(delay: str, *groups: dict[str, Any], others: int, **settings: Any) -> Story:
    """One machine of a that takes so long, and a minute later so many others that are quick."""
    story = Story(*groups, settings={**STAYS, **settings}, minutes=150)
    story.slow_down("a", delay)
    story.pods(1, at=5)
    story.at(60, lambda: story.slow_down("a", "60s"))
    if others:
        story.pods(others, at=65, name="others")
    return story


def test_a_machine_is_left_four_provision_times_where_others_have_joined_since() -> None:
    story = first_one("50m", A, B, others=2)
    assert len(story.events("ScaleUpTimedOut")) == 1
    assert story.writes("delete") == []
    assert story.machines("a") == len(story.state("a", 55 * MINUTE).readiness.ready) == 3


def test_a_machine_that_never_joins_goes_after_that_time() -> None:
    story = Story(A, B, settings=STAYS, dead_boots=[{"group": "a", "end": "1m"}], minutes=150)
    story.pods(1, at=5)
    story.pods(2, at=65, name="others")
    assert [write[0] for write in story.writes("delete")] == [SEEN + 4 * PROVISION + LOOP]
    assert [at for at, _ in story.events("DeleteUnregistered")] == [SEEN + 4 * PROVISION + LOOP]
    assert [at for at, _ in story.events("ScaleUpTimedOut")] == [TIMED_OUT]
    assert story.state("a", TIMED_OUT).backoff is not None
    assert story.asked("b") == [TIMED_OUT]


def test_a_machine_alone_is_left_two_provision_times() -> None:
    """Nothing shows that the way into the cluster is open; what joined before it proves nothing."""
    story = Story({**A, "size": 2}, B, settings=STAYS, dead_boots=[{"group": "a", "start": "1s"}], minutes=90)
    story.pods(3, at=5)
    assert [write[0] for write in story.writes("delete")] == [SEEN + 2 * PROVISION + LOOP]


@pytest.mark.parametrize("rule", ["ca", "seed"])
def test_the_other_rules_leave_it_one(rule: str) -> None:
    story = first_one("50m", A, B, others=2, **{"size-correction": rule})
    assert story.writes("delete")[0][0] <= TIMED_OUT + LOOP


def test_in_a_full_group_it_is_left_alone_while_nobody_could_take_its_place() -> None:
    """Until the backoff is over the group cannot grow anyway; the machine comes in that time, and serves."""
    story = first_one("18m", {**A, "max_size": 1}, others=0)
    assert len(story.events("ScaleUpTimedOut")) == 1
    assert (story.writes("delete"), story.asked("a")) == ([], [ASKED])
    assert story.result.final.running == 1


def test_in_a_full_group_it_is_left_alone_while_nobody_waits_for_its_place() -> None:
    story = first_one("25m", {**A, "max_size": 1}, B, others=0)
    assert story.asked("b") == [TIMED_OUT]
    assert story.writes("delete") == []
    assert story.machines("a") == 1


def test_in_a_full_group_it_goes_when_pods_wait_for_its_place_and_the_group_may_grow() -> None:
    broken = [{"group": "a", "end": "1m"}]
    story = Story({**A, "max_size": 1}, settings=STAYS, dead_boots=broken, minutes=60)
    story.pods(1, at=5)
    open_again = TIMED_OUT + 5 * MINUTE
    (deleted,) = (write[0] for write in story.writes("delete"))
    assert open_again <= deleted <= open_again + LOOP
    assert story.asked("a")[1] <= deleted + 2 * LOOP
    assert story.result.final.running == 1
