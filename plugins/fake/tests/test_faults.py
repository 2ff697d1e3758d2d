"""Calls fail as configured, and the client handles it."""

from typing import Any

import pytest

from nodewright.model.errors import AccessDenied, OutcomeUnknown, OutOfCapacity, ProviderError, ProviderUnavailable
from nodewright_fake import Hang, Refuse, Slow, Throttle


def test_refusals_have_their_window(set_up: Any) -> None:
    fault = {"kind": "refuse", "hook": "increase_size", "group": "b", "end": "1m", "error": "out_of_capacity"}
    stage = set_up(faults=[fault])
    with pytest.raises(OutOfCapacity) as caught:
        stage.client.increase_size("b", 0, 1)
    assert caught.value.group_id == "b"
    assert stage.client.increase_size("a", 1, 2) == 1
    stage.later(60)
    assert stage.client.increase_size("b", 0, 1) == 1


def test_a_fault_strikes_so_many_times_and_can_be_cleared(set_up: Any) -> None:
    stage = set_up()
    fault = stage.cloud.faults.inject(Refuse(hook="target_size", error="access_denied", times=1))
    with pytest.raises(AccessDenied):
        stage.client.target_size("a")
    assert stage.client.target_size("a") == 1
    lasting = stage.cloud.faults.inject(Refuse(hook="target_size", error="access_denied"))
    stage.cloud.faults.clear(lasting)
    assert stage.client.target_size("a") == 1
    stage.cloud.faults.clear(fault)


def test_throttled_reads_succeed_after_the_pause(set_up: Any) -> None:
    stage = set_up()
    stage.cloud.faults.inject(Throttle(hook="refresh", times=2, retry_after=3.0))
    stage.client.refresh()
    assert stage.clock.now() == 1006


def test_a_slow_call_takes_virtual_time(set_up: Any) -> None:
    stage = set_up()
    stage.cloud.faults.inject(Slow(hook="increase_size", seconds=20.0))
    assert stage.client.increase_size("b", 0, 1) == 1
    assert stage.clock.now() == 1020


@pytest.mark.parametrize("takes_effect", ["first", "never"])
def test_a_hanging_increase_ends_well_either_way(set_up: Any, takes_effect: str) -> None:
    stage = set_up()
    stage.cloud.faults.inject(Hang(hook="increase_size", times=1, takes_effect=takes_effect))
    assert stage.client.increase_size("b", 0, 2) == 2
    assert stage.cloud.view("b").target == 2
    assert stage.clock.now() == 1000 + stage.client.deadline_seconds


def test_a_cloud_that_hangs_altogether_leaves_the_outcome_open(set_up: Any) -> None:
    stage = set_up()
    stage.cloud.faults.inject(Hang(takes_effect="first"))
    with pytest.raises(OutcomeUnknown):
        stage.client.increase_size("b", 0, 2)
    assert stage.cloud.view("b").target == 2


def test_partial_acceptance_and_wrong_sizes(set_up: Any) -> None:
    partial = {"kind": "partial", "hook": "increase_size", "at_most": 2}
    wrong = {"kind": "wrong_size", "group": "a", "off_by": 3}
    stage = set_up(faults=[partial, wrong])
    assert stage.client.increase_size("b", 0, 5) == 2
    assert (stage.client.target_size("b"), stage.client.target_size("a")) == (2, 4)


def test_an_unreadable_listing_degrades_its_own_group(set_up: Any) -> None:
    stage = set_up(faults=[{"kind": "refuse", "hook": "instances", "group": "a", "error": "unavailable"}])
    with pytest.raises(ProviderUnavailable) as caught:
        stage.client.instances("a")
    assert caught.value.group_id == "a"
    assert stage.states("b") == []


def test_a_crash_is_translated(set_up: Any) -> None:
    stage = set_up(faults=[{"kind": "crash", "hook": "instances", "message": "oops"}])
    with pytest.raises(ProviderError, match="fake raised RuntimeError in instances: oops"):
        stage.client.instances("a")


def test_a_machine_that_runs_is_reported_as_failed_for_half_of_each_period(set_up: Any) -> None:
    rule = {"group": "a", "start": "10s", "end": "1m", "flaps_every": "20s", "machines": 1, "code": "ODD"}
    stage = set_up(false_failures=[rule])
    assert stage.cloud.next_change() == 1010
    machine, told = stage.client.instances("a")[0].id, dict[float, list[str]]()
    for second in (0, 10, 19, 20, 30, 40, 50, 60):
        stage.later(1000 + second - stage.clock.now())
        told[second] = [failure.failure_id for failure in stage.client.failed_instances("a") or ()]
        assert len(stage.client.instances("a")) == 1 - len(told[second])
    assert [second for second, ids in told.items() if ids] == [10, 19, 30, 50]
    assert told[10] == told[19] != told[30]
    stage.later(0)
    assert stage.cloud.living("a") == {machine}
    assert stage.cloud.next_change() > 1_000_000


def test_a_machine_reported_as_failed_can_be_deleted_for_real(set_up: Any) -> None:
    stage = set_up(false_failures=[{"also_listed": True, "error_class": "out_of_resources"}])
    [failure] = stage.client.failed_instances("a")
    [machine] = stage.client.instances("a")
    assert failure.instance_id == machine.id
    assert stage.client.delete_instances("a", [machine.id], 1) == (machine.id,)
    assert stage.cloud.living("a") == frozenset()
