"""All or nothing: resize requests, that are granted, wait, fail, are cancelled, and are found again."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from gcecloud import GceCloud
from nodewright.spec import (
    AccessDenied,
    Capability,
    ProviderError,
    ProviderUnavailable,
    QuotaExceeded,
    TargetChanged,
)

Attach = Callable[..., Any]
_HOUR = {"atomic_run_duration": "1h"}  # Compute Engine grants resize requests for machines with a run duration
_CREATE = "instanceGroupManagers.createInstances"
_READ_REQUEST = "instanceGroupManagerResizeRequests.get"
_LIST_REQUESTS = "instanceGroupManagerResizeRequests.list"
_CANCEL = "instanceGroupManagerResizeRequests.cancel"
_RESIZE = "instanceGroupManagerResizeRequests.insert"


@pytest.fixture(params=[True, False], ids=["the size grows at once", "the size grows when granted"])
def grows(request: pytest.FixtureRequest, cloud: GceCloud) -> bool:
    """Whether a group's size grows when a resize request is made: Google's documents leave room for both."""
    cloud.state.grows_at_request = request.param
    return bool(request.param)


def test_an_atomic_increase_is_a_resize_request(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    client = attach(f"0:10:{name}", **_HOUR).client
    assert client.atomic_increase_size(name, 1, 4) == 3
    assert (cloud.calls[_RESIZE], cloud.calls[_CREATE], client.target_size(name)) == (1, 0, 4)


def test_an_atomic_increase_without_room_waits_and_is_granted_later(
    cloud: GceCloud, attach: Attach, grows: bool
) -> None:
    name = cloud.add_group(size=1)
    cloud.limit(name, 3)
    stage = attach(f"0:10:{name}", **_HOUR)
    started = stage.clock.now()
    assert stage.client.atomic_increase_size(name, 1, 5) == 4
    assert stage.clock.now() - started < 5, "no call waits for a request in the queue"
    for _ in range(3):
        assert (stage.client.target_size(name), cloud.group(name).target) == (5, 5 if grows else 1)
        assert len(stage.client.instances(name)) == 1
        stage.later(240, name)
    assert stage.client.failed_instances(name) == ()
    with pytest.raises(TargetChanged):
        stage.client.increase_size(name, 1, 2)
    cloud.limit(name, 5)
    stage.later(10, name)
    assert (stage.client.target_size(name), cloud.group(name).target) == (5, 5)
    assert len(stage.client.instances(name)) == 5
    asked = cloud.calls[_READ_REQUEST]
    stage.later(10, name)
    assert cloud.calls[_READ_REQUEST] == asked, "what is over is not asked about"


@pytest.mark.usefixtures("grows")
def test_machines_that_are_requested_otherwise_are_not_those_of_a_waiting_request(
    cloud: GceCloud, attach: Attach
) -> None:
    name = cloud.add_group(size=1)
    cloud.limit(name, 1, None)
    stage = attach(f"0:20:{name}", **_HOUR)
    client = stage.client
    assert client.increase_size(name, 1, 2) == 1
    assert client.atomic_increase_size(name, 2, 6) == 4
    assert client.increase_size(name, 6, 8) == 2
    for _ in range(2):
        assert (client.target_size(name), len(client.instances(name))) == (8, 4)
        stage.later(10, name)
    cloud.limit(name, 20, None)
    stage.later(10, name)
    assert (client.target_size(name), len(client.instances(name))) == (8, 8)


@pytest.mark.usefixtures("grows")
def test_a_request_that_is_granted_before_a_write_counts_once(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.limit(name, 3)
    client = attach(f"0:10:{name}", **_HOUR).client
    client.atomic_increase_size(name, 1, 5)
    cloud.limit(name, 9)
    assert client.increase_size(name, 5, 6) == 1
    assert client.target_size(name) == cloud.group(name).target == 6


@pytest.mark.usefixtures("grows")
@pytest.mark.parametrize("target", [1, 4])
def test_capacity_that_is_taken_back_cancels_whole_requests_only(cloud: GceCloud, attach: Attach, target: int) -> None:
    name = cloud.add_group(size=1)
    cloud.limit(name, 3)
    client = attach(f"0:10:{name}", **_HOUR).client
    client.atomic_increase_size(name, 1, 5)
    withdrawn = 4 if target == 1 else 0
    assert client.decrease_target_size(name, 5, target) == withdrawn
    states = [one["state"] for one in cloud.group(name).resize_requests.values()]
    assert states == ["CANCELLED" if withdrawn else "ACCEPTED"]
    assert client.target_size(name) == 5 - withdrawn
    cloud.limit(name, 9)
    assert client.instances(name)
    assert cloud.group(name).target == (1 if withdrawn else 5)


@pytest.mark.usefixtures("grows")
def test_a_request_that_is_granted_at_the_last_moment_is_not_taken_back(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.limit(name, 3)
    client = attach(f"0:10:{name}", **_HOUR).client
    client.atomic_increase_size(name, 1, 5)
    cloud.mishaps.before_write(lambda: cloud.limit(name, 9))
    assert client.decrease_target_size(name, 5, 1) == 0
    assert client.target_size(name) == cloud.group(name).target == 5


@pytest.mark.usefixtures("grows")
@pytest.mark.parametrize(
    ("state", "error", "code"),
    [
        ("FAILED", ("QUOTA_EXCEEDED", "Quota 'N2_CPUS' exceeded. Limit: 8.0 in region us-east1."), "QUOTA_EXCEEDED"),
        ("FAILED", None, "FAILED"),
        ("CANCELLED", None, "CANCELLED"),
    ],
)
def test_a_request_that_ends_in_the_queue_is_a_failure_of_all_its_machines(
    cloud: GceCloud, attach: Attach, state: str, error: tuple[str, str] | None, code: str
) -> None:
    name = cloud.add_group(size=1)
    cloud.limit(name, 3)
    stage = attach(f"0:10:{name}", **_HOUR)
    stage.client.atomic_increase_size(name, 1, 5)
    cloud.end_requests(name, state, error)
    for _ in range(2):
        stage.later(10, name)
        assert stage.client.target_size(name) == 5
    [failure] = stage.client.failed_instances(name)
    assert (failure.count, failure.instance_id, failure.code) == (4, None, code)
    assert state in failure.message
    assert stage.client.delete_instances(name, [failure.failure_id], 5) == (failure.failure_id,)
    assert stage.client.target_size(name) == 1
    stage.later(10, name)
    assert stage.client.failed_instances(name) == ()


@pytest.mark.usefixtures("grows")
def test_the_machines_of_an_ended_request_do_not_hold_up_the_minimum(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.limit(name, 3)
    stage = attach(f"1:10:{name}", **_HOUR)
    stage.client.atomic_increase_size(name, 1, 5)
    cloud.end_requests(name, "FAILED")
    stage.later(10, name)
    [failure], [machine] = stage.client.failed_instances(name), stage.client.instances(name)
    with pytest.raises(ProviderError, match="below its minimum of 1"):
        stage.client.delete_instances(name, [failure.failure_id, machine.id], 5)
    assert cloud.machines(name) == {machine.id}
    assert stage.client.delete_instances(name, [failure.failure_id], 5) == (failure.failure_id,)


@pytest.mark.usefixtures("grows")
def test_a_request_that_is_not_found_yet_is_not_given_up(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.limit(name, 3)
    stage = attach(f"0:10:{name}", **_HOUR)
    cloud.refuse_once(_READ_REQUEST, 404, "notFound", "The resource was not found")
    assert stage.client.atomic_increase_size(name, 1, 5) == 4
    cloud.refuse_once(_READ_REQUEST, 404, "notFound", "The resource was not found")
    for _ in range(2):
        stage.later(10, name)
        assert (stage.client.target_size(name), stage.client.failed_instances(name)) == (5, ())
    cloud.limit(name, 9)
    stage.later(10, name)
    assert len(stage.client.instances(name)) == stage.client.target_size(name) == 5


@pytest.mark.usefixtures("grows")
def test_a_request_that_another_deletes_is_a_failure(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.limit(name, 3)
    stage = attach(f"0:10:{name}", **_HOUR)
    stage.client.atomic_increase_size(name, 1, 5)
    cloud.end_requests(name, "CANCELLED")
    cloud.group(name).resize_requests.clear()
    stage.later(130, name)
    [failure] = stage.client.failed_instances(name)
    assert (failure.count, failure.code) == (4, "CANCELLED")
    assert stage.client.target_size(name) == 5


def test_a_request_whose_answer_was_lost_and_that_never_came_is_forgotten(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}", **_HOUR)
    for _ in range(6):
        cloud.refuse_once(_RESIZE, 503, "backendError", "try later")
    with pytest.raises(ProviderUnavailable):
        stage.client.atomic_increase_size(name, 1, 5)
    stage.later(60, name)
    asked = cloud.calls[_READ_REQUEST]
    assert asked > 0
    stage.later(130, name)
    asked = cloud.calls[_READ_REQUEST]
    stage.later(10, name)
    assert (cloud.calls[_READ_REQUEST], stage.client.target_size(name)) == (asked, 1)


@pytest.mark.usefixtures("grows")
def test_a_request_that_fails_at_once_is_refused(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.limit(name, 3)
    cloud.group(name).fails_requests = ("QUOTA_EXCEEDED", "Quota 'N2_CPUS' exceeded. Limit: 8.0 in region us-east1.")
    client = attach(f"0:10:{name}", **_HOUR).client
    with pytest.raises(QuotaExceeded, match="N2_CPUS"):
        client.atomic_increase_size(name, 1, 5)
    assert client.target_size(name) == 1
    assert client.failed_instances(name) == ()


@pytest.mark.usefixtures("grows")
def test_the_oldest_request_is_withdrawn_first(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.limit(name, 3)
    stage = attach(f"0:10:{name}", **_HOUR)
    stage.client.atomic_increase_size(name, 1, 5)
    stage.later(600, name)
    stage.client.atomic_increase_size(name, 5, 8)
    assert stage.client.decrease_target_size(name, 8, 4) == 4
    assert [one["state"] for one in cloud.group(name).resize_requests.values()] == ["CANCELLED", "ACCEPTED"]
    stage.later(10, name)
    assert stage.client.target_size(name) == 4


@pytest.mark.usefixtures("grows")
def test_a_cancellation_that_is_refused_is_told(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.limit(name, 3)
    client = attach(f"0:10:{name}", **_HOUR).client
    client.atomic_increase_size(name, 1, 5)
    cloud.refuse_once(_CANCEL, 403, "forbidden", "Required permission")
    with pytest.raises(AccessDenied):
        client.decrease_target_size(name, 5, 1)
    assert client.target_size(name) == 5


@pytest.mark.usefixtures("grows")
def test_a_request_that_cannot_be_read_does_not_hold_up_the_refresh(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.limit(name, 3)
    stage = attach(f"0:10:{name}", **_HOUR)
    stage.client.atomic_increase_size(name, 1, 5)
    cloud.refuse_once(_READ_REQUEST, 403, "forbidden", "Required permission")
    stage.later(10, name)
    assert stage.client.target_size(name) == 5


def test_a_new_process_finds_the_requests_that_wait(cloud: GceCloud, attach: Attach, grows: bool) -> None:
    name = cloud.add_group(size=1)
    cloud.limit(name, 3)
    attach(f"0:10:{name}", **_HOUR).client.atomic_increase_size(name, 1, 5)
    cloud.group(name).resize_requests["of-another"] = {"name": "of-another", "resizeBy": 9, "state": "ACCEPTED"}
    stage = attach(f"0:10:{name}", **_HOUR)
    of_another = 9 if grows else 0  # they count in Compute Engine's own size, or not yet
    assert stage.client.target_size(name) == 5 + of_another
    assert stage.client.decrease_target_size(name, 5 + of_another, 1 + of_another) == 4
    again = attach(f"0:10:{name}", **_HOUR)
    assert again.client.target_size(name) == 1 + of_another


def test_a_new_process_finds_a_request_that_is_being_created(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.group(name).resize_requests["nodewright-x"] = {"name": "nodewright-x", "resizeBy": 4, "state": "CREATING"}
    assert attach(f"0:10:{name}", **_HOUR).client.target_size(name) == 5


def test_throttled_reads_of_requests_after_a_start_are_not_repeated_at_once(cloud: GceCloud, attach: Attach) -> None:
    names = [cloud.add_group(size=1) for _ in range(5)]
    cloud.limit(names[0], 1)
    groups = [f"0:10:{name}" for name in names]
    attach(*groups, **_HOUR).client.atomic_increase_size(names[0], 1, 5)
    before = cloud.calls[_LIST_REQUESTS]
    cloud.refuse_once(_LIST_REQUESTS, 429, "rateLimitExceeded")
    stage = attach(*groups, parallel_calls=2, **_HOUR)
    stage.later(20, *names)
    assert cloud.calls[_LIST_REQUESTS] - before <= 2
    stage.later(45, *names)
    stage.later(10, *names)
    assert cloud.calls[_LIST_REQUESTS] - before == 6
    assert [stage.client.target_size(name) for name in names] == [5, 1, 1, 1, 1]


@pytest.mark.usefixtures("grows")
def test_an_atomic_increase_whose_answer_is_lost_is_not_sent_as_another(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.limit(name, 2)
    client = attach(f"0:10:{name}", **_HOUR).client
    cloud.lose_answer_once(_RESIZE)
    assert client.atomic_increase_size(name, 1, 5) == 4
    assert len(cloud.group(name).resize_requests) == 1
    assert client.target_size(name) == 5


@pytest.mark.usefixtures("grows")
def test_a_request_whose_operation_takes_too_long_is_not_forgotten(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.limit(name, 2)
    stage = attach(f"0:10:{name}", **_HOUR)
    cloud.state.operation_seconds = 30.0
    with suppress(ProviderError):
        stage.client.atomic_increase_size(name, 1, 5)
    stage.later(60, name)
    assert [one["state"] for one in cloud.group(name).resize_requests.values()] == ["ACCEPTED"]
    assert stage.client.target_size(name) == 5


def test_a_group_that_takes_no_resize_requests_says_so(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.group(name).takes_resize_requests = False
    client = attach(f"0:10:{name}", **_HOUR).client
    with pytest.raises(ProviderError, match="Resize requests are not supported"):
        client.atomic_increase_size(name, 1, 2)
    [group] = client.node_groups()
    assert "Resize requests are not supported" in group.switched_off[Capability.ATOMIC_RESIZE]
    assert not client.supports(Capability.ATOMIC_RESIZE, name)
    assert Capability.ATOMIC_RESIZE not in attach(f"0:10:{name}").client.info.capabilities


def test_an_atomic_increase_needs_a_run_duration_of_the_template_or_the_option(cloud: GceCloud, attach: Attach) -> None:
    limited = {"maxRunDuration": {"seconds": "3600"}, "instanceTerminationAction": "DELETE"}
    plain, own = cloud.add_group(size=1), cloud.add_group(size=1, template=cloud.add_template(scheduling=limited))
    stage = attach(f"0:10:{plain}", f"0:10:{own}", atomic_resize=True)
    off = {group.id: group.switched_off.get(Capability.ATOMIC_RESIZE, "") for group in stage.client.node_groups()}
    assert "nor is the option atomic_run_duration set" in off[plain]
    assert off[own] == ""
    assert stage.client.atomic_increase_size(own, 1, 3) == 2
    [sent] = cloud.group(own).resize_requests.values()
    assert "requestedRunDuration" not in sent
    assert attach(f"0:10:{plain}", **_HOUR).client.atomic_increase_size(plain, 1, 3) == 2
    [asked] = cloud.group(plain).resize_requests.values()
    assert asked["requestedRunDuration"] == {"seconds": "3600"}
