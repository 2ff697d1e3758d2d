"""Groups created on demand: like the named group, marked, and deleted only if they are empty and our own."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from attached import Attach, Stage
from awscloud import AwsCloud
from doctoring import bad
from nodewright.spec import AccessDenied, ConfigError, NewNodeGroup, ProviderContext, ProviderError, Taint
from nodewright.testkit import FakeClock
from nodewright_aws.options import load_options

CLUSTER = "blue"
NAME = "nap-blue-m5-xlarge-1"
DISCOVERED = {"k8s.io/cluster-autoscaler/enabled": "true", f"k8s.io/cluster-autoscaler/{CLUSTER}": "owned"}
MARK = f"nodewright/autoprovisioned/{CLUSTER}"
SPEC = NewNodeGroup(group_id=NAME, machine_type="m5.xlarge", max_size=7)


def options(like: str, **more: Any) -> dict[str, Any]:
    making = {"like": like, "instance_types": ["m5.xlarge", "c5.large"], **more}
    return {"cluster": CLUSTER, "autoprovisioning": making, "prices_per_hour": {"m5.xlarge": 0.19}}


@pytest.fixture(autouse=True)
def _tidy(cloud: AwsCloud) -> Iterator[None]:
    """moto's account is one for all tests."""
    yield
    cloud.remove_group(NAME)


@pytest.fixture
def model(cloud: AwsCloud) -> str:
    return cloud.add_group(tags={**DISCOVERED, "team": "web", "eks:cluster-name": CLUSTER}, MaxSize=3)


@pytest.fixture
def stage(attach: Attach[AwsCloud], model: str) -> Stage[AwsCloud]:
    return attach(f"0:10:{model}", **options(model))


def tags_of(cloud: AwsCloud, name: str) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in cloud.group(name)["Tags"]}


def listed(stage: Stage[AwsCloud]) -> dict[str, str]:
    return {group.id: group.autoprovisioned for group in stage.client.node_groups()}


def exists(cloud: AwsCloud, name: str) -> bool:
    return bool(cloud.asg.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"])


def test_machine_types_are_those_that_are_named(stage: Stage[AwsCloud]) -> None:
    kinds = stage.client.machine_types() or ()
    assert [(kind.name, kind.price and kind.price.per_hour, kind.id_prefix) for kind in kinds] == [
        ("m5.xlarge", 0.19, "nap-blue-"),
        ("c5.large", 0.085, "nap-blue-"),
    ]
    template = kinds[0].template
    assert (template.allocatable["cpu"].value, template.labels["topology.kubernetes.io/zone"]) == (4, "us-east-1a")
    assert not kinds[0].takes_labels, "nothing says that the nodes would have them"


def test_a_group_is_like_its_model_but_for_the_instance_type(stage: Stage[AwsCloud], model: str) -> None:
    made = stage.client.create_node_group(SPEC)
    assert made is not None
    assert (made.id, made.min_size, made.max_size, made.autoprovisioned) == (NAME, 0, 7, "m5.xlarge")
    group, like = stage.cloud.group(NAME), stage.cloud.group(model)
    launch = group["MixedInstancesPolicy"]["LaunchTemplate"]
    named = launch["LaunchTemplateSpecification"]["LaunchTemplateName"]
    assert named == like["LaunchTemplate"]["LaunchTemplateName"]
    assert [one["InstanceType"] for one in launch["Overrides"]] == ["m5.xlarge"]
    assert group["AvailabilityZones"] == like["AvailabilityZones"]
    assert (group["DesiredCapacity"], group["NewInstancesProtectedFromScaleIn"]) == (0, True)
    assert tags_of(stage.cloud, NAME) == {**DISCOVERED, "team": "web", MARK: "m5.xlarge"}


def test_it_has_the_tag_that_the_policy_demands_and_nobody_elses_mark(
    cloud: AwsCloud, attach: Attach[AwsCloud]
) -> None:
    """With a mark of another cluster that cluster would scale the group, and delete it."""
    key = f"k8s.io/cluster-autoscaler/{CLUSTER}"
    like = cloud.add_group(tags={key: "", "nodewright/autoprovisioned/green": "m5.large"}, MaxSize=3)
    stage = attach(f"0:10:{like}", **options(like))
    stage.client.create_node_group(SPEC)
    assert tags_of(cloud, NAME) == {key: "owned", MARK: "m5.xlarge"}


def test_what_a_group_is_made_for_takes_the_place_of_the_models_tag(attach: Attach[AwsCloud], cloud: AwsCloud) -> None:
    """AWS refuses a key that is told twice."""
    key = "k8s.io/cluster-autoscaler/node-template/taint/team"
    like = cloud.add_group(tags={key: "b:NoSchedule"}, MaxSize=3)
    stage = attach(f"0:10:{like}", **options(like, labels_from_tags=True))
    taint = Taint(key="team", value="a", effect="NoSchedule")
    stage.client.create_node_group(NewNodeGroup(group_id=NAME, machine_type="m5.xlarge", max_size=7, taints=(taint,)))
    assert tags_of(cloud, NAME)[key] == "a:NoSchedule"


def test_it_can_be_used(stage: Stage[AwsCloud]) -> None:
    stage.client.create_node_group(SPEC)
    assert stage.client.increase_size(NAME, 0, 2) == 2
    stage.later(60)
    assert len(stage.client.instances(NAME)) == 2
    assert stage.client.template_node(NAME).labels["node.kubernetes.io/instance-type"] == "m5.xlarge"


def test_labels_and_taints_become_tags_where_nodes_heed_them(attach: Attach[AwsCloud], model: str) -> None:
    stage = attach(f"0:10:{model}", **options(model, labels_from_tags=True))
    [kind, *_] = stage.client.machine_types() or ()
    assert kind.takes_labels
    taint = Taint(key="team", value="a", effect="NoSchedule")
    spec = NewNodeGroup(group_id=NAME, machine_type="m5.xlarge", max_size=7, labels={"team": "a"}, taints=(taint,))
    stage.client.create_node_group(spec)
    stage.later(0)
    template = stage.client.template_node(NAME)
    assert (template.labels["team"], template.taints) == ("a", (taint,))
    prefix = "k8s.io/cluster-autoscaler/node-template/"
    assert (
        tags_of(stage.cloud, NAME).items()
        >= {f"{prefix}label/team": "a", f"{prefix}taint/team": "a:NoSchedule"}.items()
    )


@pytest.mark.parametrize("discover", [(), ("asg:tag=" + ",".join(DISCOVERED),), ("asg:tag=team=web",)])
def test_whoever_comes_next_finds_it_by_its_mark(
    attach: Attach[AwsCloud], model: str, stage: Stage[AwsCloud], discover: tuple[str, ...]
) -> None:
    stage.client.create_node_group(SPEC)
    after = attach(discover=discover, **options(model))
    assert listed(after)[NAME] == "m5.xlarge"
    assert after.client.create_node_group(SPEC) is not None
    assert after.cloud.calls["CreateAutoScalingGroup"] == 1


def test_another_cluster_does_not(attach: Attach[AwsCloud], model: str, stage: Stage[AwsCloud]) -> None:
    stage.client.create_node_group(SPEC)
    other = attach(**{**options(model), "cluster": "green"})
    assert NAME not in listed(other)
    with pytest.raises(ProviderError, match="did not create for this machine type"):
        other.client.create_node_group(SPEC)


def test_a_lost_answer_makes_one_group(stage: Stage[AwsCloud]) -> None:
    stage.cloud.lose_answer_once("CreateAutoScalingGroup")
    with pytest.raises(ProviderError):
        stage.client.create_node_group(SPEC)
    made = stage.client.create_node_group(SPEC)
    assert made is not None
    assert stage.cloud.calls["CreateAutoScalingGroup"] == 1


def test_it_is_deleted_when_it_is_empty(stage: Stage[AwsCloud]) -> None:
    stage.client.create_node_group(SPEC)
    assert stage.client.delete_node_group(NAME)
    assert not exists(stage.cloud, NAME)
    stage.later(120)
    assert NAME not in listed(stage)


@pytest.mark.parametrize("owner", ["model", "unmarked"])
def test_groups_of_others_stay(stage: Stage[AwsCloud], model: str, owner: str) -> None:
    if owner == "unmarked":
        stage.client.create_node_group(SPEC)
        tag = {"ResourceId": NAME, "ResourceType": "auto-scaling-group", "Key": MARK}
        stage.cloud.asg.delete_tags(Tags=[tag])
    name = model if owner == "model" else NAME
    assert stage.client.delete_node_group(name) is False
    assert exists(stage.cloud, name)
    assert not stage.cloud.calls["DeleteAutoScalingGroup"]


def test_what_arrives_at_the_last_moment_lives(stage: Stage[AwsCloud]) -> None:
    """The group was empty when it was looked at. AWS itself refuses then, and a second look finds the machine."""
    stage.client.create_node_group(SPEC)
    stage.cloud.set_target(NAME, 1)
    assert stage.client.delete_node_group(NAME) is False
    machines = stage.cloud.machines(NAME)
    stage.cloud.hide_once(NAME)
    assert stage.client.delete_node_group(NAME) is False
    assert stage.cloud.machines(NAME) == machines != frozenset()


def test_without_the_permission_it_is_refused_and_doctor_says_so(stage: Stage[AwsCloud]) -> None:
    stage.cloud.deny("CreateAutoScalingGroup", "RunInstances")
    with pytest.raises(AccessDenied):
        stage.client.create_node_group(SPEC)
    wrong = bad(stage.client.diagnose() or ())
    assert "no group can be created" in wrong["autoscaling:CreateAutoScalingGroup"].message
    assert "no group can be created" in wrong["ec2:RunInstances"].message


def test_doctor_makes_nothing(stage: Stage[AwsCloud]) -> None:
    before = stage.cloud.group_names()
    found = {finding.subject for finding in stage.client.diagnose() or ()}
    assert {"autoscaling:CreateAutoScalingGroup", "autoscaling:DeleteAutoScalingGroup", "ec2:RunInstances"} <= found
    assert stage.cloud.group_names() == before


def test_a_policy_for_making(stage: Stage[AwsCloud]) -> None:
    policy = json.loads(stage.client.minimal_policy() or "")
    said = {action: one["Sid"] for one in policy["Statement"] for action in one["Action"]}
    assert {
        "autoscaling:CreateAutoScalingGroup": "NodewrightMakes",
        "autoscaling:DeleteAutoScalingGroup": "NodewrightWrites",
        "ec2:RunInstances": "NodewrightStarts",
        "iam:PassRole": "NodewrightPasses",
    }.items() <= said.items()
    [made] = [one["Condition"] for one in policy["Statement"] if one["Sid"] == "NodewrightMakes"]
    assert made == {"StringEquals": {f"aws:RequestTag/k8s.io/cluster-autoscaler/{CLUSTER}": "owned"}}


def test_the_policy_lets_a_template_tag_its_machines_only_as_they_start(stage: Stage[AwsCloud]) -> None:
    policy = json.loads(stage.client.minimal_policy() or "")
    [tags] = [one for one in policy["Statement"] if "ec2:CreateTags" in one["Action"]]
    assert tags["Condition"] == {"StringEquals": {"ec2:CreateAction": "RunInstances"}}
    assert {"arn:*:ec2:*:*:instance/*", "arn:*:ec2:*:*:volume/*"} <= set(tags["Resource"])


def test_the_policy_holds_in_every_partition(attach: Attach[AwsCloud], model: str) -> None:
    client = attach(f"0:10:{model}", interruption_queue="notices", **options(model)).client
    named = re.findall(r"arn:[^\"]+", client.minimal_policy() or "")
    assert {one.split(":")[2] for one in named} == {"ec2", "iam", "sqs"}
    assert {one.split(":")[1] for one in named} == {"*"}


@pytest.mark.parametrize(("role", "named"), [("", "<role of the nodes>"), ("eks/my-nodes", "eks/my-nodes")])
def test_the_policy_passes_one_role_to_ec2_alone(attach: Attach[AwsCloud], model: str, role: str, named: str) -> None:
    policy = json.loads(attach(f"0:10:{model}", **options(model, node_role=role)).client.minimal_policy() or "")
    [passes] = [one for one in policy["Statement"] if "iam:PassRole" in one["Action"]]
    assert passes["Resource"] == f"arn:*:iam::*:role/{named}"
    assert passes["Condition"] == {
        "StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}
    }


@pytest.mark.parametrize("more", [{}, {"node_role": "my-nodes", "launch_template": "lt-0123456789abcdef0"}])
def test_no_statement_passes_any_role_or_starts_any_machine(
    attach: Attach[AwsCloud], model: str, more: dict[str, str]
) -> None:
    policy = json.loads(attach(f"0:10:{model}", **options(model, **more)).client.minimal_policy() or "")
    sensitive = ("iam:PassRole", "ec2:RunInstances")
    granting = [one for one in policy["Statement"] if set(sensitive) & set(one["Action"])]
    assert granting
    for one in granting:
        named = one["Resource"] if isinstance(one["Resource"], list) else [one["Resource"]]
        kinds = [resource.split(":", 5)[5].partition("/") for resource in named]
        assert "*" not in [kind for kind, _, _ in kinds], "each kind of resource is named"
        # Of which template or role, the resource or the condition says.
        is_bound = all("*" not in name for _, _, name in kinds)
        assert is_bound or one["Condition"]
    actions = [action for one in policy["Statement"] for action in one["Action"]]
    assert [action for action in actions if "*" in action] == []


def test_machines_start_of_one_template_or_of_those_with_the_tag_of_the_cluster(
    attach: Attach[AwsCloud], model: str
) -> None:
    def statements(**more: str) -> tuple[Any, Any]:
        policy = json.loads(attach(f"0:10:{model}", **options(model, **more)).client.minimal_policy() or "")
        found = {one["Sid"]: one for one in policy["Statement"]}
        return found["NodewrightStarts"], found["NodewrightTemplates"]

    prefix = "arn:*:ec2:*:*:launch-template"
    starts, templates = statements()
    assert starts["Condition"] == {"ArnLike": {"ec2:LaunchTemplate": f"{prefix}/*"}}
    assert f"{prefix}/*" not in starts["Resource"]
    assert (templates["Resource"], templates["Condition"]) == (
        f"{prefix}/*",
        {"StringEquals": {f"aws:ResourceTag/k8s.io/cluster-autoscaler/{CLUSTER}": "owned"}},
    )
    starts, templates = statements(launch_template="lt-0abc")
    assert starts["Condition"] == {"ArnLike": {"ec2:LaunchTemplate": f"{prefix}/lt-0abc"}}
    assert templates["Resource"] == f"{prefix}/lt-0abc"
    assert "Condition" not in templates


def test_doctor_tries_to_start_machines_as_a_new_group_would(stage: Stage[AwsCloud], model: str) -> None:
    template = stage.cloud.group(model)["LaunchTemplate"]["LaunchTemplateId"]
    stage.cloud.start_only(template)
    assert "ec2:RunInstances" not in bad(stage.client.diagnose() or ())
    stage.cloud.start_only("lt-of-others")
    assert "no group can be created" in bad(stage.client.diagnose() or ())["ec2:RunInstances"].message


@pytest.mark.parametrize(
    ("like", "said"),
    [
        ("nobody", "there is no group nobody: no groups can be created like it"),
        ("configured", "has no launch template"),
    ],
)
def test_without_a_model_there_are_no_machine_types(
    cloud: AwsCloud, attach: Attach[AwsCloud], like: str, said: str
) -> None:
    if like == "configured":
        configuration = {"ImageId": "ami-12c6146b", "InstanceType": "m5.large"}
        cloud.asg.create_launch_configuration(LaunchConfigurationName="lc", **configuration)
        like = cloud.add_group(LaunchConfigurationName="lc")
    stage = attach(**options(like))
    assert stage.client.machine_types() == ()
    assert said in bad(stage.client.diagnose() or ())["autoprovisioning"].message


def test_an_unknown_instance_type_is_told(attach: Attach[AwsCloud], model: str) -> None:
    stage = attach(**options(model, instance_types=["m5.xlarge", "x9.never"]))
    assert [kind.name for kind in stage.client.machine_types() or ()] == ["m5.xlarge"]
    assert "x9.never" in bad(stage.client.diagnose() or ())["autoprovisioning"].message


def test_a_group_that_aws_is_deleting_is_gone(stage: Stage[AwsCloud]) -> None:
    stage.client.create_node_group(SPEC)
    stage.cloud.set_member(NAME, "Status", "Delete in progress")
    stage.later(120)
    assert NAME not in listed(stage)
    with pytest.raises(ProviderError, match="still deleting"):
        stage.client.create_node_group(SPEC)
    assert NAME not in listed(stage)


def test_the_cluster_must_be_named() -> None:
    context = ProviderContext(clock=FakeClock(), options={"autoprovisioning": {"like": "a", "instance_types": ["b"]}})
    with pytest.raises(ConfigError, match="autoprovisioning needs cluster"):
        load_options(context)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"like": ""}, r"autoprovisioning\.like: "),
        ({"instance_types": []}, r"autoprovisioning\.instance_types: "),
        ({"instance_types": ["m5.large", ""]}, r"autoprovisioning\.instance_types\[1\]: "),
        ({"instance_types": ["m5.large", "m5.large"]}, r"autoprovisioning\.instance_types names m5\.large twice"),
        ({"node_role": "*"}, r"autoprovisioning\.node_role: "),
        ({"prefix": "a:b"}, r"autoprovisioning\.prefix: "),
        ({"prefix": "a" * 201}, r"autoprovisioning\.prefix: "),
    ],
)
def test_what_aws_would_refuse_later_is_refused_at_once(wrong: dict[str, Any], sentence: str) -> None:
    making = {"like": "web", "instance_types": ["m5.large"]} | wrong
    context = ProviderContext(clock=FakeClock(), options={"cluster": CLUSTER, "autoprovisioning": making})
    with pytest.raises(ConfigError, match=f"^options of provider aws: {sentence}"):
        load_options(context)
