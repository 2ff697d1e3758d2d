"""The engine on Compute Engine, with kubelets played for the machines that the cloud has."""

from collections.abc import Mapping
from random import Random
from typing import Any

from engine_play import CHEAP, DEAR, EnginePlay, PlayedKubelets, with_simulation
from gcecloud.cloud import GceCloud
from nodewright.spec import ProviderContext, ProviderInfo, hookimpl
from nodewright.testkit import FakeClock
from nodewright_gce.provider import GceProvider

QUOTA = ("QUOTA_EXCEEDED", "Quota 'CPUS' exceeded. Limit: 8.0 in region us-east1.")


class PlayedGce(PlayedKubelets, GceProvider):
    """The plugin as it is; kubelets are played for the machines that the cloud has."""

    @hookimpl
    def provider_info(self) -> ProviderInfo:
        return with_simulation(super().provider_info())


class GcePlay(EnginePlay):
    """The engine on Compute Engine."""

    def __init__(
        self, cloud: GceCloud, clock: FakeClock, options: Mapping[str, Any] | None = None, **play: Any
    ) -> None:
        self.cloud = cloud
        kinds = {CHEAP: "e2-standard-2", DEAR: "n2-custom-2-8192"}
        names = {role: cloud.add_group(template=cloud.add_template(machine_type=kind)) for role, kind in kinds.items()}
        context = ProviderContext(
            clock=clock,
            random=Random(1),
            options={"endpoints": cloud.endpoints, **(options or {})},
            node_group_specs=tuple(f"0:10:{name}" for name in names.values()),
        )
        plugin = PlayedGce(context)
        plugin.play_kubelets(clock, cloud.machines, tuple(names.values()))
        # Machines that never come are left twice the provision time.
        super().__init__("gce", plugin, clock, names, **{"end": 2400.0, **play})

    def sizes(self) -> dict[str, int]:
        return {role: self.cloud.group(name).target for role, name in self.names.items()}
