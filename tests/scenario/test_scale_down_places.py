"""Places that were meant for moved pods may be taken before they come: by others in the seconds between the plan and
the first eviction, or by each other.
"""

from typing import Any

from tests.scenario.story import LOOP, SOON, Story

from nodewright.model.removal import RemovalEnded, RemovalResult
from nodewright_simulator.journal import What

POOL = {"name": "pool", "min_size": 1, "price_per_hour": 0.1, "cpu": 4}
DELAY = 5.0


def make(*, larges: int = 1, littles: int = 1, large: str = "2700m", **settings: Any) -> Story:
    """Nodes that are nearly full, and others with a small pod each, for which there is just room on the former."""
    pool = {**POOL, "size": larges + littles, "min_size": larges}
    story = Story(pool, settings={**SOON, **settings}, minutes=20)
    story.pods(larges, at=1, name="large", cpu=large)
    story.pods(littles, at=2, name="little", grace=5)
    return story


def begins(story: Story) -> float:
    """When the first removal of a node with pods begins."""
    return min(over.started for over in removals(story))


def removals(story: Story) -> list[RemovalEnded]:
    return [over for over in story.result.removals if over.removal.drains]


def evicted(story: Story) -> list[tuple[float, str]]:
    return [(fact.at, fact.name) for fact in story.result.journal if fact.what == What.POD_EVICTED]


def disturbed(*, cpu: str = "1", **world: Any) -> Story:
    """Two seconds after the removals began another pod comes, and the scheduler has it at once."""
    story = make(**world)
    story.pods(1, at=begins(make(**world)) + 2, name="late", cpu=cpu)
    return story


def test_undisturbed_the_pod_moves() -> None:
    story = make()
    assert [over.result for over in removals(story)] == [RemovalResult.OK]
    assert len(evicted(story)) == 1
    assert story.result.final.nodes == {"fake/pool": 1}


def test_a_place_that_is_taken_before_the_eviction_calls_the_removal_off() -> None:
    """Else the pod would be moved for nothing: a node would be added for it."""
    story = disturbed()
    (over,) = removals(story)
    assert over.result == RemovalResult.INTERNAL
    assert over.message == "pod default/little-0 has no place any more: node pool-0 has not enough cpu"
    assert over.at == over.started + DELAY
    assert not evicted(story)
    assert not story.asked("pool")
    assert story.result.final.nodes == {"fake/pool": 2}
    live = story.simulation.cluster.live
    assert all(not node.spec.taints for _, node in live.nodes())


def test_ca_does_not_look_again() -> None:
    story = disturbed(profile="ca")
    assert len(evicted(story)) >= 1
    assert story.asked("pool")


def test_another_place_is_found_at_once() -> None:
    """The removal begins again in the next loop, without a pause."""
    story = disturbed(larges=2)
    first, second = removals(story)[:2]
    assert (first.result, second.result) == (RemovalResult.INTERNAL, RemovalResult.OK)
    assert second.started <= first.at + LOOP
    assert len(evicted(story)) == 1
    assert not story.asked("pool")


def test_one_place_is_not_promised_twice() -> None:
    """Two nodes are drained in the same moment, and by then there is room for one of their pods only."""
    story = disturbed(littles=2, large="2", cpu="500m", **{"max-drain-parallelism": 2})
    first, second = removals(story)[:2]
    assert first.started == second.started
    assert {first.result, second.result} == {RemovalResult.INTERNAL, RemovalResult.OK}
    assert not story.asked("pool")


def picky(**settings: Any) -> Story:
    """A node with two pods, of which only the second cannot go to both of the others."""
    story = Story({**POOL, "size": 3, "cpu": 8}, settings={**SOON, **settings}, minutes=20)
    for at, (name, cpu) in enumerate((("most", "6"), ("half", "4500m"), ("anywhere", "800m"), ("picky", "3")), 1):
        story.pods(1, at=at, name=name, cpu=cpu, memory="100Mi", grace=5)
    return story


def test_who_has_the_fewest_places_goes_first() -> None:
    """The scheduler would have put the other one in its only place."""
    story = picky()
    assert [name for _, name in evicted(story)] == ["default/picky-0", "default/anywhere-0"]
    assert [over.removal.places for over in removals(story)] == [("pool-1", "pool-0")]
    assert not story.asked("pool")
    assert story.result.final.nodes == {"fake/pool": 2}


def test_ca_moves_them_as_they_come() -> None:
    story = picky(profile="ca")
    assert [name for _, name in evicted(story)][:2] == ["default/anywhere-0", "default/picky-0"]
    assert story.asked("pool")
