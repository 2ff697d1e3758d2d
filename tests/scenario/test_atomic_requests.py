"""Requests of all or nothing (seed 004): machines for all pods or for none, and nothing half-granted left behind."""

from typing import Any

import pytest
from tests.scenario.requesting import ON, Asking
from tests.scenario.story import Story

from nodewright.model.capability import Capability
from nodewright.model.provisioning_request import BEST_EFFORT_ATOMIC, SEED_ATOMIC

POOL = {"name": "pool", "size": 0, "max_size": 20}
NO_ATOMIC = (Capability.ATOMIC_RESIZE.value,)
SILENT = (Capability.ATOMIC_RESIZE.value, Capability.FAST_FAILURE_DETECTION.value)
FEW = [{"group": "pool", "remaining": 3, "end": 1200}]


def make(*groups: dict[str, Any], minutes: float = 60, settings: dict[str, Any] | None = None, **cloud: Any) -> Asking:
    return Asking(Story(*groups, minutes=minutes, settings={**ON, **(settings or {})}, **cloud))


@pytest.mark.parametrize("kind", [BEST_EFFORT_ATOMIC, SEED_ATOMIC])
@pytest.mark.parametrize("without", [(), NO_ATOMIC])
def test_all_machines_come_and_only_then_it_is_provisioned(kind: str, without: tuple[str, ...]) -> None:
    asking = make(POOL, minutes=8, switched_off=without)
    asking.ask("a", 3, 2, at=60, kind=kind)
    assert asking.story.writes("increase") == [(60.0, "increase", "pool", 0, 5)]
    assert asking.conditions("a") == {"Accepted": "True/Accepted", "Provisioned": "True/CapacityIsProvisioned"}
    assert asking.when("a", "Provisioned", "False/Provisioning") == [60]
    (at,) = asking.when("a", "Provisioned", "True/CapacityIsProvisioned")
    assert 120 <= at <= 150
    assert asking.story.machines("pool") == 5


@pytest.mark.parametrize("profile", ["nodewright", "ca"])
def test_events_are_of_the_request_and_not_of_pods_that_nobody_could_look_up(profile: str) -> None:
    asking = make(POOL, minutes=5, settings={"profile": profile})
    asking.ask("a", 3, 2, at=60, kind=BEST_EFFORT_ATOMIC)
    asking.ask("big", 99, at=200, kind=BEST_EFFORT_ATOMIC)
    told = [held.event for held in asking.story.result.events if held.event.reason.endswith("riggerScaleUp")]
    told += [held.event for held in asking.story.result.events if held.event.reason == "TriggeredScaleUp"]
    assert {event.kind for event in told} == {"ProvisioningRequest"}
    grown = [(event.name, event.message) for event in told if event.reason == "TriggeredScaleUp"]
    assert grown == [("default/a", "request triggered scale-up: [{fake/pool 0->5 (max: 20)}]")]


def test_its_pods_run_on_it_and_it_is_over_when_they_do() -> None:
    asking = make(POOL, minutes=20)
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    asking.consume("a", 5, at=200, kind=BEST_EFFORT_ATOMIC)
    assert asking.conditions("a")["BookingExpired"] == "True/CapacityBookingConsumed"
    assert asking.story.result.final.running == 5
    assert [grown[3:] for grown in asking.story.writes("increase")] == [(0, 5)]


def test_room_that_is_there_is_used_first() -> None:
    asking = make({**POOL, "size": 3}, minutes=5)
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    asking.ask("b", 1, at=60, kind=BEST_EFFORT_ATOMIC)
    assert sorted(grown[3:] for grown in asking.story.writes("increase")) == [(3, 5), (5, 6)]
    assert asking.story.machines("pool") == 6


@pytest.mark.parametrize(("without", "tries", "gone"), [((), 2, 0), (NO_ATOMIC, 2, 10), (SILENT, 1, 5)])
def test_a_stock_out_leaves_no_machine_behind_and_the_request_waits(
    without: tuple[str, ...], tries: int, gone: int
) -> None:
    """The end lies between two tries, each for five machines: what was not refused has gone again, three of it machines."""
    asking = make(POOL, minutes=17, switched_off=without, stock_outs=[{**FEW[0], "end": 7200}])
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    assert asking.conditions("a") == {"Accepted": "True/Accepted", "Provisioned": "False/CapacityIsNotFound"}
    assert not asking.when("a", "Provisioned", "True/CapacityIsProvisioned")
    tried = asking.story.writes("increase")
    assert [before for _, _, _, before, _ in tried] == [0] * tries  # all of one try is gone before the next
    assert sum(before - after for _, _, _, before, after in asking.story.writes("delete", "withdraw")) == gone
    assert asking.story.machines("pool") == asking.story.cloud.group("pool").target == 0
    last = asking.story.loops[-1][0].memory.provisioning
    assert (len(last.reservations), len(last.retries)) == (0, 1)


def test_pods_that_come_while_its_machines_are_under_way_get_machines_of_their_own() -> None:
    asking = make(POOL, minutes=8)
    asking.ask("a", 3, at=60, kind=BEST_EFFORT_ATOMIC)
    asking.story.pods(2, at=75)
    assert [(size, more) for _, _, _, size, more in asking.story.writes("increase")] == [(0, 3), (3, 5)]
    assert asking.conditions("a")["Provisioned"] == "True/CapacityIsProvisioned"
    assert "CapacityRevoked" not in asking.conditions("a")
    assert asking.story.result.final.running == 2


def test_it_is_granted_once_the_cloud_has_machines() -> None:
    asking = make(POOL, minutes=60, switched_off=NO_ATOMIC, stock_outs=FEW)
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    assert len(asking.when("a", "Provisioned", "True/CapacityIsProvisioned")) == 1
    assert asking.conditions("a")["BookingExpired"] == "True/CapacityReservationTimeExpired"


def test_a_partial_answer_is_no_answer() -> None:
    fault = {"kind": "partial", "hook": "increase_size", "group": "pool", "at_most": 2, "times": 1}
    asking = make(POOL, minutes=30, switched_off=NO_ATOMIC, faults=[fault])
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    assert len(asking.when("a", "Provisioned", "True/CapacityIsProvisioned")) == 1
    assert max(grown[4] for grown in asking.story.writes("increase")) == 5


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ({}, "the maximum size leaves 4"),
        ({"max-nodes-total": 3}, "--max-nodes-total leaves 3"),
        ({"cores-total": "0:3"}, "the cluster's limits (cpu) leave 3"),
        ({"memory-total": "0:8"}, "the cluster's limits (memory) leave 2"),
    ],
)
def test_no_limit_shrinks_it_and_the_one_in_the_way_is_named(limit: dict[str, Any], says: str) -> None:
    size = 20 if limit else 4
    asking = make({**POOL, "max_size": size}, minutes=5, settings=limit)
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    assert asking.story.writes("increase") == []
    assert asking.conditions("a")["Provisioned"] == "False/CapacityIsNotFound"
    assert says in asking.message("a", "Provisioned")


def test_more_machines_than_an_ordinary_scale_up_may_ask_for() -> None:
    asking = make({**POOL, "max_size": 50}, minutes=5, settings={"max-nodes-per-scaleup": 10})
    asking.ask("a", 30, at=60, kind=BEST_EFFORT_ATOMIC)
    assert asking.story.writes("increase") == [(60.0, "increase", "pool", 0, 30)]


def test_one_request_spans_similar_groups_where_one_has_not_room_enough() -> None:
    asking = make({**POOL, "max_size": 3}, {"name": "twin", "max_size": 3}, minutes=6)
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    assert sum(grown[4] - grown[3] for grown in asking.story.writes("increase")) == 5
    assert asking.conditions("a")["Provisioned"] == "True/CapacityIsProvisioned"


def test_the_part_of_one_group_goes_when_another_refuses() -> None:
    fault = {"kind": "refuse", "group": "twin", "hook": "increase_size", "end": 6000}
    groups = ({**POOL, "max_size": 3}, {"name": "twin", "max_size": 3})
    asking = make(*groups, minutes=30, switched_off=NO_ATOMIC, faults=[fault])
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    assert asking.story.machines("pool") == asking.story.machines("twin") == 0
    assert not asking.when("a", "Provisioned", "True/CapacityIsProvisioned")


def test_pods_and_requests_are_served_in_one_loop() -> None:
    asking = make(POOL, minutes=10)
    asking.story.pods(3, at=60)
    asking.ask("a", 4, at=60, kind=BEST_EFFORT_ATOMIC)
    assert asking.story.result.final.running == 3
    assert asking.conditions("a")["Provisioned"] == "True/CapacityIsProvisioned"
    assert {grown[0] for grown in asking.story.writes("increase")} == {60.0}
    assert asking.story.machines("pool") == 7


def test_deletion_cancels_what_is_under_way() -> None:
    asking = make({**POOL, "request_delay": 300}, minutes=30)
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    asking.withdraw("a", at=100)
    (withdrawn,) = asking.story.writes("withdraw")
    assert withdrawn[1:] == ("withdraw", "pool", 5, 0)
    assert 100 <= withdrawn[0] <= 120
    assert asking.story.machines("pool") == 0


@pytest.mark.parametrize("after_effect", [True, False])
@pytest.mark.parametrize("keeps_memory", [True, False])
def test_an_engine_that_dies_at_the_call_buys_nothing_twice(after_effect: bool, keeps_memory: bool) -> None:
    asking = make(POOL, minutes=40)
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    asking.story.simulation.engine.crash(0, after_effect=after_effect, down_seconds=25, keeps_memory=keeps_memory)
    assert asking.conditions("a")["BookingExpired"] == "True/CapacityReservationTimeExpired"
    assert max(grown[4] for grown in asking.story.writes("increase")) == 5


def test_lost_machines_of_a_booked_request_revoke_it() -> None:
    take = {"do": "take_back", "group": "pool", "start": 300, "machines": 2}
    resize = {"do": "resize", "group": "pool", "start": 301, "size": 3}
    asking = make(POOL, minutes=10, interference=[take, resize])
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    assert asking.conditions("a")["CapacityRevoked"] == "True/CapacityIsLost"


@pytest.mark.parametrize("without", [(), NO_ATOMIC])
def test_an_engine_may_die_before_and_after_every_save_call_and_status_write(without: tuple[str, ...]) -> None:
    def play(boundary: int) -> Asking:
        asking = make(POOL, minutes=16, switched_off=without, settings={"scale-down-enabled": False})
        asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
        if boundary:
            asking.story.simulation.engine.kill(boundary, down_seconds=25, keeps_memory=True)
        assert asking.story.result
        return asking

    for boundary in range(len(play(0).story.simulation.engine.boundaries) + 1):
        asking = play(boundary)
        assert asking.conditions("a")["BookingExpired"] == "True/CapacityReservationTimeExpired", boundary
        assert asking.story.machines("pool") == 5, boundary
        assert not asking.story.loops[-1][0].memory.provisioning.reservations, boundary


def test_during_a_pause_nothing_is_asked_for_and_nothing_is_said_to_be() -> None:
    asking = make(POOL, minutes=15)
    asking.story.simulation.pause(30, 300)
    asking.ask("a", 5, at=60, kind=BEST_EFFORT_ATOMIC)
    (at,) = asking.when("a", "Provisioned", "False/Provisioning")
    assert 330 <= at <= 350
    assert asking.conditions("a")["Provisioned"] == "True/CapacityIsProvisioned"
