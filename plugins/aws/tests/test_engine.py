"""The whole engine against AWS over HTTP, on virtual time: what the failure scenarios look like there."""

import math
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import pytest

from awscloud import AwsCloud, MotoServer
from awscloud.cloud import REGION
from nodewright.adapters.provider import CallSettings, InlineRunner, connect_provider
from nodewright.adapters.simulated.controllers import Deployment
from nodewright.adapters.simulated.result import SimulationResult
from nodewright.adapters.simulated.simulation import RunOptions, Simulation
from nodewright.engine.autoscaler import Brain
from nodewright.model.settings import ScaleUpSettings, Settings
from nodewright.spec import Capability, NodeStart, ProviderContext, ProviderInfo, hookimpl
from nodewright.testkit import FakeClock, build_pod
from nodewright_aws.provider import AwsProvider

QUOTA = "You have requested more vCPU capacity than your current vCPU limit of 8 allows for the instance bucket."
_CHEAP, _DEAR = "cheap", "dear"


class PlayedAws(AwsProvider):
    """The plugin as it is; kubelets are played for the instances that moto lists."""

    def __init__(self, context: ProviderContext, cloud: AwsCloud, groups: Sequence[str]) -> None:
        super().__init__(context)
        self._cloud = cloud
        self._played = groups
        self._since: dict[str, float] = {}
        self._clock = context.clock

    @hookimpl
    def provider_info(self) -> ProviderInfo:
        info = super().provider_info()
        return ProviderInfo(name="aws", capabilities=info.capabilities | {Capability.SIMULATION})

    @hookimpl
    def running_machines(self) -> Sequence[NodeStart]:
        return [
            NodeStart(
                instance_id=machine,
                group_id=group,
                node_name=machine.rpartition("/")[2],
                running_since=self._since.setdefault(machine, self._clock.now()),
                register_after_seconds=30.0,
            )
            for group in self._played
            for machine in sorted(self._cloud.machines(group))
        ]

    @hookimpl
    def node_start(self, instance_id: str) -> NodeStart:
        return next(start for start in self.running_machines() if start.instance_id == instance_id)

    @hookimpl
    def next_change(self) -> float:
        return math.inf


class Play:
    """Two groups, one cheap and one dear, and pods that want three machines."""

    def __init__(self, cloud: AwsCloud, clock: FakeClock) -> None:
        self.cloud = cloud
        kinds = {_CHEAP: "m5.large", _DEAR: "c5.large"}
        self.names = {
            role: cloud.add_group(LaunchTemplate={"LaunchTemplateName": cloud.add_template(kind), "Version": "1"})
            for role, kind in kinds.items()
        }
        endpoints = dict.fromkeys(("autoscaling", "ec2", "eks", "iam", "sts"), cloud.proxy.url)
        prices = {"m5.large": 0.1, "c5.large": 0.2}
        context = ProviderContext(
            clock=clock,
            random=Random(1),
            options={"region": REGION, "endpoints": endpoints, "prices_per_hour": prices},
            node_group_specs=tuple(f"0:10:{name}" for name in self.names.values()),
        )
        plugin = PlayedAws(context, cloud, tuple(self.names.values()))
        calls = CallSettings(deadline_seconds=60.0)
        client = connect_provider("aws", plugin, clock=clock, runner=InlineRunner(clock), settings=calls)
        settings = Settings(scale_up=ScaleUpSettings(expander="price"))
        options = RunOptions(end=1500.0, settings=settings, brain=Brain(strict=True))
        self._simulation = Simulation(clock, [client], options)
        web = Deployment(self._simulation.cluster, "web", build_pod("web", cpu="1500m", unschedulable=False))
        self._simulation.agenda.at(5.0, lambda at: web.scale(3, at))

    def at(self, moment: float, happening: Callable[[], object]) -> None:
        def happen(_: float) -> None:
            happening()

        self._simulation.agenda.at(moment, happen)

    def run(self) -> SimulationResult:
        """Every pod runs in the end, or the test says why not."""
        return self._simulation.run()

    def sizes(self) -> dict[str, int]:
        return {role: self.cloud.group(name)["DesiredCapacity"] for role, name in self.names.items()}


@pytest.fixture
def play(moto: MotoServer) -> Iterator[Play]:
    clock = FakeClock()
    cloud = AwsCloud(moto.port, clock.now)
    yield Play(cloud, clock)
    cloud.close()


def test_a_stock_out_moves_the_pods_to_the_next_group(play: Play) -> None:
    play.cloud.limit(play.names[_CHEAP], 1)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == {_CHEAP: 1, _DEAR: 2}
    assert len(play.cloud.machines(play.names[_CHEAP])) == 1


def test_a_quota_does_too(play: Play) -> None:
    cheap = play.names[_CHEAP]
    play.cloud.hold(cheap)
    play.cloud.before_write(lambda: play.cloud.fail(cheap, QUOTA))
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes()[_DEAR] == 3
    assert play.sizes()[_CHEAP] == 0


def test_without_detection_the_time_out_does(play: Play) -> None:
    play.cloud.deny("DescribeScalingActivities")
    play.cloud.limit(play.names[_CHEAP], 0)
    result = play.run()
    assert result.final.pending == 0
    assert play.sizes() == {_CHEAP: 0, _DEAR: 3}


@pytest.mark.parametrize("trouble", ["lost answer", "throttling storm", "expired credentials", "internal errors"])
def test_trouble_with_calls_buys_nothing_twice(play: Play, trouble: str) -> None:
    cloud = play.cloud
    if trouble == "lost answer":
        cloud.lose_answer_once("SetDesiredCapacity")
    elif trouble == "throttling storm":
        storm = {"DescribeAutoScalingGroups": 6, "DescribeLaunchTemplateVersions": 6, "SetDesiredCapacity": 2}
        for action, times in storm.items():
            for _ in range(times):
                cloud.refuse_once(action, "Throttling", "Rate exceeded")
    elif trouble == "expired credentials":
        for _ in range(3):
            cloud.refuse_once("DescribeAutoScalingGroups", "ExpiredToken", "The security token is expired", 403)
    else:
        for _ in range(6):
            cloud.refuse_once("DescribeAutoScalingGroups", "InternalFailure", "oops", 500)
    result = play.run()
    assert result.final.pending == 0
    assert sum(len(cloud.machines(name)) for name in play.names.values()) == 3
    assert sum(play.sizes().values()) == 3


def test_somebody_elses_resize_is_neither_undone_nor_harmful(play: Play) -> None:
    cheap = play.names[_CHEAP]
    there: list[Any] = []
    play.at(200.0, lambda: there.append(play.cloud.machines(cheap)))
    play.at(210.0, lambda: play.cloud.set_target(cheap, 4))
    result = play.run()
    assert result.final.pending == 0
    assert there[0] <= play.cloud.machines(cheap)
    assert play.sizes()[_CHEAP] == 4
