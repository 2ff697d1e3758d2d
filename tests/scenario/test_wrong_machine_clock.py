"""An engine that starts on a machine whose clock is wrong does all that it would do with the right time (docs/adr/0028-server-time.md).

A day ahead it took new nodes for a day old, and deleted those that were not Ready when they registered.
"""

from typing import Any

import pytest
from tests.scenario.story import LOOP, MINUTE, Story

from nodewright.model.action import DeleteInstances

DAY = 86400.0
# A clock that is a day behind still tells a time after the epoch.
START = 2 * DAY
A, B = {"name": "a", "price_per_hour": 0.1}, {"name": "b", "price_per_hour": 0.2}


def wrong(seconds: float, *groups: dict[str, Any], **settings: Any) -> Story:
    """An engine that starts twice where the machine's clock is so far ahead: at first, and while machines are on their way."""
    story = Story(*groups, settings=settings, minutes=180, start=START)
    story.simulation.jump_clock(START, seconds, None)
    for at in (START + 0.5, START + 2.1 * MINUTE):
        story.simulation.engine.restart(at, down_seconds=0.5)
    return story


def slowly_ready(seconds: float) -> Story:
    story = wrong(seconds, {**A, "ready_delay": "90s"}, B, **{"scale-down-delay-after-add": "1m"})
    story.pods(3, at=START + MINUTE, until=START + 30 * MINUTE)
    return story


def never_ready(seconds: float) -> Story:
    story = wrong(seconds, {**A, "ready_delay": "100h"}, B, **{"scale-down-enabled": False})
    story.pods(2, at=START + MINUTE)
    return story


@pytest.mark.parametrize("ahead", [30.0, 10 * MINUTE, DAY, -DAY])
@pytest.mark.parametrize("play", [slowly_ready, never_ready])
def test_everything_happens_when_it_would_have(play: Any, ahead: float) -> None:
    usual, other = play(0.0), play(ahead)
    assert [write[1:] for write in other.writes()] == [write[1:] for write in usual.writes()]
    assert [write[0] for write in other.writes()] == pytest.approx([write[0] for write in usual.writes()], abs=LOOP)
    assert len(other.writes()) > 1


def test_no_node_is_deleted_as_never_ready_at_first_sight() -> None:
    story = slowly_ready(DAY)
    assert story.result.increases == 3
    assert story.planned(DeleteInstances, "a") == []
