"""A machine with two Node objects, of which no kubelet looks after the second, is there once."""

from tests.scenario.story import LOOP, MINUTE, Story

DOUBLED = 2 * MINUTE
LASTS = 30 * MINUTE
STARTUP = 15 * MINUTE


def make() -> Story:
    """Two machines with a pod each; the first is doubled for longer than a node may take to start."""
    story = Story({"name": "pool", "size": 2, "max_size": 5}, {"name": "dear", "price_per_hour": 1.0}, minutes=60)
    story.deploy("web", (1.0, 2), (DOUBLED + MINUTE, 3), (DOUBLED + STARTUP + MINUTE, 4))
    story.simulation.touch_nodes(DOUBLED, "double", 1, LASTS)
    return story


def test_a_double_is_no_machine_that_is_about_to_be_ready() -> None:
    assert make().asked("pool")[0] <= DOUBLED + MINUTE + LOOP


def test_a_group_is_not_to_blame_for_a_double_that_never_becomes_ready() -> None:
    story = make()
    assert [(at > DOUBLED + STARTUP) for at in story.asked("pool")] == [False, True]
    assert not story.asked("dear")
    assert not story.writes("delete")
