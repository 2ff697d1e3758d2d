"""The whole engine against AWS over HTTP, on virtual time: what the failure scenarios look like there."""

from collections.abc import Iterator
from typing import Any

import pytest

from awscloud import AwsCloud, MotoServer
from awscloud.play import QUOTA, AwsPlay
from engine_play import CHEAP, DEAR, told
from nodewright.testkit import FakeClock


@pytest.fixture
def play(moto: MotoServer) -> Iterator[AwsPlay]:
    clock = FakeClock()
    cloud = AwsCloud(moto.port, clock.now)
    yield AwsPlay(cloud, clock)
    cloud.close()


def test_a_stock_out_moves_the_pods_to_the_next_group(play: AwsPlay) -> None:
    play.cloud.limit(play.names[CHEAP], 1)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == {CHEAP: 1, DEAR: 2}
    assert len(play.cloud.machines(play.names[CHEAP])) == 1


@pytest.mark.parametrize(("retry_after", "sizes"), [("", {CHEAP: 3, DEAR: 0}), ("300", {CHEAP: 0, DEAR: 3})])
def test_one_throttled_call_costs_a_moment(play: AwsPlay, retry_after: str, sizes: dict[str, int]) -> None:
    play.cloud.refuse_once("SetDesiredCapacity", "Throttling", "Rate exceeded", retry_after=retry_after)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == sizes
    assert told(result, "FailedToScaleUpGroup") == []
    assert len(told(result, "ScaleUpDeferred")) == bool(retry_after)


def test_a_quota_does_too(play: AwsPlay) -> None:
    cheap = play.names[CHEAP]
    play.cloud.hold(cheap)
    play.cloud.before_write(lambda: play.cloud.fail(cheap, QUOTA))
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes()[DEAR] == 3
    assert play.sizes()[CHEAP] == 0


def test_without_detection_the_time_out_does(play: AwsPlay) -> None:
    play.cloud.deny("DescribeScalingActivities")
    play.cloud.limit(play.names[CHEAP], 0)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == {CHEAP: 0, DEAR: 3}


def test_listings_that_lag_buy_nothing_twice(play: AwsPlay) -> None:
    play.cloud.lag(25.0)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == {CHEAP: 3, DEAR: 0}
    assert play.cloud.calls["SetDesiredCapacity"] == 1


@pytest.mark.parametrize("trouble", ["lost answer", "throttling storm", "expired credentials", "internal errors"])
def test_trouble_with_calls_buys_nothing_twice(play: AwsPlay, trouble: str) -> None:
    cloud = play.cloud
    if trouble == "lost answer":
        cloud.lose_answer_once("SetDesiredCapacity")
    elif trouble == "throttling storm":
        storm = {"DescribeAutoScalingGroups": 6, "DescribeLaunchTemplateVersions": 6, "SetDesiredCapacity": 2}
        for action, times in storm.items():
            for _ in range(times):
                cloud.refuse_once(action, "Throttling", "Rate exceeded")
    elif trouble == "expired credentials":
        expired = ("ExpiredToken", "The security token is expired", 403)
        play.at(4.0, lambda: cloud.refuse_once("SetDesiredCapacity", *expired))
        for moment in (100.0, 101.0, 102.0):
            play.at(moment, lambda: cloud.refuse_once("DescribeAutoScalingGroups", *expired))
    else:
        for _ in range(6):
            cloud.refuse_once("DescribeAutoScalingGroups", "InternalFailure", "oops", 500)
    result = play.run()
    assert cloud.mishaps.left() == []
    assert result.final.pending == 0
    assert sum(len(cloud.machines(name)) for name in play.names.values()) == 3
    assert sum(play.sizes().values()) == 3


def test_a_machine_that_vanishes_is_replaced(play: AwsPlay) -> None:
    cheap = play.names[CHEAP]
    lost: list[str] = []

    def lose_one() -> None:
        lost.append(min(play.cloud.machines(cheap)))
        play.cloud.vanish(lost[0])

    play.at(300.0, lose_one)
    result = play.run()
    assert result.final.pending == 0
    assert len(play.cloud.machines(cheap) - set(lost)) == 3


def test_somebody_elses_resize_is_neither_undone_nor_harmful(play: AwsPlay) -> None:
    cheap = play.names[CHEAP]
    there: list[Any] = []
    sizes: list[int] = []
    play.at(200.0, lambda: there.append(play.cloud.machines(cheap)))
    play.at(210.0, lambda: play.cloud.set_target(cheap, 4))
    play.at(400.0, lambda: sizes.append(play.sizes()[CHEAP]))
    result = play.run()
    assert result.final.pending == 0
    assert there[0] <= play.cloud.machines(cheap)
    assert sizes == [4]


def test_a_group_is_made_where_no_other_has_machines(moto: MotoServer) -> None:
    """Both groups are out of stock; two machines of the new one hold all pods. AWS lists the new one on its second page."""
    clock = FakeClock()
    cloud = AwsCloud(moto.port, clock.now)
    crowd = [cloud.add_group() for _ in range(50)]
    making = {"like": cloud.add_group(), "instance_types": ["m5.xlarge"]}
    options = {"cluster": "engine", "autoprovisioning": making, "prices_per_hour": {"m5.large": 0.1, "m5.xlarge": 0.4}}
    settings = {"expander": "price", "node-autoprovisioning-enabled": True}
    play = AwsPlay(cloud, clock, options, settings=settings)
    for name in play.names.values():
        cloud.limit(name, 0)
    result = play.run()
    made = [held.group for held in result.decisions if (held.what, held.outcome) == ("create group", "done")]
    assert len(made) == 1
    assert made[0].startswith("aws/nap-engine-m5-xlarge-")
    assert result.final.pending == 0
    assert result.final.nodes == {made[0]: 2}
    for name in (*crowd, made[0].removeprefix("aws/")):
        cloud.remove_group(name)
    cloud.close()
