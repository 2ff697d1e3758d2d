"""Launches that fail: what is reported, for how long, and what happens without the permission."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from awscloud import AwsCloud
from nodewright.spec import Capability, ErrorClass, FailureScope
from nodewright_aws.failures import Ledger, update_ledger
from nodewright_aws.shapes import Activity, AvailabilityZoneDistribution, Group

Attach = Callable[..., Any]
_FAST = Capability.FAST_FAILURE_DETECTION


@pytest.mark.parametrize(
    ("message", "error_class", "scope", "code"),
    [
        (
            "We currently do not have sufficient m5.large capacity in the Availability Zone you requested (us-east-1a).",
            ErrorClass.OUT_OF_RESOURCES,
            FailureScope.ZONE,
            "InsufficientInstanceCapacity",
        ),
        (
            "Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity.",
            ErrorClass.OUT_OF_RESOURCES,
            FailureScope.GROUP,
            "UnfulfillableCapacity",
        ),
        (
            "You have requested more vCPU capacity than your current vCPU limit of 64 allows for the instance bucket.",
            ErrorClass.QUOTA,
            FailureScope.INSTANCE_TYPE,
            "VcpuLimitExceeded",
        ),
        (
            "Could not launch Spot Instances. MaxSpotInstanceCountExceeded - Max spot instance count exceeded.",
            ErrorClass.QUOTA,
            FailureScope.GROUP,
            "MaxSpotInstanceCountExceeded",
        ),
        (
            "There are not enough free addresses in subnet 'subnet-1' to satisfy the requested number of instances.",
            ErrorClass.OUT_OF_RESOURCES,
            FailureScope.GROUP,
            "InsufficientFreeAddressesInSubnet",
        ),
        (
            "The image id '[ami-1]' does not exist.",
            ErrorClass.OTHER,
            FailureScope.GROUP,
            "InvalidAMIID",
        ),
        (
            "Your quota allows for 0 more running instance(s). You requested at least 1.",
            ErrorClass.QUOTA,
            FailureScope.INSTANCE_TYPE,
            "InstanceLimitExceeded",
        ),
        ("RequestLimitExceeded. Request limit exceeded.", ErrorClass.OTHER, FailureScope.GROUP, "RequestLimitExceeded"),
        ("Something new.", ErrorClass.OTHER, FailureScope.GROUP, "LaunchFailed"),
    ],
)
def test_a_failed_launch_is_told_in_the_clouds_words(
    cloud: AwsCloud, attach: Attach, message: str, error_class: ErrorClass, scope: FailureScope, code: str
) -> None:
    name = cloud.add_group(size=1)
    cloud.hold(name)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 1, 4)
    cloud.fail(name, message)
    stage.later(5, name)
    [failure] = stage.client.failed_instances(name)
    assert (failure.count, failure.error_class, failure.scope, failure.code) == (3, error_class, scope, code)
    assert message in failure.message


def test_a_failure_keeps_its_id_while_aws_goes_on_trying(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group()
    cloud.hold(name)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 0, 2)
    cloud.fail(name)
    stage.later(5, name)
    [first] = stage.client.failed_instances(name)
    for _ in range(3):
        cloud.fail(name, "another reason")
        stage.later(60, name)
    [later] = stage.client.failed_instances(name)
    assert later == first
    cloud.arrive(name)
    stage.later(5, name)
    [left] = stage.client.failed_instances(name)
    assert (left.failure_id, left.count) == (first.failure_id, 1)
    cloud.arrive(name)
    stage.later(5, name)
    assert stage.client.failed_instances(name) == ()


def test_what_failed_before_our_increase_is_no_failure_of_it(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.hold(name)
    cloud.fail(name)
    stage = attach(f"0:10:{name}")
    stage.clock.sleep(100)
    stage.client.increase_size(name, 1, 2)
    stage.later(5, name)
    assert stage.client.failed_instances(name) == ()


def test_after_a_restart_old_failures_do_not_count_and_recent_ones_do(cloud: AwsCloud, attach: Attach) -> None:
    old, recent = cloud.add_group(), cloud.add_group()
    for name in (old, recent):
        cloud.hold(name)
        cloud.set_target(name, 2)
    cloud.fail(old)
    attach(f"0:10:{old}").clock.sleep(3600)
    cloud.fail(recent)
    client = attach(f"0:10:{old}", f"0:10:{recent}").client
    assert client.failed_instances(old) == ()
    assert [failure.count for failure in client.failed_instances(recent)] == [2]


def test_without_the_permission_the_capability_is_off_with_its_reason(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.hold(name)
    cloud.deny("DescribeScalingActivities")
    stage = attach(f"0:10:{name}")
    [group] = stage.client.node_groups()
    assert "no permission autoscaling:DescribeScalingActivities" in group.switched_off[_FAST]
    assert stage.client.failed_instances(name) is None
    stage.client.increase_size(name, 1, 2)
    cloud.fail(name)
    stage.later(5, name)
    assert stage.client.failed_instances(name) is None
    cloud.allow("DescribeScalingActivities")
    stage.later(601, name)
    assert stage.client.node_groups()[0].switched_off == {}
    assert [failure.count for failure in stage.client.failed_instances(name)] == [1]


def test_activities_are_read_only_of_groups_that_are_not_full(cloud: AwsCloud, attach: Attach) -> None:
    full = [cloud.add_group(size=1) for _ in range(3)]
    short = cloud.add_group()
    cloud.hold(short)
    stage = attach(*(f"0:10:{name}" for name in [*full, short]), refresh_interval=0)
    before = cloud.calls["DescribeScalingActivities"]
    stage.later(1)
    assert cloud.calls["DescribeScalingActivities"] == before
    stage.client.increase_size(short, 0, 1)
    stage.later(1)
    assert cloud.calls["DescribeScalingActivities"] == before + 1


def test_one_group_whose_activities_do_not_answer_harms_no_other(cloud: AwsCloud, attach: Attach) -> None:
    names = [cloud.add_group(), cloud.add_group()]
    for name in names:
        cloud.hold(name)
    stage = attach(*(f"0:10:{name}" for name in names), parallel_calls=1)
    for name in names:
        stage.client.increase_size(name, 0, 1)
        cloud.fail(name)
    cloud.refuse_once("DescribeScalingActivities", "Throttling", "Rate exceeded")
    stage.later(5, *names)
    assert sorted(len(stage.client.failed_instances(name)) for name in names) == [0, 1]
    stage.later(5, *names)
    assert [len(stage.client.failed_instances(name)) for name in names] == [1, 1]


_ZONES = ["us-east-1a", "us-east-1b"]


def test_a_zone_without_capacity_does_not_condemn_a_group_that_aws_goes_on_filling(
    cloud: AwsCloud, attach: Attach
) -> None:
    name = cloud.add_group(AvailabilityZones=_ZONES)
    cloud.hold(name)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 0, 2)
    for _ in range(2):
        cloud.fail(name, zone="us-east-1a")
        stage.later(5, name)
    assert stage.client.failed_instances(name) == ()
    cloud.fail(name, zone="us-east-1b")
    stage.later(5, name)
    [failure] = stage.client.failed_instances(name)
    assert (failure.count, failure.scope, failure.code) == (2, FailureScope.GROUP, "InsufficientInstanceCapacity")


def test_a_group_is_not_planned_in_a_zone_that_has_no_capacity(cloud: AwsCloud, attach: Attach) -> None:
    """Until the zone is tried again; a failure in every zone leaves the first one."""
    name = cloud.add_group(AvailabilityZones=_ZONES)
    cloud.hold(name)
    stage = attach(f"0:10:{name}")
    zone = "topology.kubernetes.io/zone"
    assert stage.client.template_node(name).labels[zone] == "us-east-1a"
    stage.client.increase_size(name, 0, 2)
    cloud.fail(name, zone="us-east-1a")
    stage.later(5, name)
    assert stage.client.template_node(name).labels[zone] == "us-east-1b"
    cloud.arrive(name)
    cloud.arrive(name)
    stage.later(5, name)
    assert stage.client.template_node(name).labels[zone] == "us-east-1b", (
        "the group is full, and the zone still has none"
    )
    stage.later(300, name)
    assert stage.client.template_node(name).labels[zone] == "us-east-1a"
    stage.client.increase_size(name, 2, 3)
    for one in _ZONES:
        cloud.fail(name, zone=one)
    stage.later(5, name)
    assert stage.client.template_node(name).labels[zone] == "us-east-1a"


def test_another_failure_than_a_lack_of_capacity_says_nothing_of_its_zone(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(AvailabilityZones=_ZONES)
    cloud.hold(name)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 0, 1)
    cloud.fail(name, "The image id '[ami-1]' does not exist.", zone="us-east-1a")
    stage.later(5, name)
    assert stage.client.template_node(name).labels["topology.kubernetes.io/zone"] == "us-east-1a"


@pytest.mark.parametrize(
    "message", ["Your quota allows for 0 more running instance(s).", "The image id '[ami-1]' does not exist."]
)
def test_what_another_zone_does_not_help_is_a_failure_at_once(cloud: AwsCloud, attach: Attach, message: str) -> None:
    name = cloud.add_group(AvailabilityZones=_ZONES)
    cloud.hold(name)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 0, 1)
    cloud.fail(name, message, zone="us-east-1a")
    stage.later(5, name)
    assert [failure.count for failure in stage.client.failed_instances(name)] == [1]


def test_the_oldest_activity_names_the_failure_in_whatever_order_they_are_listed() -> None:
    early, late = _activity("early", 10), _activity("late", 20)
    for listed in ([late, early], [early, late]):
        found = update_ledger(_group(), listed, Ledger(), since=0.0).reported
        assert found is not None
        assert (found.failure_id, found.message) == ("workers/early", "We do not have sufficient capacity: late")


@pytest.mark.parametrize(
    ("details", "strategy", "fails"),
    [
        ('{"Subnet ID":"subnet-1","Availability Zone":"us-east-1a"}', None, False),
        ('{"Subnet ID":"subnet-1","Availability Zone":"us-east-1a"}', "balanced-best-effort", False),
        ('{"Subnet ID":"subnet-1","Availability Zone":"us-east-1a"}', "balanced-only", True),
        ("details", None, True),
        ("", None, True),
        ("{}", None, True),
        ('{"Availability Zone":7}', None, True),
    ],
)
def test_a_launch_counts_at_once_where_no_other_zone_may_follow(
    details: str, strategy: str | None, *, fails: bool
) -> None:
    spread = None if strategy is None else AvailabilityZoneDistribution(capacity_distribution_strategy=strategy)
    group = msgspec.structs.replace(_group(), availability_zones=tuple(_ZONES), availability_zone_distribution=spread)
    found = update_ledger(group, [_activity("one", 10, details)], Ledger(), since=0.0).reported
    assert (found is not None) is fails


def _group() -> Group:
    return Group(
        auto_scaling_group_name="workers",
        min_size=0,
        max_size=10,
        desired_capacity=1,
        availability_zones=("us-east-1a",),
    )


def _activity(name: str, at: float, details: str = '{"Availability Zone":"us-east-1a"}') -> Activity:
    return Activity(
        activity_id=name,
        status_code="Failed",
        start_time=datetime.fromtimestamp(at, UTC),
        status_message=f"We do not have sufficient capacity: {name}",
        details=details,
    )
