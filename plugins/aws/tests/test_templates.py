"""The template of a group's next node, from moto's own tables."""

import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from awscloud import AwsCloud
from nodewright.spec import AccessDenied, GroupOptions, ProviderError, Quantity
from nodewright.spec.gpus import MODELS
from nodewright_aws.bundled_types import bundled_type
from nodewright_aws.calls import convert
from nodewright_aws.gpu_models import gpu_model
from nodewright_aws.options import EksNodes
from nodewright_aws.shapes import EksNodegroup, Group
from nodewright_aws.template import Machine, make_template

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


def test_devices_of_gpus_are_told_if_that_is_asked_for(cloud: AwsCloud, attach: Attach) -> None:
    one, none = (
        cloud.add_group(LaunchTemplate={"LaunchTemplateName": cloud.add_template(kind), "Version": "$Default"})
        for kind in ("g5.12xlarge", "m5.large")
    )
    client = attach(f"0:10:{one}", f"0:10:{none}", dra_gpus=True).client
    [told] = client.template_node(one).slices
    assert (told.driver, len(told.devices)) == ("gpu.nvidia.com", 4)
    assert {device.attributes["productName"].string for device in told.devices} == {"NVIDIA A10G"}
    assert client.template_node(none).slices == ()
    plain = attach(f"0:10:{one}").client.template_node(one)
    assert plain.slices == ()
    for resources in ("allocatable", "capacity"):
        assert "nvidia.com/gpu" in (getattr(plain, resources) or plain.allocatable)
        assert "nvidia.com/gpu" not in getattr(client.template_node(one), resources)


@pytest.mark.parametrize(
    ("instance_type", "model"),
    [("p4d.24xlarge", "a100-40gb"), ("g6e.xlarge", "l40s"), ("p6-b200.48xlarge", "b200"), ("m5.large", ""), ("", "")],
)
def test_the_gpu_follows_from_the_family(instance_type: str, model: str) -> None:
    assert gpu_model(instance_type) == model
    assert not model or model in MODELS


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


def test_what_eks_leaves_empty_is_no_label(cloud: AwsCloud) -> None:
    """As in cluster-autoscaler: a label with an empty value would be one that no node has."""
    nodegroup = EksNodegroup(nodegroup_name="ng", cluster_name="c", version="", ami_type="", capacity_type="SPOT")
    name = cloud.add_group()
    group = convert(cloud.group(name) | {"Tags": []}, Group)
    kind = bundled_type("m5.large")
    assert kind is not None
    labels = make_template(group, Machine(kind=kind), nodegroup, "us-east-1", EksNodes()).labels
    assert labels["eks.amazonaws.com/capacityType"] == "SPOT"
    assert not {"k8sVersion", "amiType", "diskSize"} & set(labels)


def test_an_option_of_a_group_begins_its_tag(cloud: AwsCloud, attach: Attach) -> None:
    option = f"{_PREFIX}/autoscaling-options/scaledownunneededtime"
    name = cloud.add_group(tags={option: "5m"})
    other = cloud.add_group(tags={f"mine/{option}": "5m"})
    client = attach(f"0:10:{name}", f"0:10:{other}").client
    defaults = GroupOptions(scale_down_unneeded_seconds=600.0)
    assert client.group_options(name, defaults).scale_down_unneeded_seconds == 300.0
    assert client.group_options(other, defaults) == defaults


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


def test_without_the_permission_the_bundled_table_describes_instance_types(cloud: AwsCloud, attach: Attach) -> None:
    kinds = ("m5.large", "g5.xlarge", "m6g.large", "zz.huge")
    names = [cloud.add_group(LaunchTemplate=_of(cloud, kind)) for kind in kinds]
    described = attach(*(f"0:10:{name}" for name in names[:3])).client
    cloud.deny("DescribeInstanceTypes", "DescribeLaunchConfigurations")
    client = attach(*(f"0:10:{name}" for name in names)).client
    for name in names[:3]:
        assert client.template_node(name) == described.template_node(name)
    with pytest.raises(AccessDenied, match="DescribeInstanceTypes: UnauthorizedOperation") as denied:
        client.template_node(names[3])
    assert denied.value.group_id == names[3]
    [said] = [one for one in client.diagnose() if one.subject == "ec2:DescribeInstanceTypes"]
    assert "bundled table" in said.message
    assert client.increase_size(names[0], 0, 1) == 1


def test_a_static_list_asks_nothing(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group()
    client = attach(f"0:10:{name}", use_static_instance_list=True).client
    assert client.template_node(name).allocatable["memory"] == Quantity.of("8Gi")
    assert "DescribeInstanceTypes" not in cloud.calls


@pytest.mark.parametrize(
    ("kind", "options", "pods"),
    [
        ("m5.large", {}, 29),
        ("t3.micro", {}, 4),
        ("m5.24xlarge", {}, 250),
        ("m5.4xlarge", {}, 110),
        ("m5.large", {"custom_networking": True}, 20),
        ("m5.large", {"prefix_delegation": True}, 110),
        ("t3.micro", {"prefix_delegation": True}, 34),
        ("t3.micro", {"prefix_delegation": True, "custom_networking": True}, 18),
        ("m5.large", {"max_pods": 58}, 58),
        ("m5.large", {"apply": "never"}, 110),
    ],
)
def test_how_many_pods_a_node_of_eks_has(
    cloud: AwsCloud, attach: Attach, kind: str, options: dict[str, Any], pods: int
) -> None:
    name = cloud.add_group(LaunchTemplate=_of(cloud, kind), tags=_managed(cloud, "AL2023_x86_64_STANDARD"))
    template = attach(f"0:10:{name}", eks_nodes=options).client.template_node(name)
    assert template.allocatable["pods"] == template.capacity["pods"] == Quantity.of(pods)


def test_what_the_kubelet_of_eks_leaves_for_pods(cloud: AwsCloud, attach: Attach) -> None:
    tags = _managed(cloud, "BOTTLEROCKET_x86_64")
    name = cloud.add_group(tags=tags)
    told = cloud.add_group(tags={**tags, f"{_PREFIX}/resources/memory": "7Gi"})
    client = attach(f"0:10:{name}", f"0:10:{told}").client
    template = client.template_node(name)
    memory = 8192 * 2**20 - int(8192 * 2**20 * 0.075)
    assert template.capacity["memory"] == Quantity.of(memory)
    assert template.allocatable["memory"] == Quantity.of(memory - (255 + 11 * 29 + 100) * 2**20)
    assert (template.capacity["cpu"], template.allocatable["cpu"]) == (Quantity.of(2), Quantity.of("1930m"))
    assert client.template_node(told).allocatable["memory"] == Quantity.of("7Gi")


@pytest.mark.parametrize("image", ["CUSTOM", "WINDOWS_CORE_2022_x86_64", ""])
def test_whose_nodes_are_not_set_up_by_eks_have_their_whole_machine(
    cloud: AwsCloud, attach: Attach, image: str
) -> None:
    name = cloud.add_group(tags=_managed(cloud, image) if image else {})
    template = attach(f"0:10:{name}").client.template_node(name)
    assert template.allocatable["memory"] == Quantity.of("8Gi")
    assert template.allocatable["pods"] == Quantity.of(110)
    always = attach(f"0:10:{name}", eks_nodes={"apply": "always"}).client.template_node(name)
    assert always.allocatable["pods"] == Quantity.of(29)


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


def _of(cloud: AwsCloud, kind: str) -> dict[str, str]:
    return {"LaunchTemplateName": cloud.add_template(kind), "Version": "$Latest"}


def _managed(cloud: AwsCloud, image: str) -> dict[str, str]:
    """Make a managed node group, and return the tags of its Auto Scaling group."""
    cluster, role = f"c{uuid4().hex[:8]}", "arn:aws:iam::123456789012:role/eks"
    cloud.eks.create_cluster(name=cluster, roleArn=role, resourcesVpcConfig={"subnetIds": ["subnet-1"]})
    cloud.eks.create_nodegroup(
        clusterName=cluster, nodegroupName="ng", subnets=["subnet-1"], nodeRole=role, amiType=image
    )
    return {"eks:cluster-name": cluster, "eks:nodegroup-name": "ng"}
