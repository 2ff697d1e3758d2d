"""Requests that are changed, deleted and sent in floods harm only the namespace that sends them."""

from typing import Any

import pytest
from tests.scenario.requesting import ON, Asking
from tests.scenario.story import MINUTE, Story

from nodewright.model.capability import Capability
from nodewright.model.provisioning_request import (
    BEST_EFFORT_ATOMIC,
    CHECK_CAPACITY,
    CLASS_ANNOTATION,
    OLD_REQUEST_ANNOTATION,
    PROVISIONED,
    REQUEST_ANNOTATION,
)

POOL = {"name": "pool", "size": 0, "max_size": 20}
SLOW = {**POOL, "request_delay": 300}


def make(*groups: dict[str, Any], minutes: float = 30, **settings: Any) -> Asking:
    return Asking(Story(*(groups or (POOL,)), minutes=minutes, settings={**ON, **settings}))


def test_a_template_that_grows_afterwards_loses_its_room_and_takes_no_other() -> None:
    asking = make({**POOL, "size": 3, "min_size": 3}, minutes=10)
    asking.ask("a", 2, at=60)
    asking.ask("b", 1, at=60)
    asking.template("a-0", at=120, cpu="7")
    assert asking.when("a", "Provisioned", "True/CapacityIsFound") == [60]
    (at,) = asking.when("a", "CapacityRevoked", "True/CapacityIsLost")
    assert 120 + MINUTE < at <= 120 + MINUTE + 20
    assert "CapacityRevoked" not in asking.conditions("b")
    assert asking.story.writes("increase") == []


def test_a_template_that_changes_while_its_machines_come_buys_no_more() -> None:
    asking = make(minutes=8)
    asking.ask("a", 3, at=60, kind=BEST_EFFORT_ATOMIC)
    asking.template("a-0", at=80, cpu="0.5")
    assert asking.conditions("a")["Provisioned"] == "True/CapacityIsProvisioned"
    assert [grown[3:] for grown in asking.story.writes("increase")] == [(0, 3)]


def test_a_template_that_goes_while_its_machines_come_ends_the_request_and_withdraws_them() -> None:
    asking = make(SLOW)
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    asking.story.at(100, lambda: asking.templates.drop("default/a-0"))
    assert asking.conditions("a")["Failed"] == "True/FailedToBookCapacity"
    assert asking.message("a", "Failed").endswith("1 templates were missing: a-0")
    assert [grown[1:] for grown in asking.story.writes("withdraw")] == [("withdraw", "pool", 5, 0)]
    assert not asking.story.loops[-1][0].memory.provisioning.reservations


def test_two_requests_of_one_template_get_room_each() -> None:
    asking = make(minutes=8)
    asking.ask("a", 2, at=60, kind=BEST_EFFORT_ATOMIC)
    asking.ask("b", 3, at=60, kind=BEST_EFFORT_ATOMIC, template="a-0")
    assert sorted(grown[3:] for grown in asking.story.writes("increase")) == [(0, 2), (2, 5)]
    assert asking.conditions("a")["Provisioned"] == asking.conditions("b")["Provisioned"]
    assert asking.conditions("b")["Provisioned"] == "True/CapacityIsProvisioned"


def test_a_request_that_is_being_deleted_is_cancelled_though_a_finalizer_keeps_it() -> None:
    asking = make(SLOW)
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    asking.begin_to_delete("a", at=100)
    (withdrawn,) = asking.story.writes("withdraw")
    assert withdrawn[1:] == ("withdraw", "pool", 5, 0)
    assert 100 <= withdrawn[0] <= 120
    assert asking.conditions("a")["Provisioned"] == "False/Provisioning"  # nothing is written to it any more


def test_room_of_a_request_that_is_being_deleted_is_free() -> None:
    asking = make({**POOL, "size": 4}, minutes=6)
    asking.ask("a", 4, at=60)
    asking.begin_to_delete("a", at=100)
    asking.ask("b", 4, at=110)
    assert asking.conditions("b")["Provisioned"] == "True/CapacityIsFound"


def test_a_request_of_the_same_name_is_another_one() -> None:
    """What the first one is owed is withdrawn, and the second one is decided by itself."""
    asking = make(SLOW, minutes=12)
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    asking.withdraw("a", at=100)
    asking.ask("a", 2, at=100, kind=BEST_EFFORT_ATOMIC)
    assert asking.conditions("a")["Provisioned"] == "True/CapacityIsProvisioned"
    assert asking.story.machines("pool") == asking.story.cloud.group("pool").target == 2


@pytest.mark.parametrize("at", [370, 380, 410])
def test_machines_that_are_taken_back_are_no_room_for_others(at: float) -> None:
    """Three of five came, and go again after five minutes; another writer asks in that very loop, and while they go."""
    cloud: dict[str, Any] = {
        "switched_off": ("atomic_resize", "fast_failure_detection"),
        "stock_outs": [{"remaining": 3, "end": 3600}],
    }
    flags = {**ON, "max-node-provision-time": "5m"}
    asking = Asking(Story({**POOL, "delete_delay": 120}, minutes=10, settings=flags, **cloud))
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    asking.ask("b", 3, at=at)
    assert [write[0] for write in asking.story.writes("delete")] == [380]
    assert asking.conditions("b")["Provisioned"] == "False/CapacityIsNotFound"
    assert not asking.when("b", "Provisioned", "True/CapacityIsFound")


@pytest.mark.parametrize("without", [(), (Capability.ATOMIC_RESIZE.value,)])
def test_a_status_that_can_be_written_no_more_leaves_nothing_behind(without: tuple[str, ...]) -> None:
    """From the moment on at which its machines are under way: they are booked when there is a request to report to."""
    asking = Asking(Story(POOL, minutes=20, settings=ON, switched_off=without))
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    asking.refuse_writes(70, 500)
    (at,) = asking.when("a", "Provisioned", "True/CapacityIsFound")
    assert 500 <= at <= 520
    assert [grown[3:] for grown in asking.story.writes("increase")] == [(0, 5)]


def test_a_condition_of_the_future_ends_ten_minutes_from_now() -> None:
    """As after a clock that was set back by a day."""
    asking = make({**POOL, "size": 3}, minutes=20)
    asking.ask("a", 3, at=60)
    asking.date("a", PROVISIONED, 86_400, at=120)
    (at,) = asking.when("a", "BookingExpired", "True/CapacityReservationTimeExpired")
    assert 120 + 10 * MINUTE < at <= 120 + 10 * MINUTE + 20


@pytest.mark.parametrize(
    ("annotations", "reason", "says"),
    [
        ({REQUEST_ANNOTATION: "a"}, "ProvisioningClassMismatch", "is not set, and ProvisioningRequest default/a is of"),
        ({REQUEST_ANNOTATION: "a", CLASS_ANNOTATION: "other"}, "ProvisioningClassMismatch", "is other, and"),
        ({OLD_REQUEST_ANNOTATION: "a"}, "ProvisioningClassMismatch", "is not set, and"),
        ({CLASS_ANNOTATION: CHECK_CAPACITY}, "ProvisioningRequestNotNamed", "set both annotations, or none"),
        ({REQUEST_ANNOTATION: "over", CLASS_ANNOTATION: CHECK_CAPACITY}, "ProvisioningRequestOver", "which is over"),
        ({REQUEST_ANNOTATION: "", CLASS_ANNOTATION: CHECK_CAPACITY}, "ProvisioningRequestMissing", "create it"),
    ],
)
def test_annotations_that_are_wrong_are_told_to_the_pod(annotations: dict[str, str], reason: str, says: str) -> None:
    """Only a pod that names no request is an ordinary one, for which machines are bought."""
    asking = make(minutes=5)
    asking.ask("a", 30, at=60)
    asking.ask("over", 30, at=60, parameters={"noRetry": "true"})
    asking.story.pods(1, at=120, name="odd", annotations=annotations)
    told = asking.story.events(reason)
    assert says in told[0][1]
    assert bool(asking.story.writes("increase")) == (reason == "ProvisioningRequestNotNamed")
