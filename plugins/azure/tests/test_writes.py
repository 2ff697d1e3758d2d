"""Writes: no healthy machine is lost, no write is sent twice, and every refusal is one of nodewright's errors."""

from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from azurecloud import AzureCloud
from nodewright.spec import (
    AccessDenied,
    FailureScope,
    InstanceState,
    OperationInProgress,
    OutOfCapacity,
    ProviderError,
    ProviderUnavailable,
    QuotaExceeded,
    Shortage,
    TargetChanged,
    Throttled,
)
from nodewright_azure.errors import classify

Attach = Callable[..., Any]
_FAMILY = "exceeding approved standardDSv3Family Cores quota"
_REGION = "exceeding approved Total Regional Cores quota"


def test_a_capacity_is_written_on_the_condition_that_nobody_wrote(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=2)
    client = attach(f"0:10:{name}").client
    cloud.before_write(lambda: cloud.set_target(name, 5))
    with pytest.raises(TargetChanged) as changed:
        client.increase_size(name, 2, 3)
    assert changed.value.actual == 5
    assert cloud.capacity(name) == 5
    assert client.target_size(name) == 5


def test_a_change_of_something_else_does_not_stop_a_write(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=2)
    client = attach(f"0:10:{name}").client
    cloud.before_write(lambda: cloud.set(name).touch(overprovision=True))
    assert client.increase_size(name, 2, 3) == 1
    assert cloud.calls["update"] == 2
    assert cloud.capacity(name) == 3


def test_a_set_that_never_rests_is_given_up(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=2)
    client = attach(f"0:10:{name}").client

    def disturb() -> None:
        cloud.set(name).touch(overprovision=True)
        cloud.before_write(disturb)

    cloud.before_write(disturb)
    with pytest.raises(ProviderUnavailable, match="is being written by another writer all the time"):
        client.increase_size(name, 2, 3)
    assert cloud.capacity(name) == 2


def test_missing_capacity_is_withdrawn_once_the_set_has_been_at_rest(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=2)
    cloud.limit(name, 2, "missing")
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 2, 5)
    assert stage.client.decrease_target_size(name, 5, 2) == 0, "its operation has only just ended"
    stage.later(30, name)
    assert stage.client.decrease_target_size(name, 5, 2) == 0
    stage.later(31, name)
    assert stage.client.decrease_target_size(name, 5, 1) == 3
    assert (cloud.capacity(name), len(cloud.machines(name))) == (2, 2)


def test_capacity_is_never_withdrawn_while_an_operation_runs(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=2)
    cloud.hold(name)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 2, 4)
    for _ in range(5):
        stage.later(300, name)
        assert stage.client.decrease_target_size(name, 4, 2) == 0
    assert cloud.calls["update"] == 1


def test_a_machine_that_comes_in_the_middle_of_a_withdrawal_survives(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=2)
    cloud.limit(name, 2, "missing")
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 2, 4)
    stage.later(1, name)
    stage.later(100, name)
    cloud.before_write(lambda: cloud.arrive(name))
    assert stage.client.decrease_target_size(name, 4, 2) == 0
    assert len(cloud.machines(name)) == 3
    assert cloud.capacity(name) == 4


def test_listings_that_lag_hide_nothing_from_a_withdrawal(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=2)
    stage = attach(f"0:10:{name}")
    stage.clock.sleep(60)
    cloud.lag(40)
    stage.client.increase_size(name, 2, 4)
    stage.later(10, name)
    assert stage.client.target_size(name) == 4
    assert len(stage.client.instances(name)) == 2, "the listing is old"
    assert stage.client.decrease_target_size(name, 4, 2) == 0
    assert len(cloud.machines(name)) == 4


def test_a_listing_that_lags_brings_no_deleted_machine_back_for_a_while(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=2)
    stage = attach(f"0:10:{name}")
    stage.clock.sleep(300)
    cloud.lag(300)
    victim = min(cloud.machines(name))
    stage.client.delete_instances(name, [victim], 2)
    stage.later(10, name)
    states = {one.id: one.state for one in stage.client.instances(name)}
    assert states[victim] == InstanceState.DELETING
    stage.later(25, name)
    states = {one.id: one.state for one in stage.client.instances(name)}
    assert states[victim] == InstanceState.RUNNING, "it may be that Azure did not delete it"


def test_a_listing_that_lags_does_not_undo_what_we_know(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=2)
    stage = attach(f"0:10:{name}", refresh_interval=0)
    stage.clock.sleep(60)
    cloud.lag(30)
    stage.client.increase_size(name, 2, 4)
    stage.later(10)
    assert stage.client.target_size(name) == 4
    [victim, *_] = sorted(cloud.machines(name))
    stage.client.delete_instances(name, [victim], 4)
    stage.later(10)
    assert stage.client.target_size(name) == 3


def test_deletions_are_by_id_in_one_call_and_keep_the_minimum(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=4)
    client = attach(f"2:10:{name}").client
    victims = sorted(cloud.machines(name))
    with pytest.raises(ProviderError, match=f"{name} would go below its minimum of 2") as refused:
        client.delete_instances(name, victims[:3], 4)
    assert refused.value.code == "belowMinimum"
    assert client.delete_instances(name, [one.upper() for one in victims[:2]], 4) == tuple(
        one.upper() for one in victims[:2]
    )
    assert cloud.machines(name) == frozenset(victims[2:])
    assert cloud.calls["delete"] == 1


def test_a_machine_that_vanishes_during_a_deletion_does_not_keep_the_others(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=3)
    client = attach(f"0:10:{name}").client
    one, victims = cloud.set(name), sorted(cloud.machines(name))[:2]
    cloud.before_write(lambda: one.vanish(one.vms[0]))
    assert client.delete_instances(name, victims, 3) == (victims[1],)
    assert len(cloud.machines(name)) == 1


def test_forced_deletions_fall_back_where_azure_cannot(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=2)
    client = attach(f"2:10:{name}").client
    [victim, other] = sorted(cloud.machines(name))
    cloud.refuse_once("delete", "OperationNotAllowed", "Force deletion is not supported for isolated sizes.", 409)
    assert client.force_delete_instances(name, [victim], 2) == (victim,)
    assert cloud.machines(name) == {other}
    assert cloud.calls["delete"] == 2


def test_an_answer_that_is_lost_is_settled_by_looking(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=1)
    client = attach(f"0:10:{name}").client
    cloud.lose_answer_once("update")
    assert client.increase_size(name, 1, 3) == 2
    assert cloud.calls["update"] == 1
    [victim, *_] = sorted(cloud.machines(name))
    cloud.lose_answer_once("delete")
    assert client.delete_instances(name, [victim], 3) == (victim,)
    assert client.target_size(name) == 2
    assert len(cloud.machines(name)) == 2


@pytest.mark.parametrize(
    ("code", "message", "status", "error"),
    [
        ("TooManyRequests", "slow down", 429, Throttled),
        ("OperationPreempted", "by another", 409, OperationInProgress),
        ("Conflict", "another operation is in progress", 409, OperationInProgress),
        ("AuthorizationFailed", "no role", 403, AccessDenied),
        ("ExpiredAuthenticationToken", "expired", 401, AccessDenied),
        ("ScopeLocked", "a lock", 409, AccessDenied),
        ("AllocationFailed", "none left", 409, OutOfCapacity),
        ("ZonalAllocationFailed", "none left in the zone", 409, OutOfCapacity),
        ("SkuNotAvailable", "not here", 409, OutOfCapacity),
        ("OperationNotAllowed", _FAMILY, 409, QuotaExceeded),
        ("OperationNotAllowed", "the set is being deleted", 409, ProviderError),
        ("Whatever", "who knows", 400, ProviderError),
    ],
)
def test_refusals_are_translated_and_sent_once(
    cloud: AzureCloud, attach: Attach, code: str, message: str, status: int, error: type[ProviderError]
) -> None:
    name = cloud.add_set(capacity=1)
    client = attach(f"0:10:{name}").client
    cloud.refuse_once("update", code, message, status, retry_after="90")
    with pytest.raises(error, match=rf"virtualMachineScaleSets\.update: {code}: {message}") as raised:
        client.increase_size(name, 1, 2)
    assert (type(raised.value), raised.value.group_id, raised.value.provider) == (error, name, "azure")
    assert getattr(raised.value, "retry_after", 90) == 90
    assert cloud.calls["update"] == 1
    assert cloud.capacity(name) == 1


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [("TooManyRequests", 429, "slow down"), ("OperationNotAllowed", 409, "an operation is in progress")],
)
def test_a_busy_cloud_is_asked_again(cloud: AzureCloud, attach: Attach, code: str, status: int, message: str) -> None:
    name = cloud.add_set(capacity=1)
    stage = attach(f"0:10:{name}")
    started = stage.clock.now()
    cloud.refuse_once("update", code, message, status, retry_after="3")
    assert stage.client.increase_size(name, 1, 2) == 1
    assert (cloud.calls["update"], cloud.capacity(name)) == (2, 2)
    assert stage.clock.now() - started == 3


@pytest.mark.parametrize("code", ["SkuNotAvailable", "AllocationFailed", "LowPriorityQuotaExceeded"])
def test_a_refused_call_reaches_as_far_as_a_failed_creation(cloud: AzureCloud, attach: Attach, code: str) -> None:
    name = cloud.add_set(capacity=1)
    client = attach(f"0:10:{name}").client
    cloud.refuse_once("update", code, "none left", 409)
    with pytest.raises(Shortage) as raised:
        client.increase_size(name, 1, 2)
    assert raised.value.scope is classify(code, "none left")[1]


@pytest.mark.parametrize(("message", "scope"), [(_FAMILY, FailureScope.INSTANCE_TYPE), (_REGION, FailureScope.ACCOUNT)])
def test_a_quota_says_how_far_it_reaches(cloud: AzureCloud, attach: Attach, message: str, scope: FailureScope) -> None:
    name = cloud.add_set(capacity=1)
    client = attach(f"0:10:{name}").client
    cloud.refuse_once("update", "OperationNotAllowed", message, 409)
    with pytest.raises(QuotaExceeded) as raised:
        client.increase_size(name, 1, 2)
    assert raised.value.scope is scope


def test_reads_are_repeated_by_the_core_alone(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=1)
    stage = attach(f"0:10:{name}", refresh_interval=0)
    before = cloud.calls["list"]
    for _ in range(4):
        cloud.refuse_once("list", "InternalServerError", "oops", 500)
    with pytest.raises(ProviderUnavailable, match="InternalServerError"):
        stage.client.refresh()
    assert cloud.calls["list"] == before + 4


@pytest.mark.parametrize("is_date", [False, True])
def test_a_pause_is_seconds_or_a_date(cloud: AzureCloud, attach: Attach, is_date: bool) -> None:
    stage = attach(f"0:10:{cloud.add_set(capacity=1)}", refresh_interval=0)
    asked = formatdate(stage.clock.now() + 7, usegmt=True) if is_date else "7"
    cloud.refuse_once("list", "TooManyRequests", "slow down", 429, retry_after=asked)
    started = stage.clock.now()
    stage.client.refresh()
    assert stage.clock.now() - started == 7


def test_states_of_machines(cloud: AzureCloud, attach: Attach) -> None:
    name = cloud.add_set(capacity=4)
    one = cloud.set(name)
    one.vms[1].ready_at = cloud.now() + 60
    one.vms[2].state, one.vms[2].power = "Failed", "running"
    one.delete(["3"])
    client = attach(f"0:10:{name}").client
    states = [found.state for found in client.instances(name)]
    expected = [InstanceState.RUNNING, InstanceState.CREATING, InstanceState.RUNNING, InstanceState.DELETING]
    assert states == expected
    assert client.failed_instances(name) == ()
