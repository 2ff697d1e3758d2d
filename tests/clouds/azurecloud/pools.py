"""AKS as far as VM pools go: agent pools whose machines stand alone, each size of them with a count.

One thing at a time is done with a pool. That the count of a size falls with the machines that are deleted is what
cluster-autoscaler takes for granted; AKS does not document it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from azurecloud.arm_route import Refused, Route
from azurecloud.server import Answer, Request
from azurecloud.sets import ScaleSet, Vm, make_set

_POOLS = (
    r"/subscriptions/(?P<subscription>[^/]+)/resourceGroups/(?P<group>[^/]+)/providers"
    r"/Microsoft\.ContainerService/managedClusters/(?P<cluster>[^/]+)/agentPools"
)
_POOL = rf"{_POOLS}/(?P<name>[^/]+)"
_ACTIONS = "Microsoft.ContainerService/managedClusters/agentPools"
ROUTES = (
    Route("GET", _POOLS, f"{_ACTIONS}/read", "list_pools", "[AgentPool"),
    Route("GET", _POOL, f"{_ACTIONS}/read", "get", "AgentPool"),
    Route("PUT", _POOL, f"{_ACTIONS}/write", "put", "AgentPool", "AgentPool"),
    Route(
        "POST",
        rf"{_POOL}/deleteMachines",
        f"{_ACTIONS}/deleteMachines/action",
        "delete_machines",
        takes="AgentPoolDeleteMachinesParameter",
    ),
)


class Pool:
    """``sizes``: by the size's name in lower case, a flexible set that plays the part of its machines."""

    def __init__(self, cluster: str, nodes: str, name: str, now: Callable[[], float], told: Mapping[str, Any]) -> None:
        self.id = f"{cluster}/agentPools/{name}"
        self.name = name
        self._nodes = nodes
        self._now = now
        self._told = {"type": "VirtualMachines", "mode": "User", "osType": "Linux", **told}
        self.sizes: dict[str, ScaleSet] = {}

    def add_size(self, size: str, count: int) -> None:
        flexible = {"size": size, "properties": {"orchestrationMode": "Flexible"}}
        self.sizes[size.lower()] = one = make_set(self._nodes, f"aks-{self.name}-{size}", self._now, flexible)
        one.resize(count)
        one.settle()

    def body(self, at: float) -> dict[str, Any]:
        """As AKS would have told it then."""
        parts = [one.body(at) for one in self.sizes.values()]
        states = {part["properties"]["provisioningState"] for part in parts}
        state = next((one for one in ("Updating", "Failed") if one in states), "Succeeded")
        manual = [{"size": part["sku"]["name"], "count": part["sku"]["capacity"]} for part in parts]
        etag = ".".join(part["etag"].strip('"') for part in parts)
        scale = {"virtualMachinesProfile": {"scale": {"manual": manual}}}
        properties = {**self._told, **scale, "eTag": etag, "provisioningState": state}
        return {"id": self.id, "name": self.name, "type": _ACTIONS, "properties": properties}

    def machine(self, one: ScaleSet, vm: Vm, at: float) -> dict[str, Any]:
        """As Azure Compute lists it."""
        return {
            "id": one.vm_id(vm),
            "name": one.vm_id(vm).rpartition("/")[2],
            "type": "Microsoft.Compute/virtualMachines",
            "location": "eastus",
            "tags": {"aks-managed-poolName": self.name},
            "properties": {
                "vmId": vm.vm_id,
                "provisioningState": vm.provisioning(at),
                "hardwareProfile": {"vmSize": one.body(at)["sku"]["name"]},
            },
        }


class Pools:
    """All of one cluster. ``operation`` gives the headers of an answer to what takes time."""

    def __init__(self, now: Callable[[], float], operation: Callable[[tuple[ScaleSet, ...]], dict[str, str]]) -> None:
        self._now = now
        self._operation = operation
        self.by_name: dict[str, Pool] = {}

    def find(self, name: str) -> Pool:
        found = self.by_name.get(name.lower())
        if found is None:
            raise Refused(404, "NotFound", f"The agent pool '{name}' was not found.")
        return found

    def machines(self, at: float) -> list[dict[str, Any]]:
        pools = self.by_name.values()
        return [pool.machine(one, vm, at) for pool in pools for one in pool.sizes.values() for vm in one.existing(at)]

    def list_pools(self, request: Request) -> Answer:
        del request
        return Answer(200, {"value": [pool.body(self._now()) for pool in self.by_name.values()]})

    def get(self, request: Request, name: Pool) -> Answer:
        del request
        return Answer(200, name.body(self._now()))

    def put(self, request: Request, name: Pool) -> Answer:
        told = name.body(self._now())["properties"]
        wanted = request.headers.get("if-match")
        if wanted is not None and wanted.strip('"') != told["eTag"]:
            raise Refused(412, "PreconditionFailed", f"The etag {wanted} is not that of the agent pool.")
        self._demand_rest(name)
        properties = request.body["properties"]
        if any(properties.get(key) != told[key] for key in ("type", "mode", "osType")):
            raise Refused(400, "PropertyChangeNotAllowed", "Changing property 'properties.mode' is not allowed.")
        for profile in properties["virtualMachinesProfile"]["scale"]["manual"]:
            one = name.sizes[profile["size"].lower()]
            if one.leaves == "refused" and profile["count"] > one.room:
                raise Refused(409, one.shortage.code, one.shortage.message)
            if profile["count"] != one.capacity:
                one.resize(profile["count"])
        body = name.body(self._now())
        return Answer(
            200,
            {**body, "properties": {**body["properties"], "provisioningState": "Scaling"}},
            self._operation(tuple(name.sizes.values())),
        )

    def delete_machines(self, request: Request, name: Pool) -> Answer:
        self._demand_rest(name)
        left = list(request.body["machineNames"])
        for one in name.sizes.values():
            stem = f"{one.id.rpartition('/')[2]}_"
            mine, left = [vm for vm in left if vm.startswith(stem)], [vm for vm in left if not vm.startswith(stem)]
            left += one.delete(mine)
        if left:
            raise Refused(400, "BadRequest", f"Machine {left[0]} does not exist in agent pool {name.name}.")
        return Answer(202, None, self._operation(tuple(name.sizes.values())))

    def _demand_rest(self, pool: Pool) -> None:
        if pool.body(self._now())["properties"]["provisioningState"] == "Updating":
            message = (
                f"Another agentpool operation (Scaling - {pool.name}) is in progress, please wait for it to finish."
            )
            raise Refused(409, "OperationNotAllowed", f"Operation is not allowed: {message}")
