"""The engine on AWS, with kubelets played for the instances that moto lists."""

from collections.abc import Iterable, Mapping
from typing import Any

from awscloud.cloud import AwsCloud
from engine_play import CHEAP, DEAR, EnginePlay
from nodewright.testkit import FakeClock
from nodewright_aws.provider import AwsProvider

QUOTA = "You have requested more vCPU capacity than your current vCPU limit of 8 allows for the instance bucket."


class AwsPlay(EnginePlay):
    """The engine on AWS."""

    def __init__(
        self, cloud: AwsCloud, clock: FakeClock, options: Mapping[str, Any] | None = None, **play: Any
    ) -> None:
        self.cloud = cloud
        kinds = {CHEAP: "m5.large", DEAR: "x2gd.large"}  # of two limits of vCPUs
        names = {
            role: cloud.add_group(LaunchTemplate={"LaunchTemplateName": cloud.add_template(kind), "Version": "1"})
            for role, kind in kinds.items()
        }
        prices = {"m5.large": 0.1, "x2gd.large": 0.2}
        options = {**cloud.options, "prices_per_hour": prices, **(options or {})}
        super().__init__("aws", AwsProvider, cloud, clock, names, options, **play)

    def groups(self) -> Iterable[str]:
        made = (name for name in self.cloud.group_names() if name.startswith("nap-"))
        return (*self.names.values(), *made)

    def sizes(self) -> dict[str, int]:
        return {role: self.cloud.group(name)["DesiredCapacity"] for role, name in self.names.items()}
