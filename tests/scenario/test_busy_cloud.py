"""A cloud that is busy costs seconds, not a backoff; one that stays busy sends the pods elsewhere."""

from itertools import pairwise
from typing import Any

import pytest
from tests.scenario.story import MINUTE, Story

CHEAP = {"name": "cheap", "price_per_hour": 1.0}
DEAR = {"name": "dear", "price_per_hour": 2.0}
AT = MINUTE
KINDS = ["throttle", "in_progress"]


def busy(kind: str = "throttle", hook: str = "increase_size", group: str = "*", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "hook": hook, "group": group, **more}


@pytest.mark.parametrize("kind", KINDS)
def test_one_busy_answer_costs_a_second(kind: str) -> None:
    """It cost 310 s."""
    calm = Story(CHEAP, minutes=10)
    story = Story(CHEAP, minutes=10, faults=[busy(kind, times=1)])
    for each in (calm, story):
        each.pods(3, at=AT)
    assert story.first_running() - calm.first_running() <= 10.0
    assert story.events("FailedToScaleUpGroup") == story.events("ScaleUpDeferred") == []
    assert all(not state.memory.backoffs for state in story.states())


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_cloud_asks_for_is_waited_for_and_no_longer(kind: str) -> None:
    story = Story(CHEAP, minutes=10, faults=[busy(kind, times=1, retry_after="45s")])
    story.pods(3, at=AT)
    assert story.asked("cheap") == [AT, AT + 50]
    assert story.first_running() <= AT + 2.5 * MINUTE
    [(at, message)] = story.events("ScaleUpDeferred")
    assert at == AT
    assert "waits because the cloud is busy" in message
    told = [message for _, message in story.events("NotTriggerScaleUp")]
    assert any("because the cloud is busy" in text for text in told)


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_that_is_busy_for_ever_starves_nobody(kind: str) -> None:
    story = Story(CHEAP, DEAR, minutes=60, faults=[busy(kind, group="cheap")])
    for number in range(10):
        story.pods(1, at=AT + number * 3 * MINUTE, name=f"web-{number}")
    assert story.result.final.pending == 0
    assert story.machines("dear") == 10
    state = story.states()[-1]
    assert not state.memory.backoffs
    assert len(story.events("ScaleUpDeferred")) <= 3, "told when it begins"
    pauses = [held.pause for state in story.states() for held in state.memory.deferrals.values()]
    assert max(pauses) <= 120


def test_without_another_group_a_busy_one_is_asked_every_two_minutes_at_most() -> None:
    story = Story(CHEAP, minutes=60, faults=[busy(group="cheap", end="30m")])
    story.pods(3, at=AT)
    assert story.first_running() <= 33 * MINUTE
    asked = story.asked("cheap")
    assert all(after - before <= 140 for before, after in pairwise(asked))
    assert len(asked) <= 25


def test_a_busy_group_does_not_make_the_others_wait_in_line() -> None:
    """The account is throttled: each group is tried, only the first of them with patience."""
    groups = [{"name": f"g{n}", "price_per_hour": 1.0 + n} for n in range(8)]
    story = Story(*groups, minutes=20, faults=[busy(end="4m")])
    story.pods(3, at=AT)
    assert story.first_running() <= 7 * MINUTE
    first = [story.asked(f"g{n}")[0] for n in range(8)]
    assert max(first) - min(first) <= 10.0


def test_a_throttled_refresh_is_not_repeated_before_its_time() -> None:
    story = Story(CHEAP, minutes=20, faults=[busy(hook="refresh", start="50s", times=1, retry_after="4m")])
    story.pods(3, at=AT)
    moments = [state.now for state in story.states() if state.observation.providers["fake"].problem]
    assert moments
    assert (min(moments), max(moments)) == (AT, AT + 4 * MINUTE - 20)
    assert story.first_running() <= AT + 6 * MINUTE


@pytest.mark.parametrize("hook", ["target_size", "instances", "failed_instances"])
def test_groups_that_cannot_be_read_do_not_make_the_others_wait(hook: str) -> None:
    """Ten throttled groups made each loop take 450 s."""
    groups = [{"name": f"g{n}", "price_per_hour": 1.0} for n in range(10)]
    faults = [busy(hook=hook, group=f"g{n}", start="5m", retry_after="15s") for n in range(10)]
    story = Story(*groups, {"name": "well", "price_per_hour": 9.0}, minutes=40, faults=faults)
    for number in range(6):
        story.pods(1, at=6 * MINUTE + number * 4 * MINUTE, name=f"web-{number}")
    assert story.result.waiting.longest <= 2.5 * MINUTE
    assert story.machines("well") == 6


def test_many_removals_from_a_busy_group_hold_up_nobody() -> None:
    """Each node waited a second of its own for the cloud, in each loop."""
    settings = {"scale-down-unneeded-time": "2m", "scale-down-delay-after-add": "1m", "max-bulk-soft-taint-count": 0}
    faults = [busy(hook="delete_instances", group="cheap")]
    story = Story(
        {**CHEAP, "max_size": 60},
        {**DEAR, "cpu": 4, "price_per_hour": 20.0},
        minutes=12,
        settings=settings,
        faults=faults,
    )
    story.pods(60, at=AT, until=5 * MINUTE)
    for number in range(3):
        story.pods(1, at=8 * MINUTE + number * 45, name=f"large-{number}", cpu="4")
    assert [at - 8 * MINUTE <= number * 45 + 20 for number, at in enumerate(story.asked("dear"))] == [True] * 3
    assert 1 < len(story.writes("delete")) <= 60


def test_a_deferral_survives_a_restart_and_ends() -> None:
    story = Story(CHEAP, minutes=20, faults=[busy(times=1, retry_after="2m")])
    story.pods(3, at=AT)
    story.simulation.engine.restart(AT + 20, down_seconds=5)
    assert story.asked("cheap")[1] >= AT + 2 * MINUTE
    assert story.first_running() <= AT + 4 * MINUTE


@pytest.mark.parametrize("kind", KINDS)
def test_a_removal_waits_for_a_busy_cloud_with_its_node_tainted(kind: str) -> None:
    group = {**CHEAP, "size": 1}
    settings = {"scale-down-unneeded-time": "2m", "scale-down-delay-after-add": "1m", "max-bulk-soft-taint-count": 0}
    faults = [busy(kind, hook="delete_instances", times=9, retry_after="15s")]
    story = Story(group, minutes=30, settings=settings, faults=faults)
    assert story.machines("cheap") == 0
    assert story.events("ScaleDownFailed") == []
    assert all(not state.memory.scale_down.removal_failures for state in story.states())


def test_as_ca_a_busy_answer_is_a_failure() -> None:
    story = Story(CHEAP, minutes=20, settings={"profile": "ca"}, faults=[busy(times=1)])
    story.pods(3, at=AT)
    asked = story.asked("cheap")
    assert asked[1] - asked[0] > 5 * MINUTE
    assert story.events("FailedToScaleUpGroup")


@pytest.mark.parametrize(
    ("hook", "trouble"),
    [
        ("decrease_target_size", {"stock_outs": [{"group": "cheap"}], "switched_off": ["fast_failure_detection"]}),
        ("delete_instances", {"failures": [{"group": "cheap"}]}),
    ],
)
def test_a_correction_that_meets_a_busy_cloud_is_tried_again_soon(hook: str, trouble: dict[str, Any]) -> None:
    """What never came, or failed, rested for five minutes after one busy answer, and was told as a failure."""
    group = {**CHEAP, "max_size": 3}
    story = Story(group, DEAR, minutes=40, faults=[busy(hook=hook, times=6, retry_after="15s")], **trouble)
    story.pods(3, at=AT)
    asked = [at for at, *_ in story.writes("withdraw" if hook == "decrease_target_size" else "delete")]
    assert len(asked) == 7
    assert all(after - before <= 145 for before, after in pairwise(asked))
    assert story.machines("cheap") == 0
    assert story.machines("dear") == 3
    told = [*story.events("FailedToRevertScaleUp"), *story.events("CleanUpFailed")]
    assert told == []
    assert len(story.events("SizeCorrectionDeferred")) == 1
