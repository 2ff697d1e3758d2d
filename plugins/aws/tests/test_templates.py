"""The template of a group's next node, from moto's own tables."""

import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from awscloud import AwsCloud
from nodewright.spec import AccessDenied, ProviderError, Quantity

Attach = Callable[..., Any]
_PREFIX = "k8s.io/cluster-autoscaler/node-template"


def test_a_launch_template_at_size_zero(cloud: AwsCloud, attach: Attach) -> None:
    tags = {f"{_PREFIX}/label/team": "a", f"{_PREFIX}/taint/dedicated": "ml:NoSchedule"}
    name = cloud.add_group(tags={**tags, f"{_PREFIX}/resources/ephemeral-storage": "20Gi"})
    client = attach(f"0:10:{name}").client
    template = client.template_node(name)
    assert template.allocatable["cpu"] == Quantity.of(2)
    assert template.allocatable["memory"] == Quantity.of("8Gi")
    assert template.allocatable["ephemeral-storage"] == Quantity.of("20Gi")
    assert template.labels["topology.kubernetes.io/zone"] == "us-east-1a"
    assert template.labels["topology.kubernetes.io/region"] == "us-east-1"
    assert (template.labels["team"], template.labels["kubernetes.io/arch"]) == ("a", "amd64")
    assert [(one.key, one.value, one.effect) for one in template.taints] == [("dedicated", "ml", "NoSchedule")]


def test_gpus_and_other_architectures(cloud: AwsCloud, attach: Attach) -> None:
    gpu, arm = (
        cloud.add_group(LaunchTemplate={"LaunchTemplateName": cloud.add_template(kind), "Version": "$Default"})
        for kind in ("g5.xlarge", "m6g.large")
    )
    client = attach(f"0:10:{gpu}", f"0:10:{arm}").client
    assert client.template_node(gpu).allocatable["nvidia.com/gpu"] == Quantity.of(1)
    assert client.template_node(arm).labels["kubernetes.io/arch"] == "arm64"
    assert client.gpu_label() == "k8s.amazonaws.com/accelerator"


def test_launch_configurations_and_mixed_policies(cloud: AwsCloud, attach: Attach) -> None:
    configuration = f"lc-{uuid4().hex}"
    cloud.asg.create_launch_configuration(
        LaunchConfigurationName=configuration, ImageId="ami-12c6146b", InstanceType="r5.large"
    )
    policy = {
        "LaunchTemplate": {
            "LaunchTemplateSpecification": {"LaunchTemplateName": cloud.add_template("m5.large"), "Version": "$Latest"},
            "Overrides": [{"InstanceType": "c5.large"}, {"InstanceType": "c5a.large"}],
        }
    }
    old = cloud.add_group(LaunchConfigurationName=configuration)
    mixed = cloud.add_group(MixedInstancesPolicy=policy)
    client = attach(f"0:10:{old}", f"0:10:{mixed}").client
    kinds = [client.template_node(name).labels["node.kubernetes.io/instance-type"] for name in (old, mixed)]
    assert kinds == ["r5.large", "c5.large"]


def test_a_machine_of_the_version_before_differs_from_its_group(cloud: AwsCloud, attach: Attach) -> None:
    template = cloud.add_template()
    name = cloud.add_group(size=1, LaunchTemplate={"LaunchTemplateName": template, "Version": "1"})
    stage = attach(f"0:10:{name}")
    [group], [machine] = stage.client.node_groups(), stage.client.instances(name)
    assert group.made_from == machine.made_from
    assert re.fullmatch(r"launch template lt-[0-9a-f]+, version 1", group.made_from)
    data = {"ImageId": "ami-12c6146b", "InstanceType": "m5.xlarge"}
    cloud.ec2.create_launch_template_version(LaunchTemplateName=template, LaunchTemplateData=data)
    after = {"LaunchTemplateName": template, "Version": "$Latest"}
    cloud.asg.update_auto_scaling_group(AutoScalingGroupName=name, LaunchTemplate=after)
    stage.later(1201)
    assert [one.made_from for one in stage.client.instances(name)] == [machine.made_from]
    assert [one.made_from for one in stage.client.node_groups()] == [
        machine.made_from.replace("version 1", "version 2")
    ]


def test_a_managed_node_group_of_eks(cloud: AwsCloud, attach: Attach) -> None:
    cluster = f"c{uuid4().hex[:8]}"
    role = "arn:aws:iam::123456789012:role/eks"
    cloud.eks.create_cluster(name=cluster, roleArn=role, resourcesVpcConfig={"subnetIds": ["subnet-1"]})
    cloud.eks.create_nodegroup(
        clusterName=cluster,
        nodegroupName="ng",
        subnets=["subnet-1"],
        nodeRole=role,
        labels={"team": "eks"},
        taints=[{"key": "a", "value": "b", "effect": "NO_EXECUTE"}],
        capacityType="SPOT",
    )
    name = cloud.add_group(
        tags={"eks:cluster-name": cluster, "eks:nodegroup-name": "ng", f"{_PREFIX}/label/team": "tag"}
    )
    template = attach(f"0:10:{name}").client.template_node(name)
    assert template.labels["team"] == "eks"
    assert template.labels["eks.amazonaws.com/capacityType"] == "SPOT"
    assert ("a", "b", "NoExecute") in [(one.key, one.value, one.effect) for one in template.taints]


def test_one_group_without_a_known_machine_harms_no_other(cloud: AwsCloud, attach: Attach) -> None:
    strange = cloud.add_group(LaunchTemplate={"LaunchTemplateName": cloud.add_template("zz.huge"), "Version": "1"})
    empty = cloud.add_group(LaunchTemplate={"LaunchTemplateName": cloud.add_template(""), "Version": "1"})
    good = cloud.add_group()
    client = attach(*(f"0:10:{name}" for name in (strange, empty, good))).client
    with pytest.raises(ProviderError, match=r"us-east-1 has no known instance type zz\.huge"):
        client.template_node(strange)
    with pytest.raises(ProviderError, match=f"group {empty}: launch template .* names no instance type"):
        client.template_node(empty)
    assert client.template_node(good).allocatable["cpu"] == Quantity.of(2)


def test_a_table_of_ones_own_needs_no_permission(cloud: AwsCloud, attach: Attach) -> None:
    cloud.deny("DescribeInstanceTypes")
    name = cloud.add_group(LaunchTemplate={"LaunchTemplateName": cloud.add_template("zz.huge"), "Version": "1"})
    rows = {"zz.huge": {"cpu": 96, "memory_mib": 1024, "gpu": 8}}
    stage = attach(f"0:10:{name}", instance_types=rows, use_static_instance_list=True)
    for _ in range(2):
        assert stage.client.template_node(name).allocatable["cpu"] == Quantity.of(96)
        stage.later(86_400)
    assert "DescribeInstanceTypes" not in cloud.calls


def test_launch_data_is_kept_for_a_while(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group()
    stage = attach(f"0:10:{name}", template_interval="20m")
    for _ in range(5):
        stage.later(61)
    assert cloud.calls["DescribeLaunchTemplateVersions"] == 1
    stage.later(1200)
    assert cloud.calls["DescribeLaunchTemplateVersions"] == 2
    assert cloud.calls["DescribeInstanceTypes"] == 2


def test_a_missing_permission_costs_templates_and_nothing_else(cloud: AwsCloud, attach: Attach) -> None:
    cloud.deny("DescribeInstanceTypes", "DescribeLaunchConfigurations")
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}")
    assert stage.client.target_size(name) == 1
    other = cloud.add_group()
    stage = attach(f"0:10:{name}", f"0:10:{other}")
    for group in (name, other):
        with pytest.raises(AccessDenied, match="DescribeInstanceTypes: UnauthorizedOperation") as denied:
            stage.client.template_node(group)
        assert denied.value.group_id == group
    assert stage.client.increase_size(name, 1, 2) == 1


def test_a_throttled_template_comes_later_and_stays_once_it_is_known(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.refuse_once("DescribeLaunchTemplateVersions", "RequestLimitExceeded", "slow down", 503)
    stage = attach(f"0:10:{name}")
    started = stage.clock.now()
    with pytest.raises(ProviderError, match="not known yet: DescribeLaunchTemplateVersions: RequestLimitExceeded"):
        stage.client.template_node(name)
    assert stage.clock.now() == started, "the core waited for what only the next refresh can bring"
    stage.later(21)
    known = stage.client.template_node(name)
    cloud.refuse_once("DescribeLaunchTemplateVersions", "InternalError", "oops", 500)
    stage.later(1201)
    assert stage.client.template_node(name) == known
