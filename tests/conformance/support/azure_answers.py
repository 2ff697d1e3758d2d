"""Azure as the cases tell it: every answer is given beforehand."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import Any

import msgspec

from nodewright.spec import ApiCalls, NodeGroupNotFound, ProviderContext, ProviderError
from nodewright.testkit import FakeClock
from nodewright_azure.agent_pools import AgentPool, sizes_of
from nodewright_azure.api import Api
from nodewright_azure.provider import AzureProvider
from nodewright_azure.shapes import (
    AutoscaleSetting,
    InstanceView,
    Lock,
    Machine,
    ResourceSku,
    RetailPrice,
    RolePermissions,
    ScaleSet,
    Status,
)


class AnsweredApi(Api):
    """Answers from the input of one case."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self.sets = [_read_set(one) for one in given.get("virtualMachineScaleSets", [])]
        self.listed = msgspec.convert(given.get("virtualMachineScaleSetVMs", []), list[Machine])

    def place(self) -> str:
        return "the case"

    def scale_sets(self) -> Sequence[ScaleSet]:
        return self.sets

    def scale_set(self, name: str) -> ScaleSet:
        found = next((one for one in self.sets if one.key == name.lower()), None)
        if found is None:
            raise NodeGroupNotFound(f"the case has no set {name}")
        return found

    def machines(self, name: str) -> Sequence[Machine]:
        del name
        return self.listed

    def pool_sizes(self) -> Sequence[ScaleSet]:
        """The agent pool of a case has as many sizes as the case asks for."""
        told, size = self._given.get("agentPool"), self._given.get("sku")
        if told is None:
            return ()
        scale = {"virtualMachinesProfile": {"scale": {"manual": [{"size": size, "count": 0}]}}}
        properties = {"properties": {**told["properties"], **scale}} if "properties" in told else {}
        return tuple(sizes_of(msgspec.convert({**told, **properties}, AgentPool), self._given["location"]))

    def loose_machines(self) -> Sequence[Machine]:
        """The cases list the machines of one set, and do not say whose they are."""
        owned = [_belonging(one, self.sets[0].id) for one in self._given.get("virtualMachines", [])]
        return msgspec.convert(owned, list[Machine])

    def machine_view(self, name: str) -> InstanceView:
        raise NodeGroupNotFound(name)

    def problems(self, name: str) -> Sequence[Status]:
        del name
        return ()

    def skus(self, location: str) -> Sequence[ResourceSku]:
        found = self._given.get("resourceSkus", [])
        return msgspec.convert([one for one in found if location in one.get("locations", [])], list[ResourceSku])

    def within(self, seconds: float) -> AbstractContextManager[None]:  # noqa: ARG002 - no answer takes any time
        return nullcontext()

    # What no case asks for

    def made(self) -> Sequence[ApiCalls]:
        raise _untold("made")

    def retail_prices(self, location: str, sizes: Sequence[str]) -> Sequence[RetailPrice]:
        raise _untold("retail_prices", location, *sizes)

    def resize(self, scale_set: ScaleSet, capacity: int) -> ScaleSet:
        raise _untold("resize", scale_set.name, str(capacity))

    def delete(self, name: str, numbers: Sequence[str], *, force: bool = False) -> None:
        raise _untold("delete", name, *numbers, str(force))

    def cluster_grants(self) -> Sequence[RolePermissions]:
        raise _untold("cluster_grants")

    def probe_operations(self, service: str, location: str) -> None:
        raise _untold("probe_operations", service, location)

    def grants(self) -> Sequence[RolePermissions]:
        raise _untold("grants")

    def locks(self) -> Sequence[Lock]:
        raise _untold("locks")

    def autoscale_settings(self) -> Sequence[AutoscaleSetting]:
        raise _untold("autoscale_settings")


def make_provider(api: AnsweredApi, *nodes: str, discoveries: Sequence[str] = (), **options: Any) -> AzureProvider:
    """The plugin as it is, before a resource group that answers from the case."""
    context = ProviderContext(
        clock=FakeClock(),
        random=Random(0),
        options={"subscription_id": "s", "resource_group": "rg", "refresh_interval": 0, **options},
        node_group_specs=nodes,
        auto_discovery_specs=tuple(discoveries),
    )
    return AzureProvider(context, api)


def _read_set(one: Mapping[str, Any]) -> ScaleSet:
    return msgspec.convert(one, ScaleSet)


def _belonging(machine: Mapping[str, Any], owner: str) -> dict[str, Any]:
    properties = {**machine.get("properties", {}), "virtualMachineScaleSet": {"id": owner}}
    return {**machine, "properties": properties}


def _untold(*call: str) -> ProviderError:
    return ProviderError(f"the cases do not tell what {' '.join(call)} would answer")
