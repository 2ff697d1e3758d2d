"""Machines come, fail and go as the options say, at their own time."""

from typing import Any

import pytest

from nodewright.model.errors import OutOfCapacity, ProviderError, QuotaExceeded
from nodewright.spec import ErrorClass, FailureScope, NewNodeGroup
from nodewright_fake import Quota, StockOut

FAST_OFF = {"switched_off": ["fast_failure_detection"]}


def test_a_machine_is_created_runs_and_becomes_a_node(set_up: Any) -> None:
    group = {"name": "a", "request_delay": "5s", "provision_delay": "60s", "register_delay": "30s", "ready_delay": 7}
    stage = set_up(groups=[group])
    assert stage.client.increase_size("a", 0, 1) == 1
    assert stage.states("a") == []
    assert stage.client.next_change() == 1005
    stage.later(5)
    assert stage.states("a") == ["creating"]
    stage.later(100)
    assert stage.states("a") == ["running"]
    [start] = stage.client.running_machines()
    assert (start.instance_id, start.node_name) == ("fake:///a/a-0", "a-0")
    assert start.running_since == 1065, "what was due happened at its own time, not at the time of the read"
    assert (start.register_after_seconds, start.ready_after_seconds) == (30, 7)
    assert stage.client.next_change() == float("inf")


def test_machines_that_ran_from_the_start_are_nodes_already(set_up: Any) -> None:
    [start] = set_up().client.running_machines()
    assert (start.running_since, start.register_after_seconds, start.ready_after_seconds) == (1000, 0, 0)


@pytest.mark.parametrize(
    ("delay", "low", "high"),
    [({"uniform": [10, 20]}, 10, 20), ({"normal": ["1m", "1s"]}, 50, 70), ({"choice": [5, 7]}, 5, 7)],
)
def test_delays_follow_their_distribution_and_seed(set_up: Any, delay: Any, low: float, high: float) -> None:
    def times(seed: int) -> list[float]:
        group = {"name": "a", "max_size": 40, "provision_delay": delay}
        stage = set_up(seed, groups=[group])
        stage.client.increase_size("a", 0, 40)
        stage.later(1e6)
        return [start.running_since - 1000 for start in stage.client.running_machines()]

    drawn = times(1)
    assert len(drawn) == 40
    assert all(low <= seconds <= high for seconds in drawn)
    assert len(set(drawn)) > 1
    assert drawn == times(1)
    assert drawn != times(2)


def test_some_machines_never_register_and_some_late(set_up: Any) -> None:
    group = {"name": "a", "max_size": 200, "never_registers": 0.3, "registers_late": {"share": 0.5, "by": "1h"}}
    stage = set_up(groups=[group])
    stage.client.increase_size("a", 0, 200)
    stage.later(1000)
    delays = [start.register_after_seconds for start in stage.client.running_machines()]
    assert 30 < delays.count(None) < 90
    late = [seconds for seconds in delays if seconds is not None and seconds >= 3600]
    assert 40 < len(late) < 100
    assert stage.states("a") == ["running"] * 200


def test_for_a_while_machines_of_a_group_start_and_never_register(set_up: Any) -> None:
    stage = set_up(dead_boots=[{"group": "a", "start": "10s", "end": "1m"}])
    stage.client.increase_size("a", 1, 3)
    stage.later(1000)
    stage.client.increase_size("a", 3, 4)
    stage.later(1000)
    delays = [start.register_after_seconds for start in stage.client.running_machines() if start.group_id == "a"]
    assert [delay is None for delay in delays] == [False, True, True, False]


def test_a_stock_out_of_a_zone_fails_its_groups_and_ends(set_up: Any) -> None:
    stage = set_up(stock_outs=[{"zone": "z2", "start": "1m", "end": "10m", "remaining": 1}])
    stage.later(60)
    stage.client.increase_size("b", 0, 3)
    assert stage.states("b") == ["creating"]
    failures = stage.client.failed_instances("b")
    assert [failure.error_class for failure in failures] == [ErrorClass.OUT_OF_RESOURCES] * 2
    assert {failure.scope for failure in failures} == {FailureScope.ZONE}
    stage.client.increase_size("a", 1, 2)
    assert stage.client.failed_instances("a") == ()
    stage.later(600)
    stage.client.increase_size("b", 3, 4)
    assert len(stage.client.failed_instances("b")) == 2


def test_a_stock_out_can_be_switched_by_call(set_up: Any) -> None:
    stage = set_up()
    rule = stage.cloud.stock_out(StockOut(instance_type="big"))
    stage.client.increase_size("b", 0, 1)
    assert [failure.scope for failure in stage.client.failed_instances("b")] == [FailureScope.INSTANCE_TYPE]
    stage.cloud.restock(rule)
    stage.client.increase_size("b", 1, 2)
    assert stage.states("b") == ["creating"]


def test_without_fast_failure_detection_nothing_is_told_and_the_cloud_tries_again(set_up: Any) -> None:
    stage = set_up(**FAST_OFF, stock_outs=[{"zone": "z2", "end": "90s"}])
    stage.client.increase_size("b", 0, 2)
    stage.later(50)
    assert stage.client.failed_instances("b") is None
    assert (stage.states("b"), stage.client.target_size("b")) == ([], 2)
    stage.later(75)
    assert stage.states("b") == ["creating", "creating"], "the second retry, after 120 s, met a full stock"


def test_detection_can_be_off_for_one_group(set_up: Any) -> None:
    reason = {"fast_failure_detection": "spot"}
    stage = set_up(groups=[{"name": "a", "switched_off": reason}, {"name": "b"}], stock_outs=[{}])
    stage.client.increase_size("a", 0, 1)
    stage.client.increase_size("b", 0, 1)
    assert stage.client.failed_instances("a") is None
    assert len(stage.client.failed_instances("b")) == 1


def test_what_failed_or_never_came_can_be_withdrawn(set_up: Any) -> None:
    stage = set_up(**FAST_OFF, stock_outs=[{"zone": "z2", "remaining": 1}])
    stage.client.increase_size("b", 0, 3)
    assert stage.client.decrease_target_size("b", 3, 0) == 2
    assert stage.client.target_size("b") == 1
    assert stage.states("b") == ["creating"]


def test_failures_say_what_they_were_told_to(set_up: Any) -> None:
    failure = {"group": "b", "count": 2, "delay": "30s", "error_class": "quota", "scope": "account", "code": "Q"}
    stage = set_up(failures=[failure])
    stage.client.increase_size("b", 0, 3)
    assert stage.client.failed_instances("b") == ()
    stage.later(30)
    found = stage.client.failed_instances("b")
    assert [(f.error_class, f.scope, f.code, f.count) for f in found] == [("quota", "account", "Q", 1)] * 2
    assert stage.states("b") == ["running"]


def test_failures_may_have_no_machine_to_name(set_up: Any) -> None:
    stage = set_up(placeholder_failures=True, stock_outs=[{"zone": "z2"}])
    stage.client.increase_size("b", 0, 3)
    [failure] = stage.client.failed_instances("b")
    assert (failure.instance_id, failure.count) == (None, 3)
    assert stage.client.delete_instances("b", [failure.failure_id], 3) == (failure.failure_id,)
    assert stage.client.target_size("b") == 0


def test_quota_counts_over_all_groups(set_up: Any) -> None:
    stage = set_up(quota={"machines": 2})
    stage.client.increase_size("b", 0, 2)
    [failure] = stage.client.failed_instances("b")
    assert (failure.error_class, failure.scope) == (ErrorClass.QUOTA, FailureScope.ACCOUNT)
    stage.cloud.set_quota(Quota(cpus=4.0, enforced="call"))
    with pytest.raises(QuotaExceeded):
        stage.client.increase_size("a", 1, 2)
    assert stage.client.target_size("a") == 1


def test_atomic_requests_are_refused_whole(set_up: Any) -> None:
    stage = set_up(stock_outs=[{"zone": "z2", "remaining": 2}], quota={"machines": 9})
    with pytest.raises(OutOfCapacity):
        stage.client.atomic_increase_size("b", 0, 3)
    assert stage.client.target_size("b") == 0
    assert stage.client.atomic_increase_size("b", 0, 2) == 2
    with pytest.raises(QuotaExceeded):
        stage.client.atomic_increase_size("a", 1, 9)


def test_deletions_take_their_time_and_keep_the_minimum(set_up: Any) -> None:
    stage = set_up(groups=[{"name": "a", "size": 2, "min_size": 1, "delete_delay": "1m"}])
    assert stage.client.delete_instances("a", ["fake:///a/a-0"], 2) == ("fake:///a/a-0",)
    assert stage.states("a") == ["deleting", "running"]
    stage.later(60)
    assert stage.states("a") == ["running"]
    with pytest.raises(ProviderError) as caught:
        stage.client.delete_instances("a", ["fake:///a/a-1"], 1)
    assert caught.value.code == "belowMinimum"
    assert stage.client.force_delete_instances("a", ["fake:///a/a-1"], 1) == ("fake:///a/a-1",)
    assert (stage.states("a"), stage.client.target_size("a")) == ([], 0)


def test_a_lost_machine_is_replaced(set_up: Any) -> None:
    stage = set_up()
    stage.cloud.lose("fake:///a/a-0")
    stage.later(0)
    assert [i.id for i in stage.client.instances("a")] == ["fake:///a/a-1"]
    assert stage.client.target_size("a") == 1


def test_groups_made_on_demand_come_and_go(set_up: Any) -> None:
    stage = set_up(machine_types=[{"name": "huge", "cpu": 96, "price_per_hour": 4}])
    first = NewNodeGroup(group_id="nap-1", machine_type="huge", max_size=5, labels={"team": "x"})
    second = NewNodeGroup(group_id="nap-2", machine_type="huge", max_size=5)
    made = stage.client.create_node_group(first)
    assert (made.id, made.autoprovisioned, made.max_size) == ("nap-1", "huge", 5)
    assert stage.client.create_node_group(second).id == "nap-2"
    template = stage.client.template_node("nap-1")
    assert template.labels["team"] == "x"
    assert template.allocatable["cpu"].value == 96
    stage.client.increase_size("nap-1", 0, 1)
    assert stage.client.create_node_group(first) == made
    assert stage.client.delete_node_group("nap-1") is False
    assert stage.client.delete_node_group("nap-2") is True
    stage.later(0)
    assert [group.id for group in stage.client.node_groups()] == ["a", "b", "nap-1"]
    with pytest.raises(ProviderError, match="no machine type tiny"):
        stage.client.create_node_group(NewNodeGroup(group_id="nap-3", machine_type="tiny", max_size=1))
