"""azure-mgmt-compute behind the typed face; it is imported only when Azure is really asked.

The SDK retries nothing: the core repeats reads and settles writes, and two owners of retries would multiply.
Operations that take time are started and not waited for: how they end shows in the sets and machines themselves.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from nodewright.spec import AccessDenied, Clock, NodeGroupNotFound, ProviderError, ProviderUnavailable
from nodewright.spec.meter import Meter
from nodewright_azure.account import Account
from nodewright_azure.errors import Refusal, refusal
from nodewright_azure.options import Options
from nodewright_azure.session import open_client
from nodewright_azure.shapes import AutoscaleSetting, Grant, Lock, Machine, ResourceSku, ScaleSet, Status

T = TypeVar("T")

_SETS = "virtualMachineScaleSets"
# What azure-mgmt-compute has no operation for is sent through its client all the same.
_AUTHORIZATION = "Microsoft.Authorization/permissions?api-version=2022-04-01"
_LOCKS = "Microsoft.Authorization/locks?api-version=2020-05-01"
_AUTOSCALE = "Microsoft.Insights/autoscaleSettings?api-version=2022-10-01"


class Sdk:
    """One resource group, through the SDK. Safe for threads."""

    def __init__(self, account: Account, options: Options, clock: Clock) -> None:
        self.meter = Meter(clock, options.api_calls_per_minute)
        self._account = account
        self._options = options
        self._lock = threading.Lock()
        self._opened: Any = None

    def __repr__(self) -> str:
        return f"Sdk({self.place()})"

    def place(self) -> str:
        return f"resource group {self._account.resource_group} of subscription {self._account.subscription_id}"

    # Reads

    def scale_sets(self) -> Sequence[ScaleSet]:
        pages = self._sets().list(self._account.resource_group)
        return self._listed(f"{_SETS}.list", pages, ScaleSet)

    def scale_set(self, name: str) -> ScaleSet:
        group = self._account.resource_group
        found = self._call(f"{_SETS}.get", lambda: self._sets().get(group, name).as_dict(), urgent=True)
        return _convert(found, ScaleSet)

    def machines(self, name: str) -> Sequence[Machine]:
        client = self._client()
        pages = client.virtual_machine_scale_set_vms.list(self._account.resource_group, name, expand="instanceView")
        return self._listed("virtualMachineScaleSetVMs.list", pages, Machine)

    def flexible_machines(self) -> Sequence[Machine]:
        pages = self._client().virtual_machines.list(self._account.resource_group)
        return self._listed("virtualMachines.list", pages, Machine)

    def problems(self, name: str) -> Sequence[Status]:
        group = self._account.resource_group
        view = self._call(f"{_SETS}.getInstanceView", lambda: self._sets().get_instance_view(group, name).as_dict())
        return _convert(view.get("statuses", []), list[Status])

    def skus(self, location: str) -> Sequence[ResourceSku]:
        pages = self._client().resource_skus.list(filter=f"location eq '{location}'")
        return self._listed("resourceSkus.list", pages, ResourceSku)

    # Writes

    def resize(self, scale_set: ScaleSet, capacity: int) -> ScaleSet:
        from azure.core import MatchConditions  # noqa: PLC0415 - the SDK is heavy, see the module's first line

        assert scale_set.sku is not None
        sku = {"name": scale_set.sku.name, "tier": scale_set.sku.tier, "capacity": capacity}
        body = {"sku": {key: value for key, value in sku.items() if value is not None}}
        unchanged: dict[str, Any] = {}
        if scale_set.etag is not None:
            unchanged = {"etag": scale_set.etag, "match_condition": MatchConditions.IfNotModified}

        def start() -> Any:
            group = self._account.resource_group
            return self._sets().begin_update(group, scale_set.name, body, polling=False, **unchanged).result().as_dict()

        return _convert(self._call(f"{_SETS}.update", start, urgent=True), ScaleSet)

    def delete(self, name: str, numbers: Sequence[str], *, force: bool = False) -> None:
        body = {"instanceIds": list(numbers)}
        forced: dict[str, Any] = {"force_deletion": True} if force else {}

        def start() -> None:
            group = self._account.resource_group
            self._sets().begin_delete_instances(group, name, body, polling=False, **forced)

        self._call(f"{_SETS}.deleteInstances", start, urgent=True)

    # Who may do what, and who else does

    def grants(self) -> Sequence[Grant]:
        return _convert(self._get("permissions.list", _AUTHORIZATION), list[Grant])

    def locks(self) -> Sequence[Lock]:
        return _convert(self._get("locks.list", _LOCKS), list[Lock])

    def autoscale_settings(self) -> Sequence[AutoscaleSetting]:
        return _convert(self._get("autoscaleSettings.list", _AUTOSCALE), list[AutoscaleSetting])

    # The calls themselves

    def _listed(self, operation: str, pages: Any, kind: type[T]) -> list[T]:
        raw = [one.as_dict() for page in self._pages(operation, pages.by_page()) for one in page]
        return _convert(raw, list[kind])  # type: ignore[valid-type]  # the type is only known when it is asked for

    def _pages(self, operation: str, pages: Any) -> Iterator[list[Any]]:
        """One call a page."""
        while True:
            yield self._call(operation, lambda: list(next(pages)))
            if not pages.continuation_token:
                return

    def _get(self, operation: str, path: str) -> list[Any]:
        """All values of a resource group's list that the SDK has no method for."""
        from azure.core.rest import HttpRequest  # noqa: PLC0415 - the SDK is heavy, see the module's first line

        account = self._account
        url = f"/subscriptions/{account.subscription_id}/resourceGroups/{account.resource_group}/providers/{path}"
        found: list[Any] = []
        while url:
            request = HttpRequest("GET", url)

            def send(request: Any = request) -> Any:
                answer = self._client().send_request(request)
                answer.raise_for_status()
                return answer.json()

            answer = self._call(operation, send)
            found += answer.get("value", [])
            url = answer.get("nextLink") or ""
        return found

    def _call(self, operation: str, call: Callable[[], T], *, urgent: bool = False) -> T:
        return self.meter.call(operation, lambda: self._send(operation, call), urgent=urgent)

    def _send(self, operation: str, call: Callable[[], T]) -> T:
        from azure.core import exceptions  # noqa: PLC0415 - the SDK is heavy, see the module's first line

        try:
            return call()
        except exceptions.HttpResponseError as error:
            raise self._translate(operation, error) from error
        except exceptions.AzureError as error:
            raise ProviderUnavailable(f"{operation} in {self.place()}: {type(error).__name__}: {error}") from error

    def _translate(self, operation: str, error: Any) -> ProviderError:
        """One that comes without an answer of Azure's is about credentials: no call was made."""
        if error.response is None:
            hint = "see the README of nodewright-azure for where credentials come from"
            return AccessDenied(f"{operation}: {error.message}; {hint}")
        model = getattr(error, "error", None)
        said = Refusal(
            status=int(error.status_code or 0),
            code=str(getattr(model, "code", "") or ""),
            message=str(getattr(model, "message", "") or error.reason or ""),
            retry_after=_seconds(error.response.headers.get("Retry-After")),
        )
        found = refusal(operation, said)
        if isinstance(found, NodeGroupNotFound):
            return NodeGroupNotFound(f"{found} (in {self.place()})")
        return found

    def _sets(self) -> Any:
        return self._client().virtual_machine_scale_sets

    def _client(self) -> Any:
        with self._lock:
            if self._opened is None:
                self._opened = open_client(self._account, self._options)
            return self._opened


def _convert(answer: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise ProviderUnavailable(f"Azure answered something unexpected: {error}") from error


def _seconds(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
