"""The engine on Azure, with kubelets played."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from azurecloud.certificates import Authority
from azurecloud.cloud import AzureCloud
from azurecloud.sets import Trouble
from engine_play import CHEAP, DEAR, EnginePlay
from nodewright.spec import hookimpl
from nodewright.testkit import FakeClock
from nodewright_azure.fleet import MachineList
from nodewright_azure.provider import AzureProvider

QUOTA = Trouble(
    "OperationNotAllowed",
    "Operation could not be completed as it results in exceeding approved standardDSv3Family Cores quota.",
)


class ForgetfulAzure(AzureProvider):
    """As if the plugin had just started before every look: it knows of no machine what it was."""

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        for key, held in self._fleet._held.items():
            self._fleet._held[key] = replace(held, machine_list=MachineList())
        return super().refresh(wanted)


class AzurePlay(EnginePlay):
    """The engine on Azure; ``cheap_pool``: the cheap group is a size of a VM pool of AKS; ``forgetful`` as the plugin above."""

    def __init__(
        self,
        authority: Authority,
        options: Mapping[str, Any] | None = None,
        *,
        cheap_pool: bool = False,
        forgetful: bool = False,
        **play: Any,
    ) -> None:
        clock = FakeClock()
        self.cloud = AzureCloud(authority, clock.now)
        add = self._add_pool if cheap_pool else self.cloud.add_set
        names = {CHEAP: add(CHEAP, size="Standard_D2s_v3"), DEAR: self.cloud.add_set(DEAR, size="Standard_F2")}
        options = {
            **(self.cloud.pool_options if cheap_pool else self.cloud.options),
            "prices_per_hour": {"Standard_D2s_v3": 0.1, "Standard_F2": 0.2},
            **(options or {}),
        }
        plugin_class = ForgetfulAzure if forgetful else AzureProvider
        super().__init__("azure", plugin_class, self.cloud, clock, names, options, **play)

    def _add_pool(self, name: str, size: str) -> str:
        return self.cloud.add_pool(name, {size: 0})

    def sizes(self) -> dict[str, int]:
        return {role: self.cloud.capacity(name) for role, name in self.names.items()}

    def living(self) -> dict[str, int]:
        return {role: len(self.cloud.machines(name)) for role, name in self.names.items()}
