"""A node that cannot be emptied is tried again after ever longer pauses, and says why it was not removed."""

from itertools import pairwise
from typing import Any

from tests.scenario.story import MINUTE, SOON, Story

from nodewright.model.removal import RemovalResult
from nodewright.model.settings import Settings
from nodewright.planner.explain import explain_node
from nodewright_simulator.api_server import Refusal
from nodewright_simulator.journal import What

POOL = {"name": "pool", "size": 2, "min_size": 1, "price_per_hour": 0.1, "cpu": 4}
HOUR = 60 * MINUTE


def make(*, minutes: float = 180, refused: float = 24 * HOUR, **settings: Any) -> Story:
    """Two nodes with a small pod on each, of which no eviction is accepted for so long."""
    story = Story(POOL, settings={**SOON, **settings}, minutes=minutes)
    story.pods(2, at=1, grace=5)
    story.simulation.api_server.refusals.append(Refusal(start=0, end=refused, of="default"))
    return story


def attempts(story: Story) -> dict[str, list[float]]:
    """When removals of each node ended."""
    found: dict[str, list[float]] = {}
    for over in story.result.removals:
        found.setdefault(over.removal.node, []).append(over.at)
    return found


def test_pauses_between_attempts_grow() -> None:
    """An attempt takes two minutes and ten seconds; the pauses begin with the time of other unremovable nodes."""
    without: dict[str, Any] = {"consolidation-policy": "off"}
    found = max(attempts(make(**without)).values(), key=len)
    assert [after - before - 130 for before, after in pairwise(found)] == [300, 600, 1200, 2400, 4800]


def test_moves_of_consolidation_keep_the_pauses_too() -> None:
    settings: dict[str, Any] = {"consolidation-policy": "balanced"}
    story = make(**settings)
    assert any(event.event.reason == "MoveAbandoned" for event in story.result.events)
    for found in attempts(story).values():
        pauses = [after - before - 130 for before, after in pairwise(found)]
        assert all(pause >= least for pause, least in zip(pauses, [300, 600, 1200, 2400, 4800], strict=False)), pauses


def test_ca_tries_again_as_soon_as_the_node_is_unneeded_for_long_enough() -> None:
    found = max(attempts(make(profile="ca")).values(), key=len)
    pauses = [after - before for before, after in pairwise(found)]
    assert len(pauses) > 20
    assert sorted(pauses)[-2] == 260


def test_the_reason_is_there_to_be_read_also_after_a_restart() -> None:
    story = make(minutes=40)
    story.simulation.engine.restart(30 * MINUTE, down_seconds=20)
    over = [over for over in story.result.removals if over.at < 30 * MINUTE][-1]
    state, plan = story.loops[-1]
    told = explain_node(state, plan, Settings(), over.removal.node)
    assert told is not None
    assert told.timers.last_failed_at is not None
    assert "FailedToEvictPods" in told.last_failure
    assert "too many requests" in told.last_failure
    codes = {
        str(why.code) for state, plan in story.loops for why in plan.scale_down.unremovable.values() if state.now > 1500
    }
    assert "RemovalFailedLately" in codes


def test_it_goes_once_evictions_are_accepted_and_all_is_forgotten() -> None:
    story = make(minutes=120, refused=20 * MINUTE)
    assert len([fact for fact in story.result.journal if fact.what == What.MACHINE_GONE]) == 1
    state, _ = story.loops[-1]
    gone = {over.removal.node for over in story.result.removals if over.result == RemovalResult.OK}
    assert gone.isdisjoint(state.memory.scale_down.removal_failures)
