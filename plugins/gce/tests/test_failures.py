"""Machines that cannot be created: what is reported, for how long, and how they are deleted."""

from collections.abc import Callable
from typing import Any

import pytest

from gcecloud import GceCloud
from gcecloud.operations import STOCK_OUT
from nodewright.spec import ErrorClass, FailureScope, InstanceState, QuotaExceeded
from nodewright_gce.quotas import quota_bucket

Attach = Callable[..., Any]
_LINUX = "os=linux;os_distribution=cos;kube_reserved=cpu=60m,memory=1Gi"
_RESERVED = "Specified reservation r1 does not exist"


def _short(cloud: GceCloud, attach: Attach, asked: int = 3, **options: Any) -> tuple[str, Any]:
    """A group with one machine that was asked for more, none of which has come."""
    name = cloud.add_group(size=1)
    cloud.hold(name)
    stage = attach(f"0:10:{name}", **options)
    stage.client.increase_size(name, 1, asked)
    return name, stage


@pytest.mark.parametrize(
    ("code", "message", "error_class", "scope"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED", "no room", ErrorClass.OUT_OF_RESOURCES, FailureScope.GROUP),
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "no room", ErrorClass.OUT_OF_RESOURCES, FailureScope.GROUP),
        ("INSUFFICIENT_CAPACITY", "no room", ErrorClass.OUT_OF_RESOURCES, FailureScope.GROUP),
        ("QUOTA_EXCEEDED", "Quota 'CPUS' exceeded.", ErrorClass.QUOTA, FailureScope.ACCOUNT),
        ("IP_SPACE_EXHAUSTED", "no address", ErrorClass.OTHER, FailureScope.GROUP),
        ("INVALID_USAGE", _RESERVED, ErrorClass.OTHER, FailureScope.GROUP),
        ("SOMETHING_NEW", "what is this", ErrorClass.OTHER, FailureScope.GROUP),
    ],
)
def test_a_failure_is_told_with_the_clouds_code_and_words(
    cloud: GceCloud, attach: Attach, code: str, message: str, error_class: ErrorClass, scope: FailureScope
) -> None:
    name, stage = _short(cloud, attach)
    failed = cloud.fail(name, code, message)
    stage.later(5, name)
    [failure] = stage.client.failed_instances(name)
    assert (failure.instance_id, failure.code, failure.message) == (failed, code, message)
    assert (failure.error_class, failure.scope, failure.count) == (error_class, scope, 1)
    listed = {one.id: one.state for one in stage.client.instances(name)}
    assert failed not in listed
    assert sorted(listed.values()) == [InstanceState.CREATING, InstanceState.RUNNING]


def test_a_failure_keeps_its_id_while_google_goes_on_trying(cloud: GceCloud, attach: Attach) -> None:
    name, stage = _short(cloud, attach)
    failed = cloud.fail(name)
    stage.later(5, name)
    [first] = stage.client.failed_instances(name)
    slot = cloud.group(name).slots[failed.rpartition("/")[2]]
    slot.failure = None  # a new attempt is under way
    stage.later(5, name)
    assert stage.client.failed_instances(name) == ()
    slot.failure = ("QUOTA_EXCEEDED", "no quota")
    stage.later(5, name)
    [later] = stage.client.failed_instances(name)
    assert later.failure_id == first.failure_id


def test_a_name_that_comes_again_fails_under_another_id(cloud: GceCloud, attach: Attach) -> None:
    name, stage = _short(cloud, attach, 2)
    failed = cloud.fail(name)
    stage.later(5, name)
    [first] = stage.client.failed_instances(name)
    stage.client.delete_instances(name, [failed], 2)
    stage.later(5, name)
    assert stage.client.failed_instances(name) == ()
    mig = cloud.group(name)
    cloud.state.add_slot(mig, failed.rpartition("/")[2])
    cloud.fail(name)
    stage.later(5, name)
    [second] = stage.client.failed_instances(name)
    assert second.instance_id == first.instance_id == failed
    assert second.failure_id != first.failure_id


def test_what_failed_and_runs_by_now_is_not_deleted(cloud: GceCloud, attach: Attach) -> None:
    name, stage = _short(cloud, attach)
    failed = [cloud.fail(name), cloud.fail(name)]
    stage.later(5, name)
    assert len(stage.client.failed_instances(name)) == 2
    arrived = cloud.arrive(name)
    accepted = stage.client.delete_instances(name, failed, 3)
    assert set(accepted) == set(failed) - {arrived}
    assert arrived in cloud.machines(name)
    assert stage.client.target_size(name) == 2
    stage.later(5, name)
    assert stage.client.failed_instances(name) == ()
    assert stage.client.delete_instances(name, [arrived], 2) == (arrived,)


def test_what_failed_goes_also_below_the_minimum_and_machines_do_not(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.hold(name)
    cloud.set_target(name, 2)
    failed = cloud.fail(name)
    client = attach(f"2:10:{name}").client
    [machine] = cloud.machines(name)
    with pytest.raises(Exception, match="would go below its minimum of 2"):
        client.delete_instances(name, [machine], 2)
    assert client.failed_instances(name)[0].instance_id == failed
    assert client.delete_instances(name, [failed], 2) == (failed,)
    assert client.target_size(name) == 1
    assert client.force_delete_instances(name, [machine], 1) == (machine,)


def test_without_detection_what_fails_is_on_its_way(cloud: GceCloud, attach: Attach) -> None:
    name, stage = _short(cloud, attach, detect_failures=False)
    failed = cloud.fail(name)
    stage.later(5, name)
    assert stage.client.failed_instances(name) is None
    assert failed in {one.id for one in stage.client.instances(name)}


def test_a_machine_that_runs_while_it_is_to_be_created_again_has_not_failed(cloud: GceCloud, attach: Attach) -> None:
    """It may be a Ready node with pods: only when it is gone was its creation the thing that failed."""
    name = cloud.add_group(size=2)
    stage = attach(f"0:10:{name}")
    cloud.recreate(name)
    stage.later(61, name)
    assert stage.client.failed_instances(name) == ()
    assert {one.id: one.state for one in stage.client.instances(name)} == dict.fromkeys(
        cloud.machines(name), InstanceState.RUNNING
    )


@pytest.mark.parametrize("status", ["", "TERMINATED", "STOPPED", "SUSPENDED"])
def test_a_machine_that_no_longer_runs_and_cannot_be_created_again_has_failed(
    cloud: GceCloud, attach: Attach, status: str
) -> None:
    name = cloud.add_group(size=2)
    stage = attach(f"0:10:{name}")
    cloud.recreate(name, status=status)
    stage.later(61, name)
    assert [failure.code for failure in stage.client.failed_instances(name)] == [STOCK_OUT[0]] * 2


def test_a_quota_of_vcpus_concerns_the_groups_of_its_family(cloud: GceCloud, attach: Attach) -> None:
    kinds = ("n2-standard-8", "n2-custom-2-8192", "e2-standard-2", "custom-2-4096")
    n2, large, e2, custom = (cloud.add_group(template=cloud.add_template(machine_type=kind)) for kind in kinds)
    spot = cloud.add_group(
        template=cloud.add_template(
            machine_type=kinds[0], variables=f"{_LINUX};node_labels=cloud.google.com/gke-spot=true"
        )
    )
    stage = attach(*(f"0:10:{name}" for name in (n2, large, e2, custom, spot)))
    assert {group.id: group.buckets for group in stage.client.node_groups()} == {
        n2: {"N2_CPUS in us-east1"},
        large: {"N2_CPUS in us-east1"},
        e2: {"CPUS in us-east1", "E2_CPUS in us-east1"},
        custom: {"CPUS in us-east1", "CUSTOM_CPUS in us-east1"},
        spot: frozenset(),
    }
    cloud.refuse_once(
        "instanceGroupManagers.createInstances",
        403,
        "quotaExceeded",
        "Quota 'N2_CPUS' exceeded.  Limit: 24.0 in region us-east1.",
    )
    with pytest.raises(QuotaExceeded) as raised:
        stage.client.increase_size(n2, 0, 1)
    assert raised.value.bucket == "N2_CPUS in us-east1"


@pytest.mark.parametrize(
    ("message", "bucket"),
    [
        ("Quota 'CPUS' exceeded. Limit: 8.0 in region us-east1.", "CPUS in us-east1"),
        ("Quota 'N2_CPUS' exceeded.", ""),
        ("Quota 'NVIDIA_T4_GPUS' exceeded. Limit: 1.0 in region us-east1.", ""),
        ("Quota 'CPUS_PER_VM_FAMILY' exceeded. Limit: 24.0 in region us-east1.", ""),
        ("something new", ""),
    ],
)
def test_which_quota_a_message_names(message: str, bucket: str) -> None:
    assert quota_bucket(message) == bucket
