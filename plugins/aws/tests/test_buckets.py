"""On which quotas and pools a group draws, and which of them a failed launch has used up."""

from collections.abc import Callable
from typing import Any

import pytest

from awscloud import AwsCloud
from nodewright.spec import FailureScope
from nodewright_aws.buckets import vcpu_limit

Attach = Callable[..., Any]
_STANDARD = "Standard (A, C, D, H, I, M, R, T, Z)"
_OVER_LIMIT = "You have requested more vCPU capacity than your current vCPU limit of 32 allows for the instance bucket."
_NO_MORE = "Your quota allows for 0 more running instance(s). You requested at least 1."


@pytest.mark.parametrize(
    ("instance_type", "limit"),
    [
        ("m5.large", _STANDARD),
        ("c5.large", _STANDARD),
        ("t4g.nano", _STANDARD),
        ("im4gn.large", _STANDARD),
        ("is4gen.large", _STANDARD),
        ("i4i.large", _STANDARD),
        ("d3.xlarge", _STANDARD),
        ("x2gd.large", "X"),
        ("x8g.large", "X"),
        ("g5.xlarge", "G and VT"),
        ("gr6.4xlarge", "G and VT"),
        ("vt1.3xlarge", "G and VT"),
        ("p5.48xlarge", "P"),
        ("inf2.xlarge", "Inf"),
        ("trn1.2xlarge", "Trn"),
        ("dl1.24xlarge", "DL"),
        ("hpc7a.12xlarge", "HPC"),
        ("u-6tb1.metal", "High Memory"),
        ("u7i-12tb.224xlarge", "High Memory"),
        ("mac2.metal", ""),
        ("", ""),
    ],
)
def test_limits_of_vcpus_count_families(instance_type: str, limit: str) -> None:
    assert vcpu_limit(instance_type) == limit


@pytest.mark.parametrize("message", [_OVER_LIMIT, _NO_MORE])
def test_a_vcpu_limit_concerns_the_groups_of_its_families_alone(cloud: AwsCloud, attach: Attach, message: str) -> None:
    names = {kind: cloud.add_group(LaunchTemplate=_of(cloud, kind)) for kind in ("m5.large", "c5.large", "x2gd.large")}
    stage = attach(*(f"0:10:{name}" for name in names.values()))
    buckets = {group.id: group.buckets for group in stage.client.node_groups()}
    m5, c5, x2gd = (buckets[name] for name in names.values())
    assert m5 & c5 == {f"vCPUs, on demand, {_STANDARD}"}
    assert not x2gd & (m5 | c5)
    cloud.hold(names["m5.large"])
    stage.client.increase_size(names["m5.large"], 0, 2)
    cloud.fail(names["m5.large"], message)
    stage.later(5, names["m5.large"])
    [failure] = stage.client.failed_instances(names["m5.large"])
    assert failure.bucket in m5 & c5


def test_a_pool_without_capacity_is_that_of_a_type_in_a_zone(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(AvailabilityZones=["us-east-1b"])
    cloud.hold(name)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 0, 1)
    cloud.fail(name)
    stage.later(5, name)
    assert [(one.bucket, one.scope) for one in stage.client.failed_instances(name)] == [
        ("capacity, on demand, m5.large in us-east-1b", FailureScope.ZONE)
    ]


def test_a_subnet_without_addresses_concerns_the_groups_in_it(cloud: AwsCloud, attach: Attach) -> None:
    zones = {"us-east-1a": "", "us-east-1b": ""}
    for found in cloud.ec2.describe_subnets()["Subnets"]:
        if found["AvailabilityZone"] in zones:
            zones[found["AvailabilityZone"]] = found["SubnetId"]
    one, other = zones.values()
    names = [
        cloud.add_group(AvailabilityZones=[], VPCZoneIdentifier=where) for where in (one, one, other, f"{one},{other}")
    ]
    stage = attach(*(f"0:10:{name}" for name in names))
    buckets = {group.id: group.buckets for group in stage.client.node_groups()}
    addresses = f"addresses in {one}"
    assert [addresses in buckets[name] for name in names] == [True, True, False, False]
    cloud.hold(names[0])
    stage.client.increase_size(names[0], 0, 1)
    cloud.fail(names[0], f"There are not enough free addresses in subnet '{one}' to satisfy the requested number.")
    stage.later(5, names[0])
    [failure] = stage.client.failed_instances(names[0])
    assert (failure.bucket, failure.scope) == (addresses, FailureScope.ZONE)


def test_a_lack_of_capacity_of_several_types_stays_one_of_the_group(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(MixedInstancesPolicy=_policy(cloud, "m5.large", "c5.large", share=100))
    cloud.hold(name)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 0, 1)
    cloud.fail(name)
    stage.later(5, name)
    assert [(one.bucket, one.scope) for one in stage.client.failed_instances(name)] == [("", FailureScope.GROUP)]


def test_where_aws_may_choose_a_group_draws_on_no_one_pool(cloud: AwsCloud, attach: Attach) -> None:
    zones = cloud.add_group(AvailabilityZones=["us-east-1a", "us-east-1b"])
    mixed = cloud.add_group(MixedInstancesPolicy=_policy(cloud, "m5.large", "x2gd.large", share=100))
    spot = cloud.add_group(MixedInstancesPolicy=_policy(cloud, "m5.large", "c5.large", share=0))
    both = cloud.add_group(MixedInstancesPolicy=_policy(cloud, "m5.large", "c5.large", share=50))
    stage = attach(*(f"0:10:{name}" for name in (zones, mixed, spot, both)))
    assert {group.id: group.buckets for group in stage.client.node_groups()} == {
        zones: {f"vCPUs, on demand, {_STANDARD}"},
        mixed: frozenset(),
        spot: {f"vCPUs, spot, {_STANDARD}"},
        both: frozenset(),
    }


def test_machines_of_a_capacity_reservation_draw_on_no_shared_pool_nor_limit(cloud: AwsCloud, attach: Attach) -> None:
    """They start when on-demand capacity runs out, and their own failure tells nothing about it."""
    target = {"CapacityReservationId": "cr-0123456789abcdef0"}
    template = cloud.add_template(CapacityReservationSpecification={"CapacityReservationTarget": target})
    launch = {"LaunchTemplateName": template, "Version": "$Latest"}
    name = cloud.add_group(LaunchTemplate=launch, AvailabilityZones=["us-east-1b"])
    cloud.hold(name)
    stage = attach(f"0:10:{name}")
    assert [group.buckets for group in stage.client.node_groups()] == [frozenset()]
    stage.client.increase_size(name, 0, 1)
    cloud.fail(name)
    stage.later(5, name)
    assert [(one.bucket, one.scope) for one in stage.client.failed_instances(name)] == [("", FailureScope.GROUP)]


def _of(cloud: AwsCloud, kind: str) -> dict[str, str]:
    return {"LaunchTemplateName": cloud.add_template(kind), "Version": "$Latest"}


def _policy(cloud: AwsCloud, *kinds: str, share: int) -> dict[str, Any]:
    return {
        "LaunchTemplate": {
            "LaunchTemplateSpecification": _of(cloud, kinds[0]),
            "Overrides": [{"InstanceType": kind} for kind in kinds],
        },
        "InstancesDistribution": {"OnDemandBaseCapacity": 0, "OnDemandPercentageAboveBaseCapacity": share},
    }
