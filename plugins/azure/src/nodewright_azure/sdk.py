"""Implements the calls of ``api.py`` with azure-mgmt-compute, which is imported at the first call.

Long operations are started, and no call waits for their end: the sets and machines show how they ended. Why one failed is
read afterwards.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import quote, urlencode

from nodewright.spec import ApiCalls, Clock, ProviderError
from nodewright.spec.cache import attempt
from nodewright.spec.exchanges import Exchanges
from nodewright.spec.meter import Meter
from nodewright_azure.account import Account, Cluster
from nodewright_azure.agent_pools import split_name
from nodewright_azure.aks import Aks
from nodewright_azure.calls import Calls, convert
from nodewright_azure.operations import Operations
from nodewright_azure.options import Options
from nodewright_azure.session import Session
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

_SETS = "virtualMachineScaleSets"
_CHINA = "AZURE_CHINA_CLOUD"
# The most pages of the price list that are read: a page has 100 meters, and a size some six.
_PRICE_PAGES = 20
# An operation that never was, and a version of each service's API that knows operations.
_NO_OPERATION = "00000000-0000-0000-0000-000000000000"
_PROBED = {"Microsoft.Compute": "2024-07-01", "Microsoft.ContainerService": "2024-09-01"}
# Paths for which azure-mgmt-compute has no operation; its client sends these requests too.
_AUTHORIZATION = "Microsoft.Authorization/permissions?api-version=2022-04-01"
_LOCKS = "Microsoft.Authorization/locks?api-version=2020-05-01"
_AUTOSCALE = "Microsoft.Insights/autoscaleSettings?api-version=2022-10-01"


class Sdk:
    """One resource group, through the SDK. Thread-safe."""

    def __init__(self, account: Account, options: Options, clock: Clock, exchanges: Exchanges | None = None) -> None:
        self._meter = Meter(clock, options.api_calls_per_minute)
        self._account = account
        self._session = Session(account, options, exchanges)
        self._prices_endpoint = options.retail_prices_endpoint.rstrip("/")
        self._calls = Calls(self._meter, clock, self.place())
        self._operations = Operations(self._calls)
        self._aks = self._make_aks(account.cluster, clock) if account.cluster is not None else None

    def __repr__(self) -> str:
        return f"Sdk({self.place()})"

    def _make_aks(self, cluster: Cluster, clock: Clock) -> Aks:
        place = f"cluster {cluster.name} of resource group {cluster.resource_group}"
        return Aks(cluster, self._session, Calls(self._meter, clock, place), self._operations)

    def made(self) -> Sequence[ApiCalls]:
        return self._meter.made()

    def within(self, seconds: float) -> AbstractContextManager[None]:
        return self._meter.within(seconds)

    def place(self) -> str:
        return f"resource group {self._account.resource_group} of subscription {self._account.subscription_id}"

    # Reads

    def scale_sets(self) -> Sequence[ScaleSet]:
        pages = self._sets().list(self._account.resource_group)
        return self._calls.listed(f"{_SETS}.list", pages, ScaleSet)

    def pool_sizes(self) -> Sequence[ScaleSet]:
        return self._aks.sizes() if self._aks is not None else ()

    def scale_set(self, name: str) -> ScaleSet:
        aks = self._serving(name)
        if aks is not None:
            return aks.size(name)
        group = self._account.resource_group
        found = self._calls.call(
            f"{_SETS}.get", lambda: self._sets().get(group, name).as_dict(), about=name, urgent=True
        )
        return convert(found, ScaleSet)

    def machines(self, name: str) -> Sequence[Machine]:
        client = self._client()
        pages = client.virtual_machine_scale_set_vms.list(self._account.resource_group, name, expand="instanceView")
        return self._calls.listed("virtualMachineScaleSetVMs.list", pages, Machine, about=name)

    def loose_machines(self) -> Sequence[Machine]:
        pages = self._client().virtual_machines.list(self._account.resource_group)
        return self._calls.listed("virtualMachines.list", pages, Machine)

    def machine_view(self, name: str) -> InstanceView:
        group, machines = self._account.resource_group, self._client().virtual_machines
        view = self._calls.call(
            "virtualMachines.instanceView", lambda: machines.instance_view(group, name).as_dict(), about=name
        )
        return convert(view, InstanceView)

    def problems(self, name: str) -> Sequence[Status]:
        told = attempt(lambda: self._operations.problem(name, self._client))
        if told is not None and not isinstance(told, ProviderError):
            return (told,)
        if self._serving(name) is not None:
            return ()
        group = self._account.resource_group
        view = self._calls.call(
            f"{_SETS}.getInstanceView", lambda: self._sets().get_instance_view(group, name).as_dict(), about=name
        )
        return convert(view.get("statuses", []), list[Status])

    def probe_operations(self, service: str, location: str) -> None:
        place = f"/subscriptions/{self._account.subscription_id}/providers/{service}/locations/{location}"
        self._operations.ask(f"{place}/operations/{_NO_OPERATION}?api-version={_PROBED[service]}", self._client)

    def skus(self, location: str) -> Sequence[ResourceSku]:
        pages = self._client().resource_skus.list(filter=f"location eq '{location}'")
        return self._calls.listed("resourceSkus.list", pages, ResourceSku)

    def retail_prices(self, location: str, sizes: Sequence[str]) -> Sequence[RetailPrice]:
        """Read the list page by page. It is public: no credentials are sent."""
        from azure.core.rest import HttpRequest  # noqa: PLC0415 - the SDK is heavy, see the module's first line

        if self._account.cloud == _CHINA:
            raise ProviderError(f"{_CHINA} has no list of retail prices that is read by size", code="noPriceList")
        named = " or ".join(f"armSkuName eq '{size}'" for size in sizes)
        wanted = f"serviceName eq 'Virtual Machines' and armRegionName eq '{location}' and ({named})"
        query = urlencode({"$filter": wanted}, quote_via=quote)
        request = HttpRequest("GET", f"{self._prices_endpoint}/api/retail/prices?{query}")
        found: list[RetailPrice] = []
        for _ in range(_PRICE_PAGES):

            def send(request: Any = request) -> Any:
                answer = self._session.prices().send_request(request)
                answer.raise_for_status()
                return answer.json()

            answer = self._calls.call("retailPrices.list", send)
            found += convert(answer.get("Items", []), list[RetailPrice])
            link = answer.get("NextPageLink") or ""
            if not link.startswith(self._prices_endpoint):
                break
            request = HttpRequest("GET", link)
        return found

    # Writes

    def resize(self, scale_set: ScaleSet, capacity: int) -> ScaleSet:
        aks = self._serving(scale_set.name)
        return aks.resize(scale_set, capacity) if aks is not None else self._resize(scale_set, capacity)

    def _resize(self, scale_set: ScaleSet, capacity: int) -> ScaleSet:
        from azure.core import MatchConditions  # noqa: PLC0415 - the SDK is heavy, see the module's first line

        assert scale_set.sku is not None
        sku = {"name": scale_set.sku.name, "tier": scale_set.sku.tier, "capacity": capacity}
        body = {"sku": {key: value for key, value in sku.items() if value is not None}}
        unchanged: dict[str, Any] = {}
        if scale_set.etag is not None:
            unchanged = {"etag": scale_set.etag, "match_condition": MatchConditions.IfNotModified}

        def start() -> Any:
            group = self._account.resource_group
            begun = self._sets().begin_update(
                group, scale_set.name, body, polling=False, **unchanged, **self._operations.following(scale_set.name)
            )
            return begun.result().as_dict()

        return convert(self._calls.call(f"{_SETS}.update", start, about=scale_set.name, urgent=True), ScaleSet)

    def delete(self, name: str, numbers: Sequence[str], *, force: bool = False) -> None:
        aks = self._serving(name)
        if aks is not None:
            aks.delete(name, numbers)
            return
        body = {"instanceIds": list(numbers)}
        forced: dict[str, Any] = {"force_deletion": True} if force else {}

        def start() -> None:
            group = self._account.resource_group
            self._sets().begin_delete_instances(group, name, body, polling=False, **forced)

        self._calls.call(f"{_SETS}.deleteInstances", start, about=name, urgent=True)

    # Permissions and other writers

    def grants(self) -> Sequence[RolePermissions]:
        return convert(self._get("permissions.list", _AUTHORIZATION), list[RolePermissions])

    def cluster_grants(self) -> Sequence[RolePermissions]:
        cluster = self._account.cluster
        group = cluster.resource_group if cluster is not None else ""
        return convert(self._get("permissions.list", _AUTHORIZATION, group), list[RolePermissions])

    def locks(self) -> Sequence[Lock]:
        return convert(self._get("locks.list", _LOCKS), list[Lock])

    def autoscale_settings(self) -> Sequence[AutoscaleSetting]:
        return convert(self._get("autoscaleSettings.list", _AUTOSCALE), list[AutoscaleSetting])

    # Helpers

    def _get(self, operation: str, path: str, group: str = "") -> list[Any]:
        """Return all values of a list of the resource group for which the SDK has no method."""
        from azure.core.rest import HttpRequest  # noqa: PLC0415 - the SDK is heavy, see the module's first line

        account = self._account
        group = group or account.resource_group
        url = f"/subscriptions/{account.subscription_id}/resourceGroups/{group}/providers/{path}"
        found: list[Any] = []
        while url:
            request = HttpRequest("GET", url)

            def send(request: Any = request) -> Any:
                answer = self._client().send_request(request)
                answer.raise_for_status()
                return answer.json()

            answer = self._calls.call(operation, send)
            found += answer.get("value", [])
            url = answer.get("nextLink") or ""
        return found

    def _serving(self, name: str) -> Aks | None:
        """Return AKS for groups of VM pools, whose names contain a slash; None for scale sets, whose names do not."""
        return self._aks if split_name(name) is not None else None

    def _sets(self) -> Any:
        return self._client().virtual_machine_scale_sets

    def _client(self) -> Any:
        return self._session.compute()
