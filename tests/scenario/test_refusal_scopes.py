"""A refusal stops the group that was refused, and others only where the cloud said so, for a short while."""

from typing import Any

import pytest
from tests.scenario.story import MINUTE, Story

CHEAP = {"name": "cheap", "price_per_hour": 1.0, "zone": "z1", "instance_type": "m"}
SAME_ZONE = {"name": "zone", "price_per_hour": 2.0, "zone": "z1", "instance_type": "c"}
SAME_TYPE = {"name": "type", "price_per_hour": 3.0, "zone": "z2", "instance_type": "m"}
ELSEWHERE = {"name": "elsewhere", "price_per_hour": 4.0, "zone": "z2", "instance_type": "c"}
AT = MINUTE


def refusal(group: str = "cheap", error: str = "quota", **more: Any) -> dict[str, Any]:
    return {"kind": "refuse", "hook": "increase_size", "group": group, "error": error, **more}


@pytest.mark.parametrize("profile", [{}, {"profile": "ca"}], ids=["default", "ca"])
def test_a_quota_of_the_cheap_group_does_not_keep_pods_from_the_dear_one(profile: dict[str, Any]) -> None:
    story = Story(CHEAP, ELSEWHERE, settings=profile, faults=[refusal()])
    story.pods(3, at=AT)
    assert story.first_running() <= AT + 1.5 * MINUTE
    assert story.machines("elsewhere") == 3


@pytest.mark.parametrize("error", ["quota", "out_of_capacity"])
@pytest.mark.parametrize(
    ("scope", "served_by", "waits"),
    [
        ("group", "zone", set()),
        ("account", "zone", set()),
        ("zone", "type", {"zone"}),
        ("instance_type", "zone", {"type"}),
    ],
)
def test_only_what_the_cloud_names_is_left_alone(error: str, scope: str, served_by: str, waits: set[str]) -> None:
    story = Story(CHEAP, SAME_ZONE, SAME_TYPE, ELSEWHERE, faults=[refusal(error=error, scope=scope)])
    story.pods(3, at=AT)
    assert story.first_running() <= AT + 1.5 * MINUTE
    assert story.machines(served_by) == 3
    backoffs = {ref.group_id: held for ref, held in story.states()[-1].memory.backoffs.items()}
    assert backoffs.keys() == {"cheap", *waits}
    assert {name for name, held in backoffs.items() if held.shared_from} == waits
    assert all(held.duration == 150 for name, held in backoffs.items() if name in waits)


def test_every_group_of_an_account_is_tried_once_at_once() -> None:
    """All are refused: each is asked one time in the same chain of loops, and backs off for its own refusal."""
    story = Story(CHEAP, SAME_ZONE, SAME_TYPE, ELSEWHERE, minutes=4, faults=[refusal("*", scope="account")])
    story.pods(3, at=AT)
    for group in ("cheap", "zone", "type", "elsewhere"):
        assert story.asked(group) == [AT]


@pytest.mark.parametrize("scope", ["group", "zone", "instance_type", "account"])
def test_no_group_starves_behind_one_that_is_always_refused(scope: str) -> None:
    """The peer shares zone, type and account with a cheaper group that never gets a machine."""
    peer = {**CHEAP, "name": "peer", "price_per_hour": 2.0}
    story = Story(CHEAP, peer, faults=[refusal(scope=scope)], minutes=240)
    story.pods(3, at=AT)
    assert story.first_running() <= AT + 5 * MINUTE
    assert story.machines("peer") == 3


def test_two_bad_groups_of_a_zone_do_not_keep_the_third_from_its_try() -> None:
    bad = {**CHEAP, "name": "worse", "price_per_hour": 2.0}
    good = {**CHEAP, "name": "good", "price_per_hour": 3.0}
    faults = [refusal(group, scope="zone") for group in ("cheap", "worse")]
    story = Story(CHEAP, bad, good, faults=faults, minutes=240)
    story.pods(3, at=AT)
    assert story.first_running() <= AT + 5 * MINUTE


def test_a_pod_without_quota_for_its_gpu_delays_nobody_else() -> None:
    gpu = {
        "name": "gpu",
        "price_per_hour": 9.0,
        "resources": {"nvidia.com/gpu": 1},
        "zone": "z1",
        "instance_type": "g",
    }
    story = Story(CHEAP, gpu, faults=[refusal("gpu", scope="account")], minutes=60)
    story.pods(1, at=AT, name="train", resources={"nvidia.com/gpu": "1"})
    story.pods(3, at=AT + 10, name="web")
    state = story.states()[-1]
    assert story.machines("cheap") == 3
    assert {ref.group_id for ref in state.memory.backoffs} == {"gpu"}
    assert story.asked("cheap") == [AT + 10]


def test_the_quota_of_an_account_holds_jobs_back_and_not_the_groups_that_still_fit() -> None:
    """Small machines still fit where large ones do not."""
    large = {"name": "large", "cpu": 8, "memory": "32Gi", "price_per_hour": 0.5, "zone": "z1"}
    story = Story(large, CHEAP, quota={"cpus": 7, "enforced": "call"}, minutes=30)
    story.pods(6, at=AT)
    assert story.first_running() <= AT + 1.5 * MINUTE
    assert story.machines("cheap") == 6


def test_the_reason_names_the_group_that_failed() -> None:
    story = Story(CHEAP, SAME_ZONE, faults=[refusal(scope="zone")], minutes=3)
    story.pods(1, at=AT)
    texts = [message for _, message in story.events("NotTriggerScaleUp")]
    assert any("in backoff with fake/cheap, whose scale-up failed (quotaExceeded)" in text for text in texts), texts


def drawing(group: dict[str, Any], name: str, price: float, *buckets: str, **more: Any) -> dict[str, Any]:
    return {**group, "name": name, "price_per_hour": price, "buckets": list(buckets), **more}


@pytest.mark.parametrize("enforced", ["call", "creation"])
def test_a_used_up_bucket_stops_the_groups_that_draw_on_it_and_no_others(enforced: str) -> None:
    """The others of the same zone and type draw on another bucket, as x2gd beside m5 and c5 on AWS."""
    groups = (
        drawing(CHEAP, "m5", 1.0, "standard"),
        drawing(ELSEWHERE, "c5", 2.0, "standard", "m5/z2"),
        drawing(CHEAP, "x2gd", 3.0, "x"),
        drawing(CHEAP, "none", 4.0),
    )
    story = Story(*groups, quota={"bucket": "standard", "cpus": 0, "enforced": enforced}, minutes=20)
    story.pods(3, at=AT)
    assert story.first_running() <= AT + 3 * MINUTE
    assert story.machines("x2gd") == 3
    assert story.asked("c5") == story.asked("none") == []
    held = {ref.group_id: backoff for state in story.states() for ref, backoff in state.memory.backoffs.items()}
    assert held.keys() == {"m5", "c5"}
    assert str(held["c5"].shared_from) == "fake/m5"


def test_a_bucket_that_its_own_group_does_not_list_reaches_the_scope_too() -> None:
    """A plugin knows the quotas of some groups alone: the others of the type draw on the same one, and so does "known"."""
    unknown = [{**one, "price_per_hour": price} for price, one in ((1.0, CHEAP), (2.0, SAME_TYPE))]
    known = drawing(ELSEWHERE, "known", 3.0, "standard")
    other = {**ELSEWHERE, "price_per_hour": 4.0}
    settings = {"consolidation-policy": "off"}  # no move back to cheaper groups
    faults = [refusal(scope="instance_type", bucket="standard")]
    story = Story(*unknown, known, other, settings=settings, faults=faults)
    story.pods(3, at=AT)
    assert story.machines("elsewhere") == 3
    assert story.asked("type") == story.asked("known") == []


def test_the_bucket_of_a_failure_counts_before_its_scope() -> None:
    groups = (drawing(CHEAP, "one", 1.0, "m/z1/spot"), drawing(CHEAP, "other", 2.0, "m/z1"))
    story = Story(*groups, faults=[refusal("one", scope="zone", bucket="m/z1/spot", error="out_of_capacity")])
    story.pods(3, at=AT)
    assert story.machines("other") == 3
    assert story.asked("other") == [AT]
