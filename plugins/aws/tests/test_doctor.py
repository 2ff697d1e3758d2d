"""``nodewright doctor`` on AWS: what it finds, what it prints, and that it touches nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from awscloud import AwsCloud
from nodewright.spec import Capability, Finding, FindingLevel

Attach = Callable[..., Any]
_WRITES = {
    "SetDesiredCapacity",
    "TerminateInstanceInAutoScalingGroup",
    "SetInstanceProtection",
    "UpdateAutoScalingGroup",
}
_SAFE: dict[str, Any] = {"NewInstancesProtectedFromScaleIn": True}


def _bad(findings: tuple[Finding, ...]) -> dict[str, Finding]:
    return {finding.subject: finding for finding in findings if finding.level is not FindingLevel.OK}


def test_a_group_in_order_with_every_permission(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1, **_SAFE)
    findings = attach(f"0:10:{name}").client.diagnose()
    assert _bad(findings) == {}
    looked_at = {finding.subject for finding in findings}
    assert {"autoscaling:SetDesiredCapacity", "ec2:DescribeInstanceTypes", "other writers"} <= looked_at


def test_each_missing_permission_is_named_with_what_is_lost(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1, **_SAFE)
    stage = attach(f"0:10:{name}")
    cloud.deny("DescribeScalingActivities", "DescribeLaunchTemplateVersions", "SetDesiredCapacity")
    bad = _bad(stage.client.diagnose())
    activities = bad["autoscaling:DescribeScalingActivities"]
    assert (activities.level, activities.capability) == (FindingLevel.WARNING, Capability.FAST_FAILURE_DETECTION)
    assert "noticed only when the provision time is over" in activities.message
    assert bad["ec2:DescribeLaunchTemplateVersions"].level is FindingLevel.PROBLEM
    # A policy with a condition on tags refuses the probe too: doctor does not claim to know.
    assert bad["autoscaling:SetDesiredCapacity"].level is FindingLevel.WARNING
    assert "iam:SimulatePrincipalPolicy" in bad["autoscaling:SetDesiredCapacity"].remedy


def test_what_else_moves_a_group(cloud: AwsCloud, attach: Attach) -> None:
    tags = {"kubernetes.io/cluster/one": "owned", "kubernetes.io/cluster/two": "owned"}
    name = cloud.add_group(size=1, tags=tags, MaxSize=5, AvailabilityZones=["us-east-1a", "us-east-1b"])
    cloud.asg.put_scaling_policy(
        AutoScalingGroupName=name, PolicyName="cpu", AdjustmentType="ChangeInCapacity", ScalingAdjustment=1
    )
    cloud.asg.suspend_processes(AutoScalingGroupName=name, ScalingProcesses=["Launch"])
    findings = attach(f"0:10:{name}", "0:3:gone").client.diagnose()
    said = "\n".join(f"{one.subject}: {one.message}" for one in findings if one.level is not FindingLevel.OK)
    assert "other writers: a scaling policy writes the size of this group too" in said
    assert "the autoscaler of another cluster (it is owned by one, two)" in said
    assert "process AZRebalance: zone rebalancing over 2 zones ends running instances" in said
    assert "NewInstancesProtectedFromScaleIn: off" in said
    assert "process Launch: Launch is suspended" in said
    assert "limits: --nodes says 0:10, AWS 0:5" in said
    assert "--nodes: --nodes names it, and there is no such Auto Scaling group" in said


def test_protection_makes_rebalancing_harmless(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1, AvailabilityZones=["us-east-1a", "us-east-1b"], **_SAFE)
    assert _bad(attach(f"0:10:{name}").client.diagnose()) == {}


def test_nothing_is_changed_by_looking(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=2)
    stage = attach(f"0:10:{name}")
    before = cloud.group(name)
    stage.client.diagnose()
    assert cloud.group(name) | {"ResponseMetadata": 0} == before | {"ResponseMetadata": 0}
    # Every write was sent to a name that cannot exist.
    assert set(cloud.calls) >= _WRITES


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
    config = tmp_path / "config.yaml"
    options = {
        "region": "us-east-1",
        "endpoints": dict.fromkeys(("autoscaling", "ec2", "eks", "iam", "sts"), cloud.proxy.url),
    }
    config.write_text(yaml.safe_dump({"providers": {"aws": {"options": options, "nodes": [f"0:10:{name}"]}}}))
    command = [sys.executable, "-m", "nodewright", "doctor", "--config", str(config)]
    environment = {**os.environ, "COLUMNS": "200"}
    told = subprocess.run([*command, "--output", "json"], capture_output=True, text=True, env=environment, check=False)
    assert told.returncode == code, told.stderr
    [provider] = json.loads(told.stdout)["providers"]
    assert (provider["provider"], provider["examines"]) == ("aws", True)
    assert json.loads(provider["policy"])["Version"] == "2012-10-17"
    assert sum(made["calls"] for made in provider["api_calls"]) > 5
    shown = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert "autoscaling:SetDesiredCapacity" in shown.stdout
    assert ("NewInstancesProtectedFromScaleIn" in shown.stdout) == bool(code)
