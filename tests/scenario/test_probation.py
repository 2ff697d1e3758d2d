"""Probation in whole loops: after a failure a group costs no second wait (docs/adr/0008-probation-and-learned-time.md)."""

import pytest
from tests.scenario.story import LOOP, MINUTE, SILENT, Story

from nodewright.adapters.store.codec import decode_memory, encode_memory
from nodewright.engine.status import make_status

CHEAP = {"name": "a", "price_per_hour": 0.1}
DEAR = {"name": "b", "price_per_hour": 0.2}


def pools(end: float, **settings: object) -> Story:
    """The cheap group is sold out until ``end``; eight pods come at once."""
    settings = {"consolidation-policy": "off", **settings}  # no move back to the cheap group
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
    """The pods of each trial get a place elsewhere one loop later; what is left over serves the next ones."""
    story = pools(end=3 * MINUTE)
    for number in range(4):
        story.pods(10, at=(8 + 5 * number) * MINUTE + 5, name=f"more-{number}")
    asked = [(d.after - d.before, d.group, d.hedged) for d in story.decisions() if d.what == "increase"][2:]
    assert asked[:3] == [(1, "fake/a", 0), (9, "fake/b", 0), (1, "fake/b", 1)]
    assert asked[3:6] == [(2, "fake/a", 0), (7, "fake/b", 0), (2, "fake/b", 2)]
    assert asked[6:] == [(3, "fake/a", 0), (5, "fake/b", 0), (3, "fake/b", 3), (7, "fake/a", 0)], "3 are 10 % of 30"
    assert story.result.final.pending == 0


def test_more_pods_while_the_trial_is_under_way_go_elsewhere() -> None:
    story = pools(end=3 * MINUTE)
    story.pods(4, at=8 * MINUTE + 5, name="first")
    story.pods(4, at=8 * MINUTE + 25, name="second")
    assert [(group, after - before) for _, _, group, before, after in story.writes("increase")[2:]] == [
        ("a", 1),
        ("b", 3),
        ("b", 1),
        ("b", 4),
    ]


def test_without_fast_failure_detection_only_the_first_pods_wait_for_a_dead_pool() -> None:
    """The pod of the trial has a place elsewhere too."""
    story = Story(CHEAP, DEAR, stock_outs=[{"group": "a"}], switched_off=SILENT, minutes=120)
    story.pods(8, at=5)
    story.pods(8, at=30 * MINUTE + 5, name="more")
    late = {pod: wait for pod, wait in story.result.pod_waits.items() if pod.startswith("default/more")}
    assert len(late) == 8
    assert max(late.values()) < 2 * MINUTE
    assert [(d.group, d.hedged) for d in story.decisions() if d.hedged] == [("fake/b", 1)]


def test_a_dead_pool_is_probed_again_and_again_and_costs_no_pod_a_wait() -> None:
    story = Story(CHEAP, DEAR, stock_outs=[{"group": "a"}], switched_off=SILENT, minutes=240)
    for number in range(20):
        story.pods(1, at=number * 10 * MINUTE + 5, name=f"web-{number}")
    probes = [at for at in story.asked("a") if at > 20 * MINUTE]
    assert len(probes) >= 3
    waits = story.result.pod_waits
    assert len(waits) == 20
    slow = {pod for pod, wait in waits.items() if wait > 2 * MINUTE}
    assert slow == {f"default/web-{number}-0" for number in range(3)}, "those that came before anybody knew"


def test_where_nothing_may_be_bought_twice_only_pods_with_no_other_place_are_probes() -> None:
    story = pools(end=3 * MINUTE, **{"max-hedged-nodes": "0"})
    story.pods(4, at=8 * MINUTE + 5, name="more")
    assert [write[2:] for write in story.writes("increase")[2:]] == [("b", 8, 12)]


def test_a_restart_during_probation_does_not_forget_it() -> None:
    story = pools(end=3 * MINUTE)
    story.pods(2, at=8 * MINUTE + 5, name="first")
    story.simulation.engine.restart(8 * MINUTE + 30)
    story.simulation.engine.restart(12 * MINUTE)
    story.pods(10, at=13 * MINUTE + 5, name="second")
    assert [(group, after - before) for _, _, group, before, after in story.writes("increase")[2:]] == [
        ("a", 1),
        ("b", 1),
        ("b", 1),
        ("a", 2),
        ("b", 7),
        ("b", 2),
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
