"""Writes: no healthy machine is lost, no write is sent twice, and every refusal is one of nodewright's errors."""

from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from awscloud import AwsCloud
from nodewright.spec import (
    AccessDenied,
    FailureScope,
    InstanceState,
    OperationInProgress,
    OutOfCapacity,
    ProviderError,
    ProviderUnavailable,
    QuotaExceeded,
    Shortage,
    TargetChanged,
    Throttled,
)
from nodewright_aws.errors import classify_launch

Attach = Callable[..., Any]


def test_what_runs_and_what_comes_is_protected_before_a_size_is_lowered(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=2)
    cloud.hold(name)
    client = attach(f"0:10:{name}").client
    client.increase_size(name, 2, 4)
    assert client.decrease_target_size(name, 4, 3) == 1
    group = cloud.group(name)
    assert group["NewInstancesProtectedFromScaleIn"]
    assert all(one["ProtectedFromScaleIn"] for one in group["Instances"])
    assert group["DesiredCapacity"] == 3


def test_an_increase_stays_although_listings_lag(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}")
    cloud.lag(25)
    assert stage.client.increase_size(name, 1, 2) == 1
    for seconds in (5, 10, 5):
        stage.later(seconds, name)
        assert stage.client.target_size(name) == 2
    stage.later(6, name)
    assert stage.client.increase_size(name, 2, 4) == 2
    for seconds in (1, 10, 30):
        stage.later(seconds, name)
        assert stage.client.target_size(name) == 4
    assert cloud.group(name)["DesiredCapacity"] == 4


def test_a_deleted_instance_stays_deleted_although_listings_lag(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=3)
    stage = attach(f"0:10:{name}")
    cloud.lag(25)
    gone = min(cloud.machines(name))
    assert stage.client.delete_instances(name, [gone], 3) == (gone,)
    for seconds in (5, 10, 5, 30):
        stage.later(seconds, name)
        assert stage.client.target_size(name) == 2
        running = [one.id for one in stage.client.instances(name) if one.state is InstanceState.RUNNING]
        assert len(running) == 2
        assert gone not in running


def test_what_another_writer_makes_of_a_size_is_believed(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 1, 2)
    cloud.set_target(name, 5)
    stage.later(5, name)
    assert stage.client.target_size(name) == 5
    cloud.set_target(name, 4)
    stage.later(5, name)
    assert stage.client.target_size(name) == 4


@pytest.mark.parametrize("shown", [(1, 3, 1), (3, 1, 3), (1, 3, 3), (3, 3, 1)])
def test_one_listing_with_our_size_does_not_make_the_next_late_one_true(
    cloud: AwsCloud, attach: Attach, shown: tuple[int, ...]
) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 1, 3)
    for size in shown:
        cloud.set_target(name, size)
        stage.later(5, name)
        assert stage.client.target_size(name) == 3
    stage.later(16, name)
    assert stage.client.target_size(name) == shown[-1]


def test_another_writers_size_is_not_forgotten_for_a_late_listing(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 1, 3)
    for size, seconds in ((5, 5), (3, 10), (1, 10), (5, 4)):
        cloud.set_target(name, size)
        stage.later(seconds, name)
        assert stage.client.target_size(name) == 5
    cloud.set_target(name, 1)
    stage.later(2, name)
    assert stage.client.target_size(name) == 1


@pytest.mark.parametrize(("reads", "size"), [((31,), 1), ((12, 20), 1), ((12, 12), 2), ((29,), 2)])
def test_a_former_size_is_believed_once_it_stays(
    cloud: AwsCloud, attach: Attach, reads: tuple[int, ...], size: int
) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 1, 2)
    cloud.set_target(name, 1)
    for seconds in reads:
        stage.later(seconds, name)
    assert stage.client.target_size(name) == size


def test_what_another_writer_lowered_is_not_overwritten(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group()
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 0, 3)
    cloud.set_target(name, 0)
    stage.later(31, name)
    with pytest.raises(TargetChanged) as changed:
        stage.client.increase_size(name, 3, 4)
    assert changed.value.actual == 0
    assert cloud.group(name)["DesiredCapacity"] == 0
    assert stage.client.target_size(name) == 0


def test_a_former_size_is_not_overwritten_as_long_as_it_may_be_another_writers(cloud: AwsCloud, attach: Attach) -> None:
    """A listing with the former size lags, or another writer set it again: no look tells which."""
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 1, 3)
    cloud.set_target(name, 1)
    stage.later(5, name)
    cloud.hold(name)
    for write, size in ((stage.client.increase_size, 4), (stage.client.decrease_target_size, 2)):
        with pytest.raises(OperationInProgress, match="do not show our last change of its size"):
            write(name, 3, size)
        assert cloud.group(name)["DesiredCapacity"] == 1
    stage.later(31, name)
    assert stage.client.increase_size(name, 1, 2) == 1


def test_a_machine_is_terminated_while_a_listing_is_late_from_whatever_size_there_is(
    cloud: AwsCloud, attach: Attach
) -> None:
    name = cloud.add_group(size=2)
    stage = attach(f"0:10:{name}")
    cloud.hold(name)
    stage.client.increase_size(name, 2, 4)
    cloud.set_target(name, 2)
    stage.later(5, name)
    gone = min(cloud.machines(name))
    assert stage.client.delete_instances(name, [gone], 4) == (gone,)
    assert cloud.group(name)["DesiredCapacity"] == 1


def test_without_protection_a_size_is_not_lowered_and_the_reason_is_told(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=2)
    cloud.hold(name)
    client = attach(f"0:10:{name}").client
    client.increase_size(name, 2, 4)
    cloud.deny("UpdateAutoScalingGroup")
    with pytest.raises(AccessDenied, match="Set NewInstancesProtectedFromScaleIn on the group, or grant Update"):
        client.decrease_target_size(name, 4, 3)
    assert cloud.group(name)["DesiredCapacity"] == 4


def test_an_instance_that_arrives_in_the_middle_is_adopted(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    cloud.hold(name)
    client = attach(f"0:10:{name}").client
    client.increase_size(name, 1, 3)
    cloud.before_write(lambda: cloud.arrive(name))
    cloud.before_write(lambda: cloud.arrive(name))
    assert client.decrease_target_size(name, 3, 1) == 0
    assert len(cloud.machines(name)) == 3
    assert client.target_size(name) == 3


def test_full_groups_are_never_written_to_when_lowered(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=3)
    client = attach(f"0:10:{name}").client
    before = cloud.calls.copy()
    assert client.decrease_target_size(name, 3, 1) == 0
    assert set(cloud.calls - before) == {"DescribeAutoScalingGroups"}


def test_deletions_are_by_id_and_keep_the_minimum(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=3, MinSize=1)
    client = attach(f"2:10:{name}").client
    victims = sorted(cloud.machines(name))
    with pytest.raises(ProviderError, match=f"{name} would go below its minimum of 2") as refused:
        client.delete_instances(name, victims[:2], 3)
    assert refused.value.code == "belowMinimum"
    assert client.delete_instances(name, victims[:1], 3) == (victims[0],)
    assert cloud.machines(name) == frozenset(victims[1:])


def test_a_refused_deletion_tells_what_was_deleted_before_it(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=4)
    client = attach(f"0:10:{name}").client
    victims = sorted(cloud.machines(name))[:3]
    sent = []

    def refuse_the_third() -> None:
        sent.append(1)
        if len(sent) == 2:
            cloud.refuse_once("TerminateInstanceInAutoScalingGroup", "Throttling", "Rate exceeded")
        cloud.before_write(refuse_the_third)

    cloud.before_write(refuse_the_third)
    accepted = client.delete_instances(name, victims, 4)
    assert 0 < len(accepted) < 3
    assert cloud.machines(name).isdisjoint(accepted)
    assert client.target_size(name) == 4 - len(accepted)


def test_an_answer_that_is_lost_is_settled_by_looking(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    client = attach(f"0:10:{name}").client
    cloud.lose_answer_once("SetDesiredCapacity")
    assert client.increase_size(name, 1, 3) == 2
    assert cloud.calls["SetDesiredCapacity"] == 1
    [victim, *_] = sorted(cloud.machines(name))
    cloud.lose_answer_once("TerminateInstanceInAutoScalingGroup")
    assert client.delete_instances(name, [victim], 3) == (victim,)
    assert client.target_size(name) == 2
    assert len(cloud.machines(name)) == 2


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("Throttling", 400, Throttled),
        ("RequestLimitExceeded", 503, Throttled),
        ("ScalingActivityInProgress", 400, OperationInProgress),
        ("ResourceContention", 500, OperationInProgress),
        ("AccessDenied", 403, AccessDenied),
        ("ExpiredToken", 403, AccessDenied),
        ("InsufficientInstanceCapacity", 400, OutOfCapacity),
        ("VcpuLimitExceeded", 400, QuotaExceeded),
        ("Whatever", 400, ProviderError),
    ],
)
def test_refusals_are_translated_and_sent_once(
    cloud: AwsCloud, attach: Attach, code: str, status: int, error: type[ProviderError]
) -> None:
    name = cloud.add_group(size=1)
    client = attach(f"0:10:{name}").client
    cloud.refuse_once("SetDesiredCapacity", code, "said AWS", status, retry_after="90")
    with pytest.raises(error, match=f"SetDesiredCapacity: {code}: said AWS") as raised:
        client.increase_size(name, 1, 2)
    assert (raised.value.group_id, raised.value.provider) == (name, "aws")
    assert getattr(raised.value, "retry_after", 90) == 90
    assert cloud.calls["SetDesiredCapacity"] == 1
    assert cloud.group(name)["DesiredCapacity"] == 1


@pytest.mark.parametrize(
    ("code", "scope"),
    [
        ("VcpuLimitExceeded", FailureScope.INSTANCE_TYPE),
        ("MaxSpotInstanceCountExceeded", FailureScope.GROUP),
        ("InsufficientInstanceCapacity", FailureScope.GROUP),
    ],
)
def test_a_refused_call_reaches_as_far_as_a_failed_launch(
    cloud: AwsCloud, attach: Attach, code: str, scope: FailureScope
) -> None:
    name = cloud.add_group(size=1)
    client = attach(f"0:10:{name}").client
    cloud.refuse_once("SetDesiredCapacity", code, "said AWS", 400)
    with pytest.raises(Shortage) as raised:
        client.increase_size(name, 1, 2)
    assert raised.value.scope is scope is classify_launch(code)[1]


@pytest.mark.parametrize("code", ["Throttling", "ScalingActivityInProgress"])
def test_a_busy_cloud_is_asked_again(cloud: AwsCloud, attach: Attach, code: str) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}")
    started = stage.clock.now()
    cloud.refuse_once("SetDesiredCapacity", code, "later", 400)
    assert stage.client.increase_size(name, 1, 2) == 1
    assert (cloud.calls["SetDesiredCapacity"], cloud.group(name)["DesiredCapacity"]) == (2, 2)
    assert stage.clock.now() - started == 1


def test_reads_are_repeated_by_the_core_alone(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}", refresh_interval=0)
    before = cloud.calls["DescribeAutoScalingGroups"]
    for _ in range(4):
        cloud.refuse_once("DescribeAutoScalingGroups", "InternalFailure", "oops", 500)
    with pytest.raises(ProviderUnavailable, match="InternalFailure"):
        stage.client.refresh()
    assert cloud.calls["DescribeAutoScalingGroups"] == before + 4


@pytest.mark.parametrize("is_date", [False, True])
def test_a_pause_is_seconds_or_a_date(cloud: AwsCloud, attach: Attach, is_date: bool) -> None:
    stage = attach(f"0:10:{cloud.add_group(size=1)}", refresh_interval=0)
    asked = formatdate(stage.clock.now() + 7, usegmt=True) if is_date else "7"
    cloud.refuse_once("DescribeAutoScalingGroups", "Throttling", "Rate exceeded", retry_after=asked)
    started = stage.clock.now()
    stage.client.refresh()
    assert stage.clock.now() - started == 7


def test_the_narrower_of_both_maxima_holds(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1, MaxSize=3)
    client = attach(f"0:10:{name}").client
    with pytest.raises(ProviderError, match=f"4 is above MaxSize 3 of {name}"):
        client.increase_size(name, 1, 4)
    assert "SetDesiredCapacity" not in cloud.calls


def test_a_manual_change_is_told_with_the_size_that_is(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=2)
    client = attach(f"0:10:{name}").client
    cloud.set_target(name, 5)
    with pytest.raises(TargetChanged) as changed:
        client.increase_size(name, 2, 3)
    assert changed.value.actual == 5
    assert client.target_size(name) == 5


def test_lifecycle_states(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=4)
    states = ["InService", "Pending:Wait", "Terminating:Wait", "Standby"]
    for one, state in zip(cloud.group(name)["Instances"], states, strict=True):
        cloud.set_state(one["InstanceId"], state)
    client = attach(f"0:10:{name}").client
    expected = [InstanceState.RUNNING, InstanceState.CREATING, InstanceState.DELETING, InstanceState.RUNNING]
    assert [one.state for one in client.instances(name)] == expected


@pytest.mark.parametrize("state", ["Pending", "Pending:Wait"])
def test_only_what_aws_lets_us_protect_is_protected(cloud: AwsCloud, attach: Attach, state: str) -> None:
    """A part of what was requested is still starting when the rest is withdrawn."""
    name = cloud.add_group(size=3)
    cloud.hold(name)
    starting, *others = (one["InstanceId"] for one in cloud.instances(name))
    cloud.set_state(starting, state)
    client = attach(f"0:10:{name}").client
    client.increase_size(name, 3, 5)
    assert client.decrease_target_size(name, 5, 3) == 2
    protected = {one["InstanceId"] for one in cloud.instances(name) if one["ProtectedFromScaleIn"]}
    assert protected == set(others)
    assert cloud.group(name)["DesiredCapacity"] == 3


def test_an_instance_that_leaves_service_at_the_last_moment_is_left_out(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=2)
    cloud.hold(name)
    [leaving, _] = (one["InstanceId"] for one in cloud.instances(name))
    client = attach(f"0:10:{name}").client
    client.increase_size(name, 2, 4)
    said = f"The instance {leaving} is not in InService or EnteringStandby or Standby."
    cloud.refuse_once("SetInstanceProtection", "ValidationError", said)
    assert client.decrease_target_size(name, 4, 2) == 2
    assert cloud.group(name)["DesiredCapacity"] == 2


@pytest.mark.parametrize("counted", ["WeightedCapacity", "vcpu", "memory-mib"])
def test_a_size_that_counts_no_machines_is_never_written(cloud: AwsCloud, attach: Attach, counted: str) -> None:
    weight = {"WeightedCapacity": "2"} if counted == "WeightedCapacity" else {}
    name = cloud.add_group(size=2, MixedInstancesPolicy=_policy(cloud, weight))
    if not weight:
        cloud.set_member(name, "DesiredCapacityType", counted)
    client = attach(f"0:10:{name}").client
    size = cloud.group(name)["DesiredCapacity"]
    [machine, *_] = client.instances(name)
    writes: tuple[Callable[[], object], ...] = (
        lambda: client.increase_size(name, size, size + 1),
        lambda: client.decrease_target_size(name, size, size - 1),
        lambda: client.delete_instances(name, [machine.id], size),
    )
    before = cloud.machines(name)
    for write in writes:
        with pytest.raises(ProviderError, match=f"counts {counted}, not machines") as refused:
            write()
        assert refused.value.code == "sizeCountsNoMachines"
    assert (cloud.group(name)["DesiredCapacity"], cloud.machines(name)) == (size, before)


def test_a_size_in_units_without_weights_counts_machines(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(MixedInstancesPolicy=_policy(cloud, {"WeightedCapacity": "1"}))
    cloud.set_member(name, "DesiredCapacityType", "units")
    assert attach(f"0:10:{name}").client.increase_size(name, 0, 1) == 1


def _policy(cloud: AwsCloud, weight: dict[str, str]) -> dict[str, Any]:
    template = {"LaunchTemplateName": cloud.add_template(), "Version": "$Latest"}
    overrides = [{"InstanceType": "m5.large", **weight}]
    return {"LaunchTemplate": {"LaunchTemplateSpecification": template, "Overrides": overrides}}
