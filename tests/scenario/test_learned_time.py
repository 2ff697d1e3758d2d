"""Learned provision times in whole loops: a dead pool is left in minutes, a slow one is not (docs/adr/0008-probation-and-learned-time.md)."""

from typing import Any

import pytest
from tests.scenario.story import LOOP, MINUTE, SILENT, Story

CHEAP = {"name": "a", "price_per_hour": 0.1}
DEAR = {"name": "b", "price_per_hour": 0.2}
TAUGHT = 40 * MINUTE
DEAD = [{"group": "a", "start": TAUGHT}]


def taught(*groups: dict[str, Any], settings: dict[str, str] | None = None, **cloud: Any) -> Story:
    """Group a has brought ten machines three times, each in 70 seconds, when ten more pods come."""
    auto = {"max-node-provision-time": "auto", "hedging": "off", **(settings or {})}
    story = Story(*(groups or (CHEAP, DEAR)), settings=auto, switched_off=SILENT, minutes=120, **cloud)
    for number in range(3):
        story.pods(10, at=5 + number * 10 * MINUTE, name=f"taught-{number}")
    story.pods(10, at=TAUGHT + 5, name="late")
    return story


def patience(story: Story, at: float) -> float:
    return story.state("a", at).seen.options.max_node_provision_seconds


def test_a_dead_pool_is_left_in_minutes_once_it_is_known_how_long_machines_take() -> None:
    story = taught(stock_outs=DEAD)
    learned = patience(story, TAUGHT)
    assert 150 < learned < 240
    asked = story.asked("a")[3]
    assert asked == TAUGHT + LOOP
    (instead,) = story.asked("b")
    assert asked + learned < instead <= asked + learned + 2 * LOOP
    assert story.result.final.pending == 0


def test_without_history_the_ordinary_time_holds() -> None:
    story = Story(
        CHEAP,
        DEAR,
        settings={"max-node-provision-time": "auto", "hedging": "off"},
        switched_off=SILENT,
        stock_outs=[{"group": "a"}],
        minutes=40,
    )
    story.pods(10, at=5)
    assert story.asked("b") == [pytest.approx(LOOP + 15 * MINUTE, abs=2 * LOOP)]


def test_what_was_learned_survives_a_restart() -> None:
    story = taught(stock_outs=DEAD)
    story.simulation.engine.restart(TAUGHT - MINUTE)
    story.simulation.engine.restart(TAUGHT + MINUTE)
    asked = story.asked("a")[3]
    assert story.asked("b")[0] <= asked + 240 + 2 * LOOP


def test_machines_that_boot_and_never_join_are_given_up_by_what_was_learned() -> None:
    story = taught(dead_boots=DEAD)
    (instead,) = story.asked("b")
    assert instead < TAUGHT + 6 * MINUTE
    assert len(story.events("DeleteUnregistered")) == 10


def test_the_next_trial_of_the_pool_gets_twice_the_time_and_one_machine() -> None:
    story = taught(stock_outs=DEAD)
    story.pods(5, at=TAUGHT + 20 * MINUTE, name="later")
    learned = patience(story, TAUGHT)
    before, after = story.writes("increase")[-3:-1]
    assert before[2:] == ("a", 30, 31)
    assert after[2:] == ("b", 10, 14)
    assert before[0] == after[0] == pytest.approx(TAUGHT + 20 * MINUTE + 5, abs=LOOP)
    assert patience(story, before[0]) == pytest.approx(2 * learned, rel=0.02)


def test_a_group_that_says_how_long_it_takes_is_believed() -> None:
    story = taught({**CHEAP, "behaviour": {"max_node_provision": "12m"}}, DEAR, stock_outs=DEAD)
    assert patience(story, TAUGHT) == 12 * MINUTE
    assert story.asked("b")[0] > story.asked("a")[3] + 12 * MINUTE


def test_slow_but_healthy_machines_are_not_given_up() -> None:
    """Half come within a minute, one of a hundred takes three and a half."""
    slow = {**CHEAP, "provision_delay": {"lognormal": ["60s", 0.5]}, "max_size": 500}
    story = Story(slow, DEAR, settings={"max-node-provision-time": "auto"}, switched_off=SILENT, minutes=200)
    for number in range(15):
        story.pods(20, at=5 + number * 10 * MINUTE, name=f"batch-{number}")
    assert patience(story, 190 * MINUTE) < 10 * MINUTE
    assert (story.machines("a"), story.machines("b")) == (300, 0)
    assert story.events("ScaleUpTimedOut") == []
    assert story.killed() == []
