"""An API server whose clock is ahead of ours, and whose responses have no date: its nodes are dated in the future.

Everything ends as without (docs/adr/0026-steady-time.md).
"""

from typing import Any

import pytest
from tests.scenario.story import LOOP, MINUTE, Story

from nodewright.model.action import DeleteInstances

HOUR, DAY = 3600.0, 86400.0
# A clock that is a day behind still tells a time after the epoch.
START = 2 * DAY
A, B = {"name": "a", "price_per_hour": 0.1}, {"name": "b", "price_per_hour": 0.2}
SLOW = {**A, "ready_delay": "100h"}


def behind(seconds: float, *groups: dict[str, Any], **settings: Any) -> Story:
    """A world that is so many seconds ahead of the engine's clock."""
    story = Story(*groups, settings=settings, minutes=180, start=START)
    story.simulation.jump_clock(START, -seconds, None, has_dates=False)
    story.simulation.engine.restart(START + 0.5, down_seconds=0.5)
    return story


def never_ready(seconds: float) -> Story:
    story = behind(seconds, SLOW, B, **{"scale-down-enabled": False})
    story.pods(2, at=START + MINUTE)
    return story


def emptied(seconds: float) -> Story:
    story = behind(seconds, {**A, "size": 3}, **{"scale-down-delay-after-add": "1m"})
    story.pods(5, at=START + MINUTE, until=START + 20 * MINUTE)
    return story


@pytest.mark.parametrize("ahead", [10 * MINUTE, HOUR, DAY])
@pytest.mark.parametrize("play", [never_ready, emptied])
def test_everything_happens_when_it_would_have(play: Any, ahead: float) -> None:
    usual, other = play(0.0), play(ahead)
    assert [write[1:] for write in other.writes()] == [write[1:] for write in usual.writes()]
    moments = [write[0] + ahead for write in other.writes()]
    assert moments == pytest.approx([write[0] for write in usual.writes()], abs=3 * LOOP)
    assert len(moments) > 3


def test_pods_go_elsewhere_and_the_machine_that_never_was_ready_goes() -> None:
    story = never_ready(DAY)
    assert story.result.final.running == 2
    assert story.machines("a") == 0
    assert len(story.planned(DeleteInstances, "a")) > 0
