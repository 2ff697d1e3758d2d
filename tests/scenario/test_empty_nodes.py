"""Idle machines go within minutes, and only those that are idle."""

from typing import Any

from tests.scenario.story import LOOP, MINUTE, Story

from nodewright_simulator.journal import What

SETTINGS = {
    "scale-down-unneeded-time": "2m",
    "scale-down-delay-after-add": "0s",
    "max-bulk-soft-taint-count": 0,
}
UNNEEDED = 2 * MINUTE


def make(size: int, **settings: Any) -> Story:
    return Story({"name": "pool", "size": size, "max_size": 1000}, settings={**SETTINGS, **settings}, minutes=30)


def gone_at(story: Story) -> list[float]:
    return sorted(fact.at for fact in story.result.journal if fact.what == What.MACHINE_GONE)


def test_500_idle_machines_are_gone_within_five_minutes() -> None:
    story = make(500)
    gone = gone_at(story)
    assert len(gone) == 500
    assert gone[-1] <= UNNEEDED + 5 * MINUTE
    first_minute = [at for at in gone if at <= gone[0] + MINUTE - LOOP]
    assert len(first_minute) == 125
    assert not story.events("DeletionBudgetExhausted")


def test_machines_with_pods_stay_where_nothing_else_has_room() -> None:
    """Half of the machines are idle; the others have a pod each that nothing else has room for."""
    story = make(40)
    story.pods(20, at=1)
    assert len(gone_at(story)) == 20
    assert story.result.final.running == 20


def test_the_budget_survives_a_restart() -> None:
    story = make(400)
    story.simulation.engine.restart(UNNEEDED + 3 * LOOP, down_seconds=20, keeps_memory=True)
    gone = gone_at(story)
    within = max(sum(start <= at < start + MINUTE for at in gone) for start in gone)
    assert within <= 100
    assert len(gone) == 400
