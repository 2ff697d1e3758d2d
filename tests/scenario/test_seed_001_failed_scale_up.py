"""The failure scenarios of seed 001, with and without fast failure detection, and the promises made for them."""

from itertools import pairwise
from typing import Any

from tests.scenario.story import LOOP, MINUTE, PROVISION, SILENT, Story

A = {"name": "a", "price_per_hour": 0.1}
B = {"name": "b", "price_per_hour": 0.2}
SOLD_OUT = [{"group": "a"}]
# Pods come at 5 s, so that the first loop that sees them is at 10 s.
ASKED = LOOP
TIMED_OUT = ASKED + PROVISION + LOOP


def scenario_1(**cloud: Any) -> Story:
    """Group a is asked for two machines and never delivers."""
    story = Story(A, B, stock_outs=SOLD_OUT, **cloud)
    story.pods(2, at=5)
    return story


def scenario_2(**cloud: Any) -> Story:
    """As scenario 1, and new pods keep coming."""
    story = Story(A, B, stock_outs=SOLD_OUT, **cloud)
    for number in range(30):
        story.pods(1, at=5 + number * MINUTE, name=f"web-{number}")
    return story


def scenario_3(**cloud: Any) -> Story:
    """A first start beside an empty group whose target is five: no engine remembers a request."""
    story = Story(A, B, stock_outs=SOLD_OUT, **cloud)
    story.cloud.set_target("a", 5)
    story.pods(3, at=5)
    return story


def test_scenario_1_with_fast_failure_detection_the_next_loop_asks_the_next_group() -> None:
    story = scenario_1()
    assert story.writes() == [
        (ASKED, "increase", "a", 0, 2),
        (ASKED + LOOP, "increase", "b", 0, 2),
        (ASKED + LOOP, "delete", "a", 2, 0),
    ]
    assert story.events("ScaleUpFailed") == [
        (
            ASKED + LOOP,
            (
                "Failed adding 2 nodes to group fake/a due to out_of_resources.STOCKOUT; "
                "source errors: no machines for a in stock"
            ),
        )
    ]
    assert story.events("ScaleUpTimedOut") == []
    assert story.result.final.pending == 0


def test_scenario_1_without_it_the_loop_of_the_timeout_withdraws_and_asks_the_next_group() -> None:
    """Seed: 90 minutes and more. Here: one provision time and at most one loop."""
    story = scenario_1(switched_off=SILENT)
    assert story.writes() == [
        (ASKED, "increase", "a", 0, 2),
        (TIMED_OUT, "withdraw", "a", 2, 0),
        (TIMED_OUT, "increase", "b", 0, 2),
    ]
    assert story.events("ScaleUpTimedOut") == [
        (TIMED_OUT, "2 nodes added to group fake/a failed to register within 15m")
    ]
    assert story.result.final.pending == 0


def test_scenario_2_with_fast_failure_detection_new_pods_go_where_the_others_went() -> None:
    story = scenario_2()
    assert story.asked("b")[0] == ASKED + LOOP
    assert max(story.result.pod_waits.values()) < 3 * MINUTE
    assert story.result.final.pending == 0


def test_scenario_2_without_it_new_pods_do_not_move_the_deadline_of_the_old() -> None:
    story = scenario_2(switched_off=SILENT)
    assert story.asked("b")[0] == TIMED_OUT
    boots = 80.0
    assert max(story.result.pod_waits.values()) <= PROVISION + 2 * LOOP + boots, "each pod waits one provision time"
    assert story.result.final.pending == 0
    assert (story.machines("a"), story.machines("b")) == (0, 30), "nothing is bought twice"


def test_scenario_3_with_fast_failure_detection_phantoms_are_cleared_at_first_sight() -> None:
    story = scenario_3()
    assert story.writes() == [(0, "delete", "a", 5, 0), (ASKED, "increase", "b", 0, 3)]


def test_scenario_3_without_it_an_empty_group_corrects_itself_after_one_provision_time() -> None:
    """Seed: a human must lower the size."""
    story = scenario_3(switched_off=SILENT)
    seen_first = 0.0
    corrected = seen_first + PROVISION + LOOP
    assert story.writes() == [(corrected, "withdraw", "a", 5, 0), (corrected, "increase", "b", 0, 3)]
    assert story.result.final.pending == 0


def test_where_only_the_dead_group_fits_it_is_tried_again_after_5_10_20_30_30_minutes() -> None:
    story = Story(A, stock_outs=SOLD_OUT, switched_off=SILENT, minutes=200)
    story.pods(1, at=5)
    asked = story.asked("a")
    rests = [later - earlier - PROVISION for earlier, later in pairwise(asked)]
    assert [round(rest / MINUTE) for rest in rests] == [5, 10, 20, 30, 30]


# The three ways a scale-up fails, and machines that do not register: one event each.


def test_a_refused_call_is_told_and_the_next_loop_starts_at_once() -> None:
    story = Story(A, B, faults=[{"kind": "refuse", "hook": "increase_size", "group": "a", "error": "out_of_capacity"}])
    story.pods(2, at=5)
    assert story.events("FailedToScaleUpGroup") == [
        (ASKED, "Scale-up failed for group fake/a: refused by the fake cloud")
    ]
    assert story.writes() == [(ASKED, "increase", "a", 0, 0), (ASKED, "increase", "b", 0, 2)]


def test_an_increase_that_is_accepted_for_no_machine_counts_as_refused() -> None:
    """Otherwise the same group would be asked in every loop, forever."""
    story = Story(A, B, faults=[{"kind": "partial", "hook": "increase_size", "group": "a", "at_most": 0}])
    story.pods(2, at=5)
    assert len(story.events("FailedToScaleUpGroup")) == 1
    assert story.writes() == [(ASKED, "increase", "a", 0, 0), (ASKED, "increase", "b", 0, 2)]


def test_after_a_partial_acceptance_nothing_is_asked_from_a_size_that_the_group_does_not_have() -> None:
    """Pods and the minimum both want machines of one group; the cloud accepts one of the two for the pods."""
    story = Story(
        {**A, "min_size": 3},
        settings={"enforce-node-group-min-size": True},
        faults=[{"kind": "partial", "hook": "increase_size", "at_most": 1, "times": 1}],
    )
    story.pods(2)
    assert story.events("FailedToScaleUpGroup") == []
    assert story.writes() == [
        (0, "increase", "a", 0, 1),
        (LOOP, "increase", "a", 1, 2),
        (LOOP, "increase", "a", 2, 3),
    ]


def test_machines_that_do_not_register_are_given_up_in_time_then_removed_and_told() -> None:
    story = Story({**A, "never_registers": 1.0}, B)
    story.pods(1, at=5)
    # The machine is seen first in the loop after the call; its own clock starts there.
    late = TIMED_OUT + LOOP
    assert story.writes() == [
        (ASKED, "increase", "a", 0, 1),
        (late, "increase", "b", 0, 1),
        (late + PROVISION, "delete", "a", 1, 0),
    ]
    assert story.events("DeleteUnregistered") == [
        (late + PROVISION, "Removed unregistered node fake:///a/a-0: did not become a node in time")
    ]


# What a failure reaches


def test_who_shares_an_account_is_tried_once_after_a_quota_error() -> None:
    """The quota may be that of a machine type or a region: only a try of its own tells (docs/adr/0020)."""
    story = Story(A, B, quota={"machines": 3, "enforced": "creation"}, minutes=4)
    story.pods(5, at=5)
    failed = ASKED + LOOP
    assert story.writes("increase") == [(ASKED, "increase", "a", 0, 5), (failed, "increase", "b", 0, 2)]
    backoffs = [story.state(name, failed + LOOP).backoff for name in ("a", "b")]
    ends = [backoff and (backoff.error_class, backoff.until) for backoff in backoffs]
    assert ends == [("quota", failed + 300), ("quota", failed + LOOP + 300)]
    assert (story.machines("a"), story.machines("b")) == (3, 0)


def test_a_stock_out_of_a_zone_backs_off_the_groups_of_that_zone() -> None:
    zones = [{**A, "zone": "z1"}, {**B, "zone": "z1"}, {"name": "c", "zone": "z2", "price_per_hour": 0.3}]
    story = Story(*zones, stock_outs=[{"zone": "z1"}], minutes=4)
    story.pods(2, at=5)
    assert story.writes("increase") == [(ASKED, "increase", "a", 0, 2), (ASKED + LOOP, "increase", "c", 0, 2)]
