"""The engine on Compute Engine, with kubelets played for the machines that the cloud has."""

from collections.abc import Mapping
from typing import Any

from engine_play import CHEAP, DEAR, EnginePlay
from gcecloud.cloud import GceCloud
from nodewright.testkit import FakeClock
from nodewright_gce.provider import GceProvider

QUOTA = ("QUOTA_EXCEEDED", "Quota 'CPUS' exceeded. Limit: 8.0 in region us-east1.")


class GcePlay(EnginePlay):
    """The engine on Compute Engine."""

    def __init__(
        self, cloud: GceCloud, clock: FakeClock, options: Mapping[str, Any] | None = None, **play: Any
    ) -> None:
        self.cloud = cloud
        kinds = {CHEAP: "e2-standard-2", DEAR: "n2-custom-2-8192"}
        names = {role: cloud.add_group(template=cloud.add_template(machine_type=kind)) for role, kind in kinds.items()}
        options = {"endpoints": cloud.endpoints, **(options or {})}
        # Machines that never come are left twice the provision time.
        super().__init__("gce", GceProvider, cloud, clock, names, options, **{"end": 2400.0, **play})

    def sizes(self) -> dict[str, int]:
        return {role: self.cloud.group(name).target for role, name in self.names.items()}
