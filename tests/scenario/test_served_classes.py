"""Classes of requests that a provider serves itself, and those that no provider serves."""

from typing import Any

import pytest
from tests.scenario.requesting import ON, Asking
from tests.scenario.story import MINUTE, Story

from nodewright_simulator.crash import Boundary

QUEUED = "queued.example.com"
POOL = {"name": "pool", "size": 0, "max_size": 20}
CLASSES = [{"name": QUEUED, "max_pods": 10, "group": "pool"}]


def make(minutes: float = 30, settings: dict[str, Any] | None = None, **cloud: Any) -> Asking:
    options = {"provisioning_classes": CLASSES, **cloud}
    return Asking(Story(POOL, minutes=minutes, settings={**ON, **(settings or {})}, **options))


def questions(asking: Asking) -> list[float]:
    """When a provider was asked, or would have been."""
    assert asking.story.result
    return [state.now for state, plan in asking.story.loops if plan.provisioning.calls]


def test_the_provider_makes_the_machines_and_its_pods_use_them_up() -> None:
    asking = make()
    asking.ask("a", 3, 2, at=60, kind=QUEUED)
    asking.consume("a", 5, at=400, kind=QUEUED)
    assert asking.when("a", "Provisioned", "False/InProgress") == [60]
    (at,) = asking.when("a", "Provisioned", "True/Provisioned")
    assert 120 < at <= 60 + 4 * MINUTE
    assert asking.conditions("a") == {
        "Accepted": "True/Accepted",
        "Provisioned": "True/Provisioned",
        "BookingExpired": "True/CapacityBookingConsumed",
    }
    assert asking.message("a", "Provisioned") == "5 of 5 run"
    assert asking.story.result.final.running == 5
    assert asking.story.machines("pool") == 5  # it was asked more than once, and made them once
    assert asking.story.writes("increase") == []  # the core bought nothing
    audit = [(one.action, one.target, one.outcome, one.message) for one in asking.story.result.audit]
    refused, done = audit[0], audit[-1]
    assert refused == ("Provision", 5, "refused", "InProgress: 0 of 5 run")
    assert done == ("Provision", 5, "done", "Provisioned: 5 of 5 run")


def test_what_the_provider_made_is_held_like_any_other_room() -> None:
    asking = make(minutes=8)
    asking.ask("a", 5, at=60, kind=QUEUED)
    asking.ask("b", 1, at=300)
    assert asking.conditions("a")["Provisioned"] == "True/Provisioned"
    assert asking.conditions("b")["Provisioned"] == "False/CapacityIsNotFound"


def test_a_refusal_is_tried_again_until_its_time_is_over() -> None:
    asking = make(minutes=40)
    asking.ask("a", 11, at=60, kind=QUEUED, parameters={"ValidUntilSeconds": "900"})
    assert asking.conditions("a")["Provisioned"] == "False/TooLarge"
    assert asking.message("a", "Provisioned") == "11 pods are more than 10"
    assert asking.conditions("a")["Failed"] == "True/Expired"
    assert questions(asking)[:4] == [60, 130, 260, 510]  # 1, 2 and 4 minutes apart, in the loop after


def test_without_retry_a_refusal_is_the_end_and_a_call_that_fails_is_not() -> None:
    fault = {"kind": "refuse", "hook": "provision", "start": 0, "end": 100, "error": "quota", "message": "ask for more"}
    asking = make(faults=[fault])
    asking.ask("big", 11, at=60, kind=QUEUED, parameters={"noRetry": "true"})
    assert asking.when("big", "Provisioned", "False/ProviderFailed") == [60]
    assert asking.conditions("big")["Failed"] == "True/TooLarge"


def test_a_provider_that_fails_is_named_in_the_condition() -> None:
    fault = {"kind": "refuse", "hook": "provision", "error": "quota", "message": "ask for more", "end": 6000}
    asking = make(minutes=5, faults=[fault])
    asking.ask("a", 2, at=60, kind=QUEUED)
    assert asking.conditions("a") == {"Accepted": "True/Accepted", "Provisioned": "False/ProviderFailed"}
    assert "ask for more" in asking.message("a", "Provisioned")


def test_machines_that_went_again_revoke_it() -> None:
    changes = [{"do": "resize", "group": "pool", "start": 400, "size": 2}]
    asking = make(minutes=12, interference=changes)
    asking.ask("a", 5, at=60, kind=QUEUED)
    assert asking.conditions("a")["CapacityRevoked"] == "True/CapacityIsLost"


def test_during_a_pause_no_provider_is_asked_and_it_is_at_once_afterwards() -> None:
    asking = make(minutes=20)
    asking.story.simulation.pause(30, 600)
    asking.ask("a", 2, at=60, kind=QUEUED)
    (at,) = asking.when("a", "Provisioned", "False/InProgress")
    assert 630 <= at <= 650


@pytest.mark.parametrize("keeps_memory", [True, False])
def test_an_engine_may_die_before_and_after_every_question(keeps_memory: bool) -> None:
    def play(boundary: int) -> Asking:
        asking = make(minutes=20, settings={"scale-down-enabled": False})
        asking.ask("a", 5, at=60, kind=QUEUED)
        if boundary:
            asking.story.simulation.engine.kill(boundary, down_seconds=25, keeps_memory=keeps_memory)
        assert asking.story.result
        return asking

    passed = list(play(0).story.simulation.engine.boundaries)
    assert Boundary("provision", "after") in passed
    for boundary in range(1, len(passed) + 1):
        asking = play(boundary)
        assert asking.conditions("a")["BookingExpired"] == "True/CapacityReservationTimeExpired", boundary
        assert asking.story.machines("pool") == 5, boundary


def test_a_process_for_check_capacity_alone_and_cas_profile_ask_no_provider() -> None:
    for settings in ({"check-capacity-processor-instance": "one"}, {"profile": "ca"}):
        asking = make(minutes=5, settings=settings)
        asking.ask("a", 2, at=60, kind=QUEUED)
        assert asking.conditions("a") == {}


def test_a_class_that_no_provider_serves_is_left_alone_with_an_event() -> None:
    asking = make(minutes=5)
    asking.ask("a", 1, at=60, kind="qeued.example.com")
    assert asking.conditions("a") == {}
    at, message = asking.story.events("ProvisioningClassNotServed")[0]
    assert 60 + MINUTE <= at <= 60 + MINUTE + 10
    assert "class qeued.example.com" in message
    assert message.endswith("providers serve queued.example.com")
    assert not questions(asking)
