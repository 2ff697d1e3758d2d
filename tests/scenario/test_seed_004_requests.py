"""Promises of seed 004 (requests for capacity) that are about the whole life of a request and its pods."""

from typing import Any

import pytest
from tests.scenario.requesting import ON, Asking
from tests.scenario.story import MINUTE, Story

from nodewright.model.provisioning_request import BEST_EFFORT_ATOMIC, CHECK_CAPACITY

POOL = {"name": "pool", "size": 0, "max_size": 20, "provision_delay": "2m"}
WHOLE = BEST_EFFORT_ATOMIC


def make(*groups: dict[str, Any], minutes: float = 60) -> Asking:
    return Asking(Story(*groups, minutes=minutes, settings=ON))


def test_a_request_and_its_pods_may_come_together() -> None:
    """The pods wait for the machines of the request, and nothing is bought for the pods besides."""
    asking = make(POOL, minutes=20)
    asking.ask("a", 4, at=60, kind=WHOLE)
    asking.consume("a", 4, at=60, kind=WHOLE)
    assert [grown[3:] for grown in asking.story.writes("increase")] == [(0, 4)]
    assert asking.story.result.final.running == 4
    assert asking.conditions("a")["BookingExpired"] == "True/CapacityBookingConsumed"


def test_once_the_pods_have_finished_the_nodes_go_like_any_other() -> None:
    asking = make(POOL, minutes=90)
    asking.ask("a", 4, at=60, kind=WHOLE)
    annotations = {"autoscaling.x-k8s.io/provisioning-class-name": BEST_EFFORT_ATOMIC}
    annotations["autoscaling.x-k8s.io/consume-provisioning-request"] = "a"
    asking.story.pods(4, at=300, until=40 * MINUTE, name="of-a", annotations=annotations)
    gone = [write[0] for write in asking.story.writes("delete")]
    assert len(gone) == 4
    assert min(gone) >= 50 * MINUTE
    assert asking.story.machines("pool") == 0


def test_a_request_that_is_deleted_leaves_its_nodes_to_scale_down() -> None:
    """Until then they are held; afterwards they have been unneeded for as long as any node must be."""
    asking = make(POOL)
    asking.ask("a", 4, at=60, kind=WHOLE)
    asking.withdraw("a", at=420)
    assert asking.when("a", "Provisioned", "True/CapacityIsProvisioned")
    gone = [write[0] for write in asking.story.writes("delete")]
    assert len(gone) == 4
    assert min(gone) >= 420 + 10 * MINUTE
    assert asking.story.machines("pool") == 0


def test_pods_without_the_annotations_get_nodes_as_ever() -> None:
    asking = make(POOL, minutes=15)
    asking.ask("a", 3, at=60)
    asking.story.pods(3, at=120)
    assert asking.conditions("a")["CapacityAvailable"] == "False/CapacityIsNotFound"
    assert [grown[3:] for grown in asking.story.writes("increase")] == [(0, 3)]
    assert asking.story.result.final.running == 3


def test_both_are_told_when_others_took_the_room_that_was_found() -> None:
    """Nothing is bought for them: the request loses what it was promised, and its pods are told what they wait for."""
    asking = make({**POOL, "size": 4}, minutes=10)
    asking.ask("a", 4, at=60)
    asking.story.pods(3, at=90, name="web")
    asking.consume("a", 4, at=120, kind=CHECK_CAPACITY)
    assert asking.story.writes("increase") == []
    (lost,) = [held.event for held in asking.story.result.events if held.event.reason == "CapacityIsLost"]
    assert (lost.kind, lost.name, lost.type) == ("ProvisioningRequest", "default/a", "Warning")
    assert asking.story.events("ConsumesProvisioningRequest")


@pytest.mark.parametrize("kind", [CHECK_CAPACITY, BEST_EFFORT_ATOMIC])
def test_every_condition_is_an_event_of_the_request(kind: str) -> None:
    asking = make({**POOL, "size": 2}, minutes=20)
    asking.ask("a", 2, at=60, kind=kind)
    told = [held.event for held in asking.story.result.events if held.event.kind == "ProvisioningRequest"]
    assert {event.name for event in told} == {"default/a"}
    said = set(asking.conditions("a").values())
    assert {f"True/{event.reason}" for event in told} == said
