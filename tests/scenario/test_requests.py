"""Requests for room (seed 004): checked, held, consumed, given back, and tried again."""

from itertools import pairwise

import pytest
from tests.scenario.requesting import ON, Asking
from tests.scenario.story import MINUTE, Story

from nodewright.model.provisioning_request import CHECK_CAPACITY, SEED_CHECK_CAPACITY

POOL = {"name": "pool", "size": 4, "max_size": 20}


def make(*groups: dict[str, object], minutes: float = 60, **settings: object) -> Asking:
    return Asking(Story(*groups, minutes=minutes, settings={**ON, **settings}))


@pytest.mark.parametrize("kind", [CHECK_CAPACITY, SEED_CHECK_CAPACITY])
def test_room_that_is_there_is_found_and_held_until_it_expires(kind: str) -> None:
    asking = make(POOL, minutes=15)
    asking.ask("a", 3, at=60, kind=kind)
    found = {"Accepted": "True/Accepted", "Provisioned": "True/CapacityIsFound"}
    found |= {"CapacityAvailable": "True/CapacityIsFound"}
    assert asking.conditions("a") == found | {"BookingExpired": "True/CapacityReservationTimeExpired"}
    assert asking.when("a", "Provisioned", "True/CapacityIsFound") == [60]
    (expired,) = asking.when("a", "BookingExpired", "True/CapacityReservationTimeExpired")
    assert 60 + 10 * MINUTE < expired <= 60 + 10 * MINUTE + 20
    assert asking.story.machines("pool") == 3  # the empty one went, those that are held stayed


@pytest.mark.parametrize(
    ("settings", "minutes"),
    [
        ({"scale-down-unneeded-time": "1m"}, 10),
        ({"scale-down-unneeded-time": "30m"}, 30),
        ({"scale-down-unneeded-time": "30m", "provisioning-request-reservation-time": "2m"}, 2),
        ({"provisioning-request-reservation-time": "0s"}, 0),
        ({"scale-down-unneeded-time": "30m", "profile": "ca"}, 10),
        ({"provisioning-request-reservation-time": "2m", "profile": "ca"}, 10),
    ],
)
def test_room_is_held_as_long_as_unneeded_nodes_stay_or_as_the_flag_says(
    settings: dict[str, object], minutes: float
) -> None:
    asking = make(POOL, minutes=45, **settings)
    asking.ask("a", 3, at=60)
    (found,) = asking.when("a", "Provisioned", "True/CapacityIsFound")
    (expired,) = asking.when("a", "BookingExpired", "True/CapacityReservationTimeExpired")
    assert minutes * MINUTE < expired - found <= minutes * MINUTE + 20


def test_pods_that_come_late_find_their_room_where_unneeded_nodes_stay_for_long() -> None:
    asking = make(POOL, minutes=45, **{"scale-down-unneeded-time": "30m"})
    asking.ask("a", 3, at=60)
    asking.consume("a", 3, at=25 * MINUTE)
    assert asking.conditions("a")["BookingExpired"] == "True/CapacityBookingConsumed"
    assert asking.story.result.final.pending == 0


def test_without_a_reservation_a_check_guards_nothing_beyond_its_loop() -> None:
    asking = make(POOL, minutes=10, **{"provisioning-request-reservation-time": "0s"})
    asking.ask("a", 3, at=60)
    asking.ask("b", 3, at=60)
    asking.ask("c", 3, at=120)
    assert asking.when("a", "Provisioned", "True/CapacityIsFound") == [60]
    assert asking.conditions("b")["Provisioned"] == "True/CapacityIsFound"  # a minute later, at its second try
    assert asking.when("c", "Provisioned", "True/CapacityIsFound") == [120]
    assert asking.story.result.final.pending == 0


def test_what_is_held_for_one_is_not_promised_to_another_in_the_same_loop() -> None:
    asking = make(POOL, minutes=5)
    asking.ask("a", 3, at=60)
    asking.ask("b", 2, at=60)
    assert asking.conditions("a")["Provisioned"] == "True/CapacityIsFound"
    assert asking.conditions("b")["Provisioned"] == "False/CapacityIsNotFound"
    assert asking.message("b", "Provisioned").endswith("there is room for 1 of 2 pods")


def test_room_on_which_ordinary_pods_run_by_then_is_not_promised() -> None:
    asking = make(POOL, minutes=8)
    asking.ask("a", 4, at=60)
    asking.story.pods(2, at=60, name="web")
    assert asking.conditions("a")["Provisioned"] == "False/CapacityIsNotFound"
    assert asking.message("a", "Provisioned").endswith("there is room for 2 of 4 pods")
    assert asking.story.writes("increase") == []


def test_what_kube_scheduler_gave_to_ordinary_pods_is_revoked_after_a_minute() -> None:
    asking = make(POOL, minutes=8)
    asking.ask("a", 4, at=60)
    asking.story.pods(2, at=120, name="web")  # it puts them on free nodes, also on promised ones
    assert asking.when("a", "Provisioned", "True/CapacityIsFound") == [60]
    (at,) = asking.when("a", "CapacityRevoked", "True/CapacityIsLost")
    assert 120 + MINUTE < at <= 120 + MINUTE + 20
    assert asking.message("a", "CapacityRevoked").startswith("Room for 2 of 4 pods")
    assert asking.story.writes("increase") == []


def test_pods_that_come_use_the_booking_up() -> None:
    asking = make(POOL, minutes=20)
    asking.ask("a", 3, at=60)
    asking.consume("a", 3, at=120)
    assert asking.conditions("a")["BookingExpired"] == "True/CapacityBookingConsumed"
    (at,) = asking.when("a", "BookingExpired", "True/CapacityBookingConsumed")
    assert 120 <= at <= 140
    assert asking.story.result.final.pending == 0
    assert asking.story.writes("increase") == []


def test_consumers_never_make_a_group_grow_and_are_told_why() -> None:
    asking = make(POOL, minutes=10)
    asking.ask("a", 9, at=60)
    asking.consume("a", 9, at=120)
    assert asking.story.writes("increase") == []
    assert asking.story.result.final.pending == 5
    told = asking.story.events("ConsumesProvisioningRequest")
    assert told[0][1].startswith("Unschedulable pod didn't trigger scale-up")


def test_a_missing_request_is_told_to_its_pods() -> None:
    asking = make(POOL, minutes=10)
    asking.consume("nobody", 9, at=60)
    assert asking.story.writes("increase") == []
    assert "which does not exist: create it" in asking.story.events("ProvisioningRequestMissing")[0][1]


def test_it_is_tried_again_after_a_minute_then_two_and_found_when_room_comes() -> None:
    asking = make({**POOL, "size": 1}, minutes=20, **{"scale-down-enabled": False})
    asking.ask("a", 3, at=60)
    asking.story.pods(4, at=90)  # three nodes more
    asking.story.at(200, lambda: None)  # a loop in between, which does not look
    assert asking.conditions("a")["Provisioned"] == "False/CapacityIsNotFound"
    # At the first look, one minute and two minutes later, and so on.
    seen = [plan.provisioning.examined for _, plan in asking.story.loops]
    times = [state.now for (state, _), hit in zip(asking.story.loops, seen, strict=True) if hit]
    gaps = [later - sooner for sooner, later in pairwise(times)]
    assert gaps[:3] == [70, 130, 250]


def test_it_fails_when_its_time_is_over() -> None:
    asking = make(POOL, minutes=40)
    asking.ask("a", 9, at=60, parameters={"ValidUntilSeconds": "900"})
    assert asking.conditions("a")["Failed"] == "True/Expired"
    (at,) = asking.when("a", "Failed", "True/Expired")
    assert 60 + 900 < at <= 60 + 920


def test_without_retry_it_fails_at_once() -> None:
    asking = make(POOL, minutes=5)
    asking.ask("a", 9, at=60, parameters={"noRetry": "true"})
    assert asking.conditions("a") == {"Accepted": "True/Accepted", "Failed": "True/CapacityIsNotFound"}


def test_a_missing_template_fails_that_request_alone() -> None:
    asking = make(POOL, minutes=5)
    asking.ask("bad", 1, at=60, templates=False)
    asking.ask("good", 1, at=60)
    assert asking.conditions("bad") == {"Failed": "True/FailedToCreatePods"}
    assert "1 templates were missing: bad-0" in asking.message("bad", "Failed")
    assert asking.conditions("good")["Provisioned"] == "True/CapacityIsFound"


def test_deletion_gives_the_room_back_at_once() -> None:
    asking = make(POOL, minutes=6)
    asking.ask("a", 4, at=60)
    asking.withdraw("a", at=100)
    asking.ask("b", 4, at=110)
    assert asking.conditions("b")["Provisioned"] == "True/CapacityIsFound"


@pytest.mark.parametrize("keeps_memory", [True, False])
def test_status_survives_a_restart(keeps_memory: bool) -> None:
    asking = make(POOL, minutes=15)
    asking.ask("a", 3, at=60)
    asking.ask("b", 2, at=200)
    asking.story.simulation.engine.restart(120, down_seconds=30, keeps_memory=keeps_memory)
    assert asking.when("a", "Provisioned", "True/CapacityIsFound") == [60]
    assert asking.when("b", "Provisioned", "False/CapacityIsNotFound") == [200]  # what a was promised still counts
    assert asking.conditions("a")["BookingExpired"] == "True/CapacityReservationTimeExpired"


def test_a_status_that_cannot_be_written_is_decided_anew() -> None:
    asking = make(POOL, minutes=10)
    asking.ask("a", 3, at=60)
    asking.refuse_writes(50, 200)
    assert asking.when("a", "Provisioned", "True/CapacityIsFound") == [200]
    assert asking.story.events("StatusNotWritten")


def test_what_is_over_for_a_week_is_deleted() -> None:
    asking = make(POOL, minutes=8 * 24 * 60)
    asking.ask("a", 3, at=60)
    assert asking.story.result
    assert asking.requests.get("default/a") is None


@pytest.mark.parametrize(
    ("counts", "parameters", "says"),
    [
        ((), {}, "spec.podSets has 0 entries"),
        ((0,), {}, "spec.podSets[0].count is 0"),
        ((20_000,), {}, "spec.podSets[0].count is 20000: it must be 1 to 16384"),
        ((1,), {"noRetry": "yes"}, "parameter noRetry must be true or false"),
        ((1,), {"ValidUntilSeconds": "soon"}, "parameter ValidUntilSeconds must be a number of seconds"),
        ((1,), {"ValidUntilSeconds": "-5"}, "parameter ValidUntilSeconds must be a number of seconds"),
    ],
)
def test_a_request_that_is_wrong_fails_and_says_what_to_change(
    counts: tuple[int, ...], parameters: dict[str, str], says: str
) -> None:
    asking = make(POOL, minutes=3)
    asking.ask("bad", *counts, at=60, parameters=parameters)
    asking.ask("good", 1, at=60)
    assert asking.conditions("bad") == {"Failed": "True/InvalidRequest"}
    assert asking.message("bad", "Failed").startswith(says)
    assert asking.conditions("good")["Provisioned"] == "True/CapacityIsFound"


def test_a_class_that_no_controller_serves_is_left_alone() -> None:
    asking = make(POOL, minutes=3)
    asking.ask("a", 1, at=60, kind="queued.example.com")
    assert asking.conditions("a") == {}
