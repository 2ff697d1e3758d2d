"""Which groups are found, when AWS is called, and how many calls that takes."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from awscloud import AwsCloud
from nodewright.spec import ConfigError, NodeGroupNotFound, ProviderContext
from nodewright.testkit import FakeClock
from nodewright_aws.provider import AwsProvider

Attach = Callable[..., Any]


def test_groups_are_discovered_that_carry_all_tags(cloud: AwsCloud, attach: Attach) -> None:
    cluster = f"kubernetes.io/cluster/{uuid4().hex}"
    both = cloud.add_group(tags={cluster: "owned", "tier": "gold"}, MinSize=1, MaxSize=7, size=2)
    cloud.add_group(tags={cluster: "owned", "tier": "iron"})
    cloud.add_group(tags={"tier": "gold"})
    client = attach(discover=(f"asg:tag={cluster},tier=gold",)).client
    [found] = client.node_groups()
    assert (found.id, found.min_size, found.max_size) == (both, 1, 7)
    assert client.target_size(both) == 2


def test_an_explicit_group_keeps_the_limits_of_its_flag_and_stays(cloud: AwsCloud, attach: Attach) -> None:
    tag = uuid4().hex
    name = cloud.add_group(tags={tag: "x"}, MaxSize=7)
    other = cloud.add_group(tags={tag: "x"})
    client = attach(f"1:4:{name}", "0:3:gone", discover=(f"asg:tag={tag}",)).client
    limits = {group.id: (group.min_size, group.max_size) for group in client.node_groups()}
    assert limits == {name: (1, 4), "gone": (0, 3), other: (0, 10)}
    with pytest.raises(NodeGroupNotFound, match="--nodes names gone: there is no such Auto Scaling group in us-east-1"):
        client.target_size("gone")
    assert client.target_size(other) == 0


def test_a_discovered_group_that_loses_its_tag_is_forgotten(cloud: AwsCloud, attach: Attach) -> None:
    tag = uuid4().hex
    name = cloud.add_group(tags={tag: "x"})
    stage = attach(discover=(f"asg:tag={tag}",))
    cloud.asg.delete_tags(Tags=[{"Key": tag, "ResourceId": name, "ResourceType": "auto-scaling-group", "Value": "x"}])
    stage.later(61)
    assert stage.client.node_groups() == ()


def test_many_groups_cost_a_call_for_each_hundred_and_none_for_instances(cloud: AwsCloud, attach: Attach) -> None:
    tag, template = uuid4().hex, cloud.add_template()
    launch: dict[str, Any] = {"LaunchTemplate": {"LaunchTemplateName": template, "Version": "1"}}
    for number in range(120):
        cloud.add_group(tags={tag: "x"}, size=1 if number < 10 else 0, **launch)
    client = attach(discover=(f"asg:tag={tag}",)).client
    assert len(client.node_groups()) == 120
    assert cloud.calls["DescribeAutoScalingGroups"] == 2
    # One launch template, one type and one price for all, and one look whether failures may be seen.
    assert sum(cloud.calls.values()) == 6


def test_nothing_is_asked_within_the_interval_but_for_wanted_groups(cloud: AwsCloud, attach: Attach) -> None:
    tag = uuid4().hex
    names = [cloud.add_group(tags={tag: "x"}, size=1) for _ in range(3)]
    stage = attach(discover=(f"asg:tag={tag}",))
    before = sum(cloud.calls.values())
    stage.later(30)
    assert sum(cloud.calls.values()) == before
    cloud.set_target(names[0], 3)
    cloud.set_target(names[1], 3)
    stage.later(1, names[1])
    assert [stage.client.target_size(name) for name in names] == [1, 3, 1]
    assert sum(cloud.calls.values()) == before + 1
    stage.later(30)
    assert [stage.client.target_size(name) for name in names] == [3, 3, 1]


def test_calls_are_counted_and_kept_within_the_budget(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}", api_calls_per_minute=6, refresh_interval=0)
    made = {one.operation: one.calls for one in stage.client.api_calls()}
    assert made["DescribeAutoScalingGroups"] == 1
    started = stage.clock.now()
    for _ in range(6):
        stage.later(5)
    # The core waits as long as the budget says, and goes on: no call was refused in the end.
    assert stage.clock.now() - started > 30
    assert cloud.calls["DescribeAutoScalingGroups"] == 7
    stage.client.increase_size(name, 1, 2)


@pytest.mark.parametrize(
    ("nodes", "discoveries", "complaint"),
    [
        (("1:2",), (), "--nodes: '1:2' is not of the form min:max:name"),
        (("5:3:a",), (), "--nodes: .* greater than the maximum"),
        ((), ("mig:namePrefix=a",), "aws discovers by 'asg', not by 'mig'"),
        ((), ("asg:tags=a",), "there is no key 'tags', only tag"),
        ((), ("asg:tag=",), "names no tag"),
        ((), ("asg",), "is not of the form asg:tag=key"),
    ],
)
def test_malformed_flags_are_refused(nodes: tuple[str, ...], discoveries: tuple[str, ...], complaint: str) -> None:
    context = ProviderContext(clock=FakeClock(), node_group_specs=nodes, auto_discovery_specs=discoveries)
    with pytest.raises(ConfigError, match=complaint):
        AwsProvider(context)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"regoin": "x"}, "unknown key regoin, did you mean region?"),
        ({"refresh_interval": "soon"}, "'soon' is not a duration"),
        ({"refresh_interval": -1}, "at least 0"),
        ({"parallel_calls": 0}, "parallel_calls: must be at least 1, not the number 0"),
        ({"endpoints": {"s3": "x"}}, "endpoints: there is no service s3"),
        ({"eks_nodes": {"apply": "sometimes"}}, r"eks_nodes\.apply"),
        ({"eks_nodes": {"vm_memory_overhead": 1}}, r"eks_nodes\.vm_memory_overhead"),
        ({"instance_types": {"m5.large": {"cpu": 2}}}, "memory_mib"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"options of provider aws.*{complaint}"):
        AwsProvider(ProviderContext(clock=FakeClock(), options=options))
