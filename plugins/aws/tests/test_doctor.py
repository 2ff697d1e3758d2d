"""``nodewright doctor`` on AWS: its findings and its output, and that it changes nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awscloud import AwsCloud
from doctoring import bad, run_doctor, said
from environment import only_variables
from nodewright.spec import Capability, FindingLevel, ProviderContext, ProviderError
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import connect
from nodewright_aws.interruptions import _HIDDEN_SECONDS
from nodewright_aws.options import Options
from nodewright_aws.policy import needed_permissions
from nodewright_aws.provider import AwsProvider

Attach = Callable[..., Any]
_WRITES = {
    "SetDesiredCapacity",
    "TerminateInstanceInAutoScalingGroup",
    "SetInstanceProtection",
    "UpdateAutoScalingGroup",
}
_SAFE: dict[str, Any] = {"NewInstancesProtectedFromScaleIn": True}


def test_a_group_in_order_with_every_permission(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1, **_SAFE)
    findings = attach(f"0:10:{name}").client.diagnose()
    assert bad(findings) == {}
    looked_at = {finding.subject for finding in findings}
    assert {"autoscaling:SetDesiredCapacity", "ec2:DescribeInstanceTypes", "other writers"} <= looked_at


def test_each_missing_permission_is_named_with_what_is_lost(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1, **_SAFE)
    stage = attach(f"0:10:{name}")
    cloud.deny("DescribeScalingActivities", "DescribeLaunchTemplateVersions", "SetDesiredCapacity")
    wrong = bad(stage.client.diagnose())
    activities = wrong["autoscaling:DescribeScalingActivities"]
    assert (activities.level, activities.capability) == (FindingLevel.WARNING, Capability.FAST_FAILURE_DETECTION)
    assert "noticed only when the provision time is over" in activities.message
    assert wrong["ec2:DescribeLaunchTemplateVersions"].level is FindingLevel.PROBLEM
    # A policy with a condition on tags refuses the probe too: doctor does not claim to know.
    assert wrong["autoscaling:SetDesiredCapacity"].level is FindingLevel.WARNING
    assert "iam:SimulatePrincipalPolicy" in wrong["autoscaling:SetDesiredCapacity"].remedy


def test_what_else_moves_a_group(cloud: AwsCloud, attach: Attach) -> None:
    tags = {"kubernetes.io/cluster/one": "owned", "kubernetes.io/cluster/two": "owned"}
    name = cloud.add_group(size=1, tags=tags, MaxSize=5, AvailabilityZones=["us-east-1a", "us-east-1b"])
    cloud.asg.put_scaling_policy(
        AutoScalingGroupName=name, PolicyName="cpu", AdjustmentType="ChangeInCapacity", ScalingAdjustment=1
    )
    cloud.asg.suspend_processes(AutoScalingGroupName=name, ScalingProcesses=["Launch"])
    findings = attach(f"0:10:{name}", "0:3:gone").client.diagnose()
    lines = said(findings)
    assert "other writers: a scaling policy also changes the size of this group" in lines
    assert "the autoscaler of another cluster (it is owned by one, two)" in lines
    assert "process AZRebalance: zone rebalancing over 2 zones terminates running instances" in lines
    assert "NewInstancesProtectedFromScaleIn: off" in lines
    assert "process Launch: Launch is suspended" in lines
    assert "limits: --nodes says 0:10, AWS has 0:5: the narrower limits apply" in lines
    assert "--nodes: --nodes names this group, but there is no such Auto Scaling group" in lines


def test_what_aws_does_to_a_group_by_itself(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1, **_SAFE)
    stage = attach(f"0:10:{name}")
    for member, text in (
        ("CapacityRebalance", "true"),
        ("WarmPoolConfiguration", ""),
        ("DesiredCapacityType", "vcpu"),
    ):
        cloud.set_member(name, member, text)
    stage.later(5, name)
    wrong = bad(stage.client.diagnose())
    assert wrong["CapacityRebalance"].level is FindingLevel.WARNING
    assert wrong["warm pool"].level is FindingLevel.WARNING
    assert wrong["desired capacity"].level is FindingLevel.PROBLEM
    assert "counts vcpu, not machines" in wrong["desired capacity"].message


def test_what_was_never_looked_for_is_not_said_to_be_missing(attach: Attach) -> None:
    assert "--nodes" not in bad(attach("0:3:gone", read=False).client.diagnose())


def test_without_a_region_nothing_is_said_to_be_granted(clock: FakeClock) -> None:
    with only_variables(("AWS_",), {"AWS_CONFIG_FILE": "/nowhere"}):
        provider = AwsProvider(ProviderContext(clock=clock, node_group_specs=("0:3:web",)))
        client = connect("aws", provider, clock)
        with pytest.raises(ProviderError, match=r"no region: set providers\.aws\.options\.region, or AWS_REGION"):
            client.refresh()
        assert client.diagnose() == ()


def test_without_groups_and_without_a_region_the_region_is_the_problem(clock: FakeClock) -> None:
    """No group is named, so that refresh makes no call that could fail."""
    with only_variables(("AWS_",), {"AWS_CONFIG_FILE": "/nowhere"}):
        client = connect("aws", AwsProvider(ProviderContext(clock=clock)), clock)
        client.refresh()
        found = [(one.level, one.subject, one.message) for one in client.diagnose() or ()]
    message = "no region: set providers.aws.options.region, or AWS_REGION"
    assert found == [(FindingLevel.PROBLEM, "region", message)]


def test_to_whom_aws_does_not_know_no_permission_is_said_to_be_missing(cloud: AwsCloud, attach: Attach) -> None:
    stage = attach("0:3:web", read=False)
    cloud.refuse_once("DescribeAutoScalingGroups", "InvalidClientTokenId", "The security token is invalid", 403)
    assert stage.client.diagnose() == ()


def test_protection_makes_rebalancing_harmless(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1, AvailabilityZones=["us-east-1a", "us-east-1b"], **_SAFE)
    assert bad(attach(f"0:10:{name}").client.diagnose()) == {}


def test_nothing_is_changed_by_looking(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=2)
    stage = attach(f"0:10:{name}")
    before = cloud.group(name)
    stage.client.diagnose()
    assert cloud.group(name) | {"ResponseMetadata": 0} == before | {"ResponseMetadata": 0}
    # Every write was sent to a name that cannot exist.
    assert set(cloud.calls) >= _WRITES


def test_what_is_lost_if_messages_may_not_be_hidden_is_no_notice() -> None:
    """See test_interruptions.py: a message that cannot be hidden is still read."""
    needed = {one.action: one for one in needed_permissions(Options(interruption_queue="notices"))}
    hiding = needed["sqs:ChangeMessageVisibility"]
    assert hiding.level is FindingLevel.WARNING
    assert hiding.without == f"messages without a near deadline are read again every {_HIDDEN_SECONDS} seconds"


def test_the_policy_lists_what_is_used(attach: Attach) -> None:
    whole = json.loads(attach("0:1:a", cluster="prod", read=False).client.minimal_policy())
    reads, writes = whole["Statement"]
    assert set(writes["Action"]) == {f"autoscaling:{action}" for action in _WRITES}
    assert writes["Condition"] == {"StringEquals": {"aws:ResourceTag/k8s.io/cluster-autoscaler/prod": "owned"}}
    assert "autoscaling:DescribeScalingActivities" in reads["Action"]
    less = json.loads(attach("0:1:a", detect_failures=False, read=False).client.minimal_policy())
    assert "autoscaling:DescribeScalingActivities" not in less["Statement"][0]["Action"]


@pytest.mark.parametrize(("settings", "code"), [(_SAFE, 0), ({}, 3)], ids=["in order", "unprotected"])
def test_the_command_over_http(cloud: AwsCloud, tmp_path: Path, settings: dict[str, Any], code: int) -> None:
    name = cloud.add_group(size=1, **settings)
    told = run_doctor(tmp_path, "aws", cloud.options, f"0:10:{name}", code)
    assert (told.provider["provider"], told.provider["examines"]) == ("aws", True)
    assert json.loads(told.provider["policy"])["Version"] == "2012-10-17"
    assert sum(made["calls"] for made in told.provider["api_calls"]) > 5
    assert "autoscaling:SetDesiredCapacity" in told.shown
    assert ("NewInstancesProtectedFromScaleIn" in told.shown) == bool(code)
