"""Probation in whole loops: after a failure a group costs no second wait (design.md §6)."""

import pytest
from tests.scenario.story import LOOP, MINUTE, SILENT, Story

from nodewright.adapters.store.codec import decode_memory, encode_memory
from nodewright.engine.status import make_status

CHEAP = {"name": "a", "price_per_hour": 0.1}
DEAR = {"name": "b", "price_per_hour": 0.2}


def pools(end: float, **settings: object) -> Story:
    """The cheap group is sold out until ``end``; eight pods come at once."""
    story = Story(CHEAP, DEAR, settings=settings, stock_outs=[{"group": "a", "end": end}], minutes=120)
    story.pods(8, at=5)
    return story


def test_a_pool_that_is_still_sold_out_is_asked_for_one_machine_and_nobody_waits_for_it() -> None:
    story = pools(end=30 * MINUTE)
    story.pods(8, at=7 * MINUTE + 5, name="more")
    assert story.writes("increase") == [
        (LOOP, "increase", "a", 0, 8),
        (2 * LOOP, "increase", "b", 0, 8),
        (7 * MINUTE + LOOP, "increase", "a", 0, 1),
        (7 * MINUTE + LOOP, "increase", "b", 8, 15),
        (7 * MINUTE + 2 * LOOP, "increase", "b", 15, 16),
    ]
    message = "Group fake/a is on probation after a failure: at most 1 node; other groups take the rest"
    assert story.events("ProbedGroup") == [(7 * MINUTE + LOOP, message)]
    backoff = story.state("a", 8 * MINUTE).backoff
    assert backoff is not None
    assert (backoff.duration, backoff.delivered) == (600, 0)


def test_a_pool_that_recovers_is_trusted_by_doubling() -> None:
    story = pools(end=3 * MINUTE)
    for number in range(4):
        story.pods(10, at=(8 + 5 * number) * MINUTE + 5, name=f"more-{number}")
    asked = [(after - before, group) for _, _, group, before, after in story.writes("increase")[2:]]
    assert asked == [(1, "a"), (9, "b"), (2, "a"), (8, "b"), (4, "a"), (6, "b"), (10, "a")]
    assert story.result.final.pending == 0


def test_more_pods_while_the_trial_is_under_way_go_elsewhere() -> None:
    story = pools(end=3 * MINUTE)
    story.pods(4, at=8 * MINUTE + 5, name="first")
    story.pods(4, at=8 * MINUTE + 25, name="second")
    assert [(group, after - before) for _, _, group, before, after in story.writes("increase")[2:]] == [
        ("a", 1),
        ("b", 3),
        ("b", 4),
    ]


def test_without_fast_failure_detection_only_the_first_pods_wait_for_a_dead_pool() -> None:
    story = Story(CHEAP, DEAR, stock_outs=[{"group": "a"}], switched_off=SILENT, minutes=120)
    story.pods(8, at=5)
    story.pods(8, at=30 * MINUTE + 5, name="more")
    late = {pod: wait for pod, wait in story.result.pod_waits.items() if pod.startswith("default/more")}
    assert sum(wait > 3 * MINUTE for wait in late.values()) == 1, "the one pod that the trial was for"


def test_a_restart_during_probation_does_not_forget_it() -> None:
    story = pools(end=3 * MINUTE)
    story.pods(2, at=8 * MINUTE + 5, name="first")
    story.simulation.engine.restart(8 * MINUTE + 30)
    story.simulation.engine.restart(12 * MINUTE)
    story.pods(10, at=13 * MINUTE + 5, name="second")
    assert [(group, after - before) for _, _, group, before, after in story.writes("increase")[2:]] == [
        ("a", 1),
        ("b", 1),
        ("a", 2),
        ("b", 8),
    ]


def test_a_pool_without_a_rival_is_asked_for_all() -> None:
    story = Story(CHEAP, stock_outs=[{"group": "a", "end": 3 * MINUTE}], minutes=60)
    story.pods(8, at=5)
    assert story.writes("increase")[-1][2:] == ("a", 0, 8)


@pytest.mark.parametrize("settings", [{"probe-after-backoff": False}, {"size-correction": "seed"}])
def test_switched_off_the_whole_demand_goes_to_the_pool_that_failed(settings: dict[str, object]) -> None:
    story = pools(30 * MINUTE, **settings)
    story.pods(8, at=7 * MINUTE + 5, name="more")
    assert (7 * MINUTE + LOOP, "increase", "a", 0, 8) in story.writes("increase")


@pytest.mark.parametrize(("probes", "allowed"), [(True, 1), (False, None)])
def test_a_saved_state_tells_whether_a_group_is_on_probation(probes: bool, allowed: int | None) -> None:
    """Who reads it knows the engine's settings from nowhere else."""
    story = pools(end=30 * MINUTE, **{"probe-after-backoff": probes})
    saved = next(state.memory for state in reversed(story.states()) if state.now <= 4 * MINUTE)
    held = decode_memory(encode_memory(saved))
    told = {str(group.ref): group.probation for group in make_status(held, 6 * MINUTE).groups}
    assert told == {"fake/a": allowed, "fake/b": None}
