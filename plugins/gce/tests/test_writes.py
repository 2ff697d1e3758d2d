"""Writes: no healthy machine is lost, no write is sent twice, and every refusal is one of nodewright's errors."""

from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from gcecloud import GceCloud
from nodewright.spec import (
    AccessDenied,
    FailureScope,
    InstanceState,
    NodeGroupNotFound,
    OperationInProgress,
    OutOfCapacity,
    ProviderError,
    ProviderUnavailable,
    QuotaExceeded,
    TargetChanged,
    Throttled,
)
from nodewright_gce.shapes import ErrorItem
from nodewright_gce.states import classify

Attach = Callable[..., Any]
_LIST = "instanceGroupManagers.list"
_HOUR = {"atomic_run_duration": "1h"}  # Compute Engine grants resize requests for machines with a run duration
_CREATE, _DELETE = "instanceGroupManagers.createInstances", "instanceGroupManagers.deleteInstances"
_RESIZE = "instanceGroupManagerResizeRequests.insert"


def test_machines_are_added_by_name_and_no_size_is_ever_set(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=2)
    client = attach(f"0:10:{name}").client
    there = cloud.machines(name)
    assert client.increase_size(name, 2, 5) == 3
    new = cloud.machines(name) - there
    assert {one.id for one in client.instances(name)} == cloud.machines(name)
    assert all(one.startswith(f"gce://proj/us-east1-b/gke-{name.rpartition('/')[2]}-") for one in new)
    assert client.decrease_target_size(name, 5, 1) == 0
    assert cloud.group(name).target == 5
    assert set(cloud.calls) & {"instanceGroupManagers.resize", "instanceGroupManagers.patch"} == set()


def test_more_than_a_thousand_go_in_several_requests(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group()
    client = attach(f"0:3000:{name}").client
    assert client.increase_size(name, 0, 2100) == 2100
    assert (cloud.calls[_CREATE], cloud.group(name).target) == (3, 2100)


def _at_second_write(cloud: GceCloud, happening: Callable[[], object]) -> None:
    sent: list[int] = []

    def count() -> None:
        sent.append(1)
        if len(sent) == 2:
            happening()
        cloud.before_write(count)

    cloud.before_write(count)


def test_what_was_granted_before_a_refusal_is_told(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group()
    client = attach(f"0:3000:{name}").client
    _at_second_write(cloud, lambda: cloud.refuse_once(_CREATE, 403, "quotaExceeded", "no more"))
    assert client.increase_size(name, 0, 1500) == 1000
    assert client.target_size(name) == cloud.group(name).target == 1000


def test_machines_that_were_deleted_before_a_refusal_are_told(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=2100)
    client = attach(f"0:3000:{name}").client
    ids = tuple(one.id for one in client.instances(name))
    _at_second_write(cloud, lambda: cloud.refuse_once(_DELETE, 403, "forbidden", "not any more"))
    assert client.delete_instances(name, ids, 2100) == ids[:1000]
    assert client.target_size(name) == cloud.group(name).target == 1100
    assert len([one for one in client.instances(name) if one.state is not InstanceState.DELETING]) == 1100


def test_a_deletion_whose_second_answer_is_lost_is_settled_by_looking(cloud: GceCloud, attach: Attach) -> None:
    """The second thousand is gone; only the last hundred machines are asked for again."""
    name = cloud.add_group(size=2100)
    client = attach(f"0:3000:{name}").client
    ids = tuple(one.id for one in client.instances(name))
    _at_second_write(cloud, lambda: cloud.lose_answer_once(_DELETE))
    assert client.delete_instances(name, ids, 2100) == ids
    assert (client.target_size(name), cloud.group(name).target, cloud.calls[_DELETE]) == (0, 0, 3)


def test_what_somebody_else_adds_in_the_middle_stays(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=2)
    client = attach(f"0:10:{name}").client
    cloud.before_write(lambda: cloud.set_target(name, 4))
    assert client.increase_size(name, 2, 3) == 1
    assert cloud.group(name).target == 5


@pytest.mark.parametrize("times", [1, 2])
def test_an_answer_that_is_lost_is_settled_by_looking(cloud: GceCloud, attach: Attach, times: int) -> None:
    name = cloud.add_group(size=1)
    client = attach(f"0:10:{name}").client
    for _ in range(times):
        cloud.lose_answer_once(_CREATE)
    assert client.increase_size(name, 1, 3) == 2
    assert (cloud.calls[_CREATE], cloud.group(name).target) == (1, 3)
    [victim, *_] = sorted(cloud.machines(name))
    cloud.lose_answer_once(_DELETE)
    assert client.delete_instances(name, [victim], 3) == (victim,)
    assert (client.target_size(name), len(cloud.machines(name))) == (2, 2)


def test_a_lost_write_that_shows_late_is_repeated_under_its_own_names(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    client = attach(f"0:10:{name}").client
    cloud.state.operation_seconds = 10.0  # the size still looks untouched when the core looks
    cloud.lose_answer_once(_CREATE)
    assert client.increase_size(name, 1, 3) == 2
    assert cloud.calls[_CREATE] == 2
    assert cloud.group(name).target == 3


def test_a_lost_write_to_a_group_that_has_changed_is_not_repeated(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}", refresh_interval=0)
    cloud.lose_answer_once(_CREATE)
    assert stage.client.increase_size(name, 1, 2) == 1
    stage.later(5, name)
    [lost] = [one.id for one in stage.client.instances(name) if "-0000" not in one.id]
    cloud.vanish(lost)
    stage.later(5, name)
    assert stage.client.increase_size(name, 1, 2) == 1
    assert (cloud.group(name).target, len(cloud.machines(name) - {lost})) == (2, 2)


def test_an_operation_that_is_not_done_in_time_is_no_second_purchase(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}", operation_timeout="10s")
    cloud.state.operation_seconds = 60.0
    with pytest.raises(ProviderError, match=r"createInstances of .* is not done yet: operation-") as late:
        stage.client.increase_size(name, 1, 3)
    assert late.value.code == "operationTimeout"
    assert cloud.calls[_CREATE] == 1
    stage.later(61)
    assert stage.client.target_size(name) == 3


@pytest.mark.parametrize(
    ("status", "reason", "error"),
    [
        (429, "rateLimitExceeded", Throttled),
        (403, "rateLimitExceeded", Throttled),
        (403, "forbidden", AccessDenied),
        (400, "resourceNotReady", OperationInProgress),
        (403, "quotaExceeded", QuotaExceeded),
        (404, "notFound", NodeGroupNotFound),
        (409, "resourceInUseByAnotherResource", ProviderError),
    ],
)
def test_refusals_are_translated_and_sent_once(
    cloud: GceCloud, attach: Attach, status: int, reason: str, error: type[ProviderError]
) -> None:
    name = cloud.add_group(size=1)
    client = attach(f"0:10:{name}").client
    cloud.refuse_once(_CREATE, status, reason, retry_after="90")
    with pytest.raises(error, match=f"createInstances: {status} {reason}: .*said Google") as raised:
        client.increase_size(name, 1, 2)
    assert (raised.value.group_id, raised.value.provider) == (name, "gce")
    assert getattr(raised.value, "retry_after", 90) == 90
    assert (cloud.calls[_CREATE], cloud.group(name).target) == (1, 1)


@pytest.mark.parametrize(
    ("quota", "scope"),
    [
        ("CPUS", FailureScope.ACCOUNT),
        ("CPUS_ALL_REGIONS", FailureScope.ACCOUNT),
        ("N2_CPUS", FailureScope.INSTANCE_TYPE),
        ("CPUS-PER-VM-FAMILY-per-project-region", FailureScope.INSTANCE_TYPE),
        ("NVIDIA_T4_GPUS", FailureScope.GROUP),
        ("GPUS_ALL_REGIONS", FailureScope.GROUP),
        ("PREEMPTIBLE_CPUS", FailureScope.GROUP),
        ("SOMETHING_NEW", FailureScope.GROUP),
    ],
)
def test_a_quota_reaches_as_far_as_its_name_says(
    cloud: GceCloud, attach: Attach, quota: str, scope: FailureScope
) -> None:
    name = cloud.add_group(size=1)
    client = attach(f"0:10:{name}").client
    message = f"Quota '{quota}' exceeded.  Limit: 24.0 in region us-central1."
    cloud.refuse_once(_CREATE, 403, "quotaExceeded", message)
    with pytest.raises(QuotaExceeded) as raised:
        client.increase_size(name, 1, 2)
    assert raised.value.scope is scope
    assert classify(ErrorItem(code="QUOTA_EXCEEDED", message=message)).scope is scope


@pytest.mark.parametrize(("status", "reason"), [(429, "rateLimitExceeded"), (400, "resourceNotReady")])
def test_a_busy_cloud_is_asked_again(cloud: GceCloud, attach: Attach, status: int, reason: str) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}")
    started = stage.clock.now()
    cloud.refuse_once(_CREATE, status, reason)
    assert stage.client.increase_size(name, 1, 3) == 2
    assert (cloud.calls[_CREATE], cloud.group(name).target) == (2, 3)
    assert 1 <= stage.clock.now() - started < 5


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("QUOTA_EXCEEDED", QuotaExceeded),
        ("ZONE_RESOURCE_POOL_EXHAUSTED", OutOfCapacity),
        ("PERMISSION_DENIED", AccessDenied),
        ("STRANGE", ProviderError),
    ],
)
def test_operations_that_end_with_errors_keep_their_words(
    cloud: GceCloud, attach: Attach, code: str, error: type[ProviderError]
) -> None:
    name = cloud.add_group(size=1)
    client = attach(f"0:10:{name}").client
    cloud.fail_operation_once(code, "said Google")
    with pytest.raises(error, match=f"createInstances: {code}: said Google"):
        client.increase_size(name, 1, 2)


def test_reads_are_repeated_by_the_core_alone(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}", refresh_interval=0)
    before = cloud.calls[_LIST]
    for _ in range(4):
        cloud.refuse_once(_LIST, 503, "backendError")
    with pytest.raises(ProviderUnavailable, match="503 backendError"):
        stage.client.refresh()
    assert cloud.calls[_LIST] == before + 4


@pytest.mark.parametrize("is_date", [False, True])
def test_a_pause_is_seconds_or_a_date(cloud: GceCloud, attach: Attach, is_date: bool) -> None:
    stage = attach(f"0:10:{cloud.add_group(size=1)}", refresh_interval=0)
    asked = formatdate(stage.clock.now() + 7, usegmt=True) if is_date else "7"
    cloud.refuse_once(_LIST, 429, "rateLimitExceeded", retry_after=asked)
    started = stage.clock.now()
    stage.client.refresh()
    assert stage.clock.now() - started == 7


def test_the_maximum_holds(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    client = attach(f"0:3:{name}", **_HOUR).client
    for write in (client.increase_size, client.atomic_increase_size):
        with pytest.raises(ProviderError, match="4 is above the maximum 3 of "):
            write(name, 1, 4)
    assert not set(cloud.calls) & {_CREATE, _RESIZE}


def test_a_manual_change_is_told_with_the_size_that_is(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=2)
    client = attach(f"0:10:{name}").client
    cloud.set_target(name, 5)
    with pytest.raises(TargetChanged) as changed:
        client.increase_size(name, 2, 3)
    assert changed.value.actual == 5
    assert client.target_size(name) == 5


def test_suspended_and_stopped_machines_count_to_the_size(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=2, targetSuspendedSize=1, targetStoppedSize=2)
    assert attach(f"0:10:{name}").client.target_size(name) == 5
