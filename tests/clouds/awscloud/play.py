"""The engine on AWS, with kubelets played for the instances that moto lists."""

from collections.abc import Mapping
from random import Random
from typing import Any

from awscloud.cloud import AwsCloud
from engine_play import CHEAP, DEAR, EnginePlay, PlayedKubelets, with_simulation
from nodewright.spec import NewNodeGroup, NodeGroup, ProviderContext, ProviderInfo, hookimpl
from nodewright.testkit import FakeClock
from nodewright_aws.provider import AwsProvider

QUOTA = "You have requested more vCPU capacity than your current vCPU limit of 8 allows for the instance bucket."


class PlayedAws(PlayedKubelets, AwsProvider):
    """The plugin as it is; kubelets are played for the instances that moto lists."""

    @hookimpl
    def provider_info(self) -> ProviderInfo:
        return with_simulation(super().provider_info())

    @hookimpl
    def create_node_group(self, spec: NewNodeGroup) -> NodeGroup:
        made = super().create_node_group(spec)
        self._played_groups = tuple(dict.fromkeys((*self._played_groups, made.id)))
        return made


class AwsPlay(EnginePlay):
    """The engine on AWS."""

    def __init__(
        self, cloud: AwsCloud, clock: FakeClock, options: Mapping[str, Any] | None = None, **play: Any
    ) -> None:
        self.cloud = cloud
        kinds = {CHEAP: "m5.large", DEAR: "c5.large"}
        names = {
            role: cloud.add_group(LaunchTemplate={"LaunchTemplateName": cloud.add_template(kind), "Version": "1"})
            for role, kind in kinds.items()
        }
        prices = {"m5.large": 0.1, "c5.large": 0.2}
        context = ProviderContext(
            clock=clock,
            random=Random(1),
            options={**cloud.options, "prices_per_hour": prices, **(options or {})},
            node_group_specs=tuple(f"0:10:{name}" for name in names.values()),
        )
        plugin = PlayedAws(context)
        plugin.play_kubelets(clock, cloud.machines, tuple(names.values()))
        super().__init__("aws", plugin, clock, names, **play)

    def sizes(self) -> dict[str, int]:
        return {role: self.cloud.group(name)["DesiredCapacity"] for role, name in self.names.items()}
