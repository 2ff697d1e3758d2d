"""Azure Resource Manager's answers: the operations that are used, each on the models of the SDK."""

import itertools
import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from azurecloud.arm_route import Refused, Route
from azurecloud.pools import ROUTES as POOL_ROUTES
from azurecloud.pools import Pools
from azurecloud.schema import check_named, check_request
from azurecloud.server import Answer, Request
from azurecloud.sets import ScaleSet, Vm

_SUBSCRIPTION = r"/subscriptions/(?P<subscription>[^/]+)"
_GROUP = rf"{_SUBSCRIPTION}/resourceGroups/(?P<group>[^/]+)/providers"
_COMPUTE = rf"{_GROUP}/Microsoft\.Compute"
_SET = rf"{_COMPUTE}/virtualMachineScaleSets/(?P<name>[^/]+)"
_SETS = "Microsoft.Compute/virtualMachineScaleSets"


_ROUTES = (
    Route("GET", rf"{_COMPUTE}/virtualMachineScaleSets", f"{_SETS}/read", "_list", "[VirtualMachineScaleSet"),
    Route("GET", _SET, f"{_SETS}/read", "_get", "VirtualMachineScaleSet"),
    Route("PATCH", _SET, f"{_SETS}/write", "_update", "VirtualMachineScaleSet", "VirtualMachineScaleSetUpdate"),
    Route(
        "POST",
        rf"{_SET}/delete",
        f"{_SETS}/delete/action",
        "_delete",
        takes="VirtualMachineScaleSetVMInstanceRequiredIDs",
    ),
    Route("GET", rf"{_SET}/virtualMachines", f"{_SETS}/virtualMachines/read", "_machines", "[VirtualMachineScaleSetVM"),
    Route("GET", rf"{_SET}/instanceView", f"{_SETS}/instanceView/read", "_view", "VirtualMachineScaleSetInstanceView"),
    Route(
        "GET", rf"{_COMPUTE}/virtualMachines", "Microsoft.Compute/virtualMachines/read", "_flexible", "[VirtualMachine"
    ),
    Route(
        "GET",
        rf"{_COMPUTE}/virtualMachines/(?P<machine>[^/]+)/instanceView",
        "Microsoft.Compute/virtualMachines/instanceView/read",
        "_machine_view",
        "VirtualMachineInstanceView",
    ),
    Route(
        "GET",
        rf"{_SUBSCRIPTION}/providers/Microsoft\.Compute/locations/[^/]+/operations/(?P<operation>[^/]+)",
        "Microsoft.Compute/locations/operations/read",
        "_tell_operation",
    ),
    Route(
        "GET",
        rf"{_SUBSCRIPTION}/providers/Microsoft\.ContainerService/locations/[^/]+/operations/(?P<operation>[^/]+)",
        "Microsoft.ContainerService/locations/operations/read",
        "_tell_operation",
    ),
    Route(
        "GET",
        rf"{_SUBSCRIPTION}/providers/Microsoft\.Compute/skus",
        "Microsoft.Compute/skus/read",
        "_list_skus",
        "[ResourceSku",
    ),
    Route("GET", rf"{_GROUP}/Microsoft\.Authorization/permissions", "", "_permissions"),
    Route("GET", rf"{_GROUP}/Microsoft\.Authorization/locks", "Microsoft.Authorization/locks/read", "_list_locks"),
    Route(
        "GET",
        rf"{_GROUP}/Microsoft\.Insights/autoscaleSettings",
        "Microsoft.Insights/autoscaleSettings/read",
        "_list_settings",
    ),
)


class Arm:
    """One resource group, and a cluster: its resource group and its name. ``findings`` are exchanges that do not fit the SDK's models."""

    def __init__(self, subscription: str, group: str, cluster: tuple[str, str], now: Callable[[], float]) -> None:
        self.subscription, self.group, self.cluster = subscription, group, cluster
        self._now = now
        self.sets: dict[str, ScaleSet] = {}
        self.skus: list[dict[str, Any]] = []
        self.locks: list[dict[str, Any]] = []
        self.autoscale: list[dict[str, Any]] = []
        self.denied: set[str] = set()
        self.findings: list[str] = []
        self.lag = 0.0
        self.wraps_errors = False
        self.page = 100
        self.base = ""
        self._operations = itertools.count(1)
        self._begun: dict[str, tuple[ScaleSet, ...]] = {}
        self.pools = Pools(now, lambda about: self._operation(about, "Microsoft.ContainerService"))
        self._routes: list[tuple[Route, Any]] = [
            *((route, self) for route in _ROUTES),
            *((route, self.pools) for route in POOL_ROUTES),
        ]

    def answer(self, request: Request) -> Answer:
        """What Azure answers; every exchange is held against the SDK's models."""
        try:
            answer = self._dispatch(request)
        except Refused as refused:
            answer = refused.answer
            self._check(answer.body, "CloudError", f"{request.method} {request.path} refused")
        return answer

    def _dispatch(self, request: Request) -> Answer:
        for (method, path, permission, play, gives, takes), player in self._routes:
            found = re.fullmatch(path, request.path, re.IGNORECASE)
            if found is None or method != request.method:
                continue
            places = ("subscription", "group", "cluster")
            self._find_place(**{key: value for key, value in found.groupdict().items() if key in places})
            if permission in self.denied:
                message = f"The client does not have authorization to perform action '{permission}'."
                raise Refused(403, "AuthorizationFailed", message)
            if gives or takes:
                self.findings += check_request(method, request.path, request.query, request.body, takes)
            named = {"name": found["name"]} if "name" in found.groupdict() else {}
            plain = {key: found[key] for key in ("machine", "operation") if key in found.groupdict()}
            found_named = {key: player.find(one) for key, one in named.items()}
            answer: Answer = getattr(player, play)(request, **found_named, **plain)
            if gives:
                self._check(answer.body, gives, f"{method} {request.path}")
            return answer
        self.findings.append(f"{request.method} {request.path}: there is no answer to that")
        raise Refused(404, "InvalidResourceType", "The resource type could not be found.")

    def _check(self, body: Any, model: str, path: str) -> None:
        values = body["value"] if model.startswith("[") else [body]
        for value in values:
            self.findings += check_named(value, model.removeprefix("["), path)

    def _find_place(self, subscription: str, group: str = "", cluster: str = "") -> None:
        if subscription.lower() != self.subscription.lower():
            raise Refused(404, "SubscriptionNotFound", f"The subscription '{subscription}' could not be found.")
        if group and group.lower() not in (self.group.lower(), self.cluster[0].lower()):
            raise Refused(404, "ResourceGroupNotFound", f"Resource group '{group}' could not be found.")
        if cluster and (group.lower(), cluster.lower()) != tuple(one.lower() for one in self.cluster):
            where = (
                f"The Resource 'Microsoft.ContainerService/managedClusters/{cluster}' under resource group '{group}'"
            )
            raise Refused(404, "ResourceNotFound", f"{where} was not found.")

    def find(self, name: str) -> ScaleSet:
        found = self.sets.get(name.lower())
        if found is None:
            where = f"The Resource '{_SETS}/{name}' under resource group '{self.group}' was not found."
            raise Refused(404, "ResourceNotFound", where)
        return found

    # Reads

    def _list(self, request: Request) -> Answer:
        at = self._now() - self.lag
        return self._paged(request, [one.body(at) for one in self.sets.values()])

    def _get(self, request: Request, name: ScaleSet) -> Answer:
        del request
        body = name.body(self._now())
        return Answer(200, body, {"ETag": body["etag"]})

    def _machines(self, request: Request, name: ScaleSet) -> Answer:
        at = self._now() - self.lag
        return self._paged(request, [self._machine(name, vm, at) for vm in name.existing(at)])

    def _flexible(self, request: Request) -> Answer:
        at, flexible = self._now() - self.lag, [one for one in self.sets.values() if one.is_flexible]
        machines = [_flexible_machine(one, vm, at) for one in flexible for vm in one.existing(at)]
        return self._paged(request, [*machines, *self.pools.machines(at)])

    def _view(self, request: Request, name: ScaleSet) -> Answer:
        del request
        body, bad = name.body(self._now()), name.trouble
        state = body["properties"]["provisioningState"].lower()
        failed = bad is not None and state == "failed"
        status: dict[str, Any] = {"code": f"ProvisioningState/{state}", "level": "Error" if failed else "Info"}
        if failed and bad is not None:
            status |= {"code": f"{status['code']}/{bad.code}", "message": bad.message}
        return Answer(200, {"statuses": [status]})

    def _machine_view(self, request: Request, machine: str) -> Answer:
        """What is told of one machine that stands alone."""
        del request
        now, pools = self._now(), self.pools.by_name.values()
        for one in (*self.sets.values(), *(size for pool in pools for size in pool.sizes.values())):
            for vm in one.existing(now):
                if one.is_flexible and one.vm_id(vm).rpartition("/")[2].lower() == machine.lower():
                    return Answer(200, {"statuses": vm.statuses(now)})
        raise Refused(
            404, "ResourceNotFound", f"The Resource 'Microsoft.Compute/virtualMachines/{machine}' was not found."
        )

    def _tell_operation(self, request: Request, operation: str) -> Answer:
        """How an operation is going, as Azure tells it at the address of ``Azure-AsyncOperation``."""
        del request
        if operation not in self._begun:
            raise Refused(404, "NotFound", f"The operation '{operation}' was not found.")
        for one in self._begun[operation]:
            state = one.body(self._now())["properties"]["provisioningState"]
            if state == "Updating":
                return Answer(200, {"name": operation, "status": "InProgress"})
            if one.trouble is not None:
                said: dict[str, Any] = {"code": one.trouble.code, "message": one.trouble.message}
                if self.wraps_errors:  # several machines failed
                    other = {"code": "OperationPreempted", "message": "another operation was started"}
                    whole = "Multiple errors occurred. Please see details."
                    said = {"code": "MultipleErrorsOccurred", "message": whole, "details": [other, said]}
                return Answer(200, {"name": operation, "status": "Failed", "error": said})
        return Answer(200, {"name": operation, "status": "Succeeded"})

    def _list_skus(self, request: Request) -> Answer:
        place = re.fullmatch(r"location eq '([^']*)'", request.query.get("$filter", ""))
        found = [one for one in self.skus if place is None or place[1] in one["locations"]]
        return self._paged(request, found)

    def _permissions(self, request: Request) -> Answer:
        everything = {"actions": ["*"], "notActions": sorted(self.denied), "dataActions": [], "notDataActions": []}
        return self._paged(request, [everything])

    def _list_locks(self, request: Request) -> Answer:
        return self._paged(request, self.locks)

    def _list_settings(self, request: Request) -> Answer:
        return self._paged(request, self.autoscale)

    def _paged(self, request: Request, values: list[dict[str, Any]]) -> Answer:
        start = int(request.query.get("$skiptoken", "0"))
        body: dict[str, Any] = {"value": values[start : start + self.page]}
        if start + self.page < len(values):
            query = {**request.query, "$skiptoken": str(start + self.page)}
            text = "&".join(f"{key.replace('$', '%24')}={value.replace(' ', '%20')}" for key, value in query.items())
            body["nextLink"] = f"{self.base}{request.path}?{text}"
        return Answer(200, body)

    def _machine(self, one: ScaleSet, vm: Vm, at: float) -> dict[str, Any]:
        return {
            "id": one.vm_id(vm),
            "name": f"{one.body(at)['name']}_{vm.number}",
            "instanceId": vm.number,
            "type": f"{_SETS}/virtualMachines",
            "location": "eastus",
            **({"zones": [vm.zone]} if vm.zone else {}),
            "properties": {
                "vmId": vm.vm_id,
                "provisioningState": vm.provisioning(at),
                "instanceView": {"statuses": vm.statuses(at), "extensions": vm.extensions()},
                **one.storage(vm),
            },
        }

    # Writes

    def _update(self, request: Request, name: ScaleSet) -> Answer:
        wanted = request.headers.get("if-match")
        if wanted is not None and wanted != name.etag:
            raise Refused(412, "PreconditionFailed", f"The condition '{wanted}' specified was not satisfied.")
        capacity = request.body["sku"]["capacity"]
        if name.leaves == "refused" and capacity > name.room:
            raise Refused(409, name.shortage.code, name.shortage.message)
        name.resize(capacity)
        body = name.history[-1][1]
        body = {**body, "properties": {**body["properties"], "provisioningState": "Updating"}}
        return Answer(200, body, self._operation((name,)))

    def _delete(self, request: Request, name: ScaleSet) -> Answer:
        gone = name.delete(request.body["instanceIds"])
        if gone:
            message = f"The provided instanceId {gone[0]} is not an active Virtual Machine Scale Set VM instanceId."
            raise Refused(400, "InvalidParameter", message)
        return Answer(202, None, self._operation((name,)))

    def _operation(self, about: tuple[ScaleSet, ...], service: str = "Microsoft.Compute") -> dict[str, str]:
        """Where an operation on these sets can be followed."""
        place = f"{self.base}/subscriptions/{self.subscription}/providers/{service}/locations/eastus"
        number = f"{next(self._operations)}-{uuid4()}"
        self._begun[number] = about
        return {
            "Azure-AsyncOperation": f"{place}/operations/{number}?api-version=2026-04-01",
            "Location": f"{place}/operationResults/{number}?api-version=2026-04-01",
            "Retry-After": "10",
        }


def _flexible_machine(one: ScaleSet, vm: Vm, at: float) -> dict[str, Any]:
    return {
        "id": one.vm_id(vm),
        "name": one.vm_id(vm).rpartition("/")[2],
        "type": "Microsoft.Compute/virtualMachines",
        "location": "eastus",
        **({"zones": [vm.zone]} if vm.zone else {}),
        "properties": {
            "vmId": vm.vm_id,
            "provisioningState": vm.provisioning(at),
            "virtualMachineScaleSet": {"id": one.id},
            **one.storage(vm),
        },
    }
