"""One Azure resource group, and methods that change it from outside.

Operations take their time on a clock that is given. What can go wrong is played here: sizes that are sold out,
quotas, throttling, answers that are lost, listings that lag behind, tokens that are refused.
"""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from math import inf
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from azurecloud.arm import Arm
from azurecloud.arm_route import Refused
from azurecloud.certificates import Authority
from azurecloud.pools import Pool
from azurecloud.server import Answer, LostAnswer, Request, Server
from azurecloud.sets import ScaleSet, Trouble, make_set
from mishaps import Mishap, Mishaps, retry_headers

TENANT, CLIENT, SECRET = "tenant-of-tests", "client-of-tests", "s3cr3t-of-tests"
SUBSCRIPTION, GROUP = "sub", "Nodes"
CLUSTER, CLUSTER_GROUP = "prod", "Clusters"
_NUMBERS = itertools.count(1)
_SIZE_WRITES = ("update", "delete", "put", "deleteMachines")


class AzureCloud:
    """``calls`` counts what came in by operation: list, get, update, delete, machines, flexible, view, machineView, operation, skus, token,
    prices; of VM pools: pools, pool, put, deleteMachines.
    """

    def __init__(self, authority: Authority, now: Callable[[], float]) -> None:
        self.now = now
        self.arm = Arm(SUBSCRIPTION, GROUP, (CLUSTER_GROUP, CLUSTER), now)
        self.mishaps: Mishaps[Answer] = Mishaps()
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._tokens: set[str] = set()
        self.logins: list[dict[str, str]] = []
        self.accepts_logins = True
        self.retail_prices: list[dict[str, Any]] = []
        self.tells_prices = True
        self.calls: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._throttled: dict[str, float] = {}
        self._server = Server(authority.server, self._play)
        self.arm.base = self._server.url
        self.options: dict[str, Any] = {
            "subscription_id": SUBSCRIPTION,
            "resource_group": GROUP,
            "arm_endpoint": self.url,
            "retail_prices_endpoint": self.url,
            "authority_host": self.url,
            "disconnected": True,
            "ca_bundle": str(authority.bundle),
            "tenant_id": TENANT,
            "client_id": CLIENT,
        }
        for name, cpus, memory, extra in (
            ("Standard_D2s_v3", "2", "8", {}),
            ("Standard_D4s_v3", "4", "16", {}),
            ("Standard_F2", "2", "4", {}),
            ("Standard_NC6s_v3", "6", "112", {"GPUs": "1"}),
            ("Standard_D4ps_v5", "4", "16", {"CpuArchitectureType": "Arm64"}),
        ):
            self.add_sku(name, vCPUs=cpus, MemoryGB=memory, **extra)

    @property
    def url(self) -> str:
        return self._server.url

    def empty(self) -> None:
        """All sets and pools are gone, and nothing more goes wrong."""
        self.arm.sets.clear()
        self.arm.pools.by_name.clear()
        self.mishaps.forget()

    def close(self) -> None:
        """Ends the server; raises if any exchange did not fit the SDK's models."""
        self._closing.set()
        self._server.close()
        assert self.arm.findings == [], self.arm.findings

    # What is there

    @property
    def pool_options(self) -> dict[str, Any]:
        """``options``, and those that let VM pools be served."""
        where = {"cluster": CLUSTER, "cluster_resource_group": CLUSTER_GROUP, "location": "eastus"}
        return {**self.options, "vm_pools": True, **where}

    def set(self, name: str) -> ScaleSet:
        """Also of a VM pool's size, ``pool/size``."""
        pool, slash, size = name.lower().partition("/")
        return self.arm.pools.find(pool).sizes[size] if slash else self.arm.sets[pool]

    def body(self, name: str) -> dict[str, Any]:
        """A set as Azure has it now."""
        return self.set(name).body(self.now())

    def capacity(self, name: str) -> int:
        return self.set(name).capacity

    def machines(self, name: str) -> frozenset[str]:
        """Provider ids of what lives in a set."""
        one, now = self.set(name), self.now()
        living = [vm for vm in one.vms if vm.counts(now) and vm.trouble is None]
        return frozenset(self._provider_id(one.vm_id(vm)) for vm in living)

    # Making things

    def add_set(self, name: str = "", *, capacity: int = 0, **settings: Any) -> str:
        """A set with running machines; answers its name. ``size`` is the kind of its machines."""
        name = name or f"set-{next(_NUMBERS)}-{uuid4().hex[:6]}"
        place = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}"
        self.arm.sets[name.lower()] = one = make_set(place, name, self.now, settings)
        one.resize(capacity)
        one.settle()
        return name

    def add_pool(self, name: str, sizes: Mapping[str, int], **told: Any) -> str:
        """A VM pool of AKS with so many running machines of each size; answers the name of the first size's group."""
        place = f"/subscriptions/{SUBSCRIPTION}/resourceGroups"
        cluster = f"{place}/{CLUSTER_GROUP}/providers/Microsoft.ContainerService/managedClusters/{CLUSTER}"
        self.arm.pools.by_name[name.lower()] = pool = Pool(cluster, f"{place}/{GROUP}", name, self.now, told)
        for size, count in sizes.items():
            pool.add_size(size, count)
        return f"{name}/{next(iter(sizes))}"

    def add_sku(
        self, name: str, *, location: str = "eastus", denied: str = "", family: str = "", **capabilities: str
    ) -> None:
        told = {"CpuArchitectureType": "x64", **capabilities}
        self.arm.skus.append(
            {
                "name": name,
                "resourceType": "virtualMachines",
                "family": family or f"standard{name.split('_')[1]}Family",
                "locations": [location],
                "capabilities": [{"name": key, "value": value} for key, value in told.items()],
                "restrictions": [{"type": "Location", "values": [location], "reasonCode": denied}] if denied else [],
            }
        )

    def add_price(self, size: str, price: float, *, kind: str = "", system: str = "", **told: Any) -> None:
        """A meter of the price list; ``kind`` is Spot or Low Priority, ``system`` Windows."""
        meter = {
            "currencyCode": "USD",
            "tierMinimumUnits": 0.0,
            "retailPrice": price,
            "unitPrice": price,
            "armRegionName": "eastus",
            "productName": f"Virtual Machines Series {system}".strip(),
            "skuName": f"{size} {kind}".strip(),
            "serviceName": "Virtual Machines",
            "unitOfMeasure": "1 Hour",
            "type": "Consumption",
            "armSkuName": size,
        }
        self.retail_prices.append({**meter, **told})

    # What happens by itself

    def hold(self, name: str) -> None:
        """From now on machines come only by ``arrive``."""
        self.set(name).held = True

    def limit(self, name: str, machines: int, leaves: str = "failed", trouble: Trouble | None = None) -> None:
        """There is room for so many. What is asked for beyond leaves failed machines, missing ones or nothing, or is refused."""
        one = self.set(name)
        one.room, one.leaves = machines, leaves
        one.shortage = trouble or one.shortage

    def set_target(self, name: str, size: int) -> None:
        """Another writer resizes the set."""
        with self._lock:
            self.set(name).resize(size)
            self.set(name).settle()

    def arrive(self, name: str) -> str:
        """One machine that was asked for is there; answers its provider id."""
        with self._lock:
            one = self.set(name)
            return self._provider_id(one.vm_id(one.arrive()))

    def begin(self, name: str) -> str:
        """One machine that was asked for exists, and does not run yet; answers its provider id."""
        with self._lock:
            one = self.set(name)
            vm = one.arrive()
            vm.ready_at = inf
            return self._provider_id(one.vm_id(vm))

    def vanish(self, name: str, machine: str) -> None:
        """A machine is gone, and its set, which keeps its capacity, starts another."""
        with self._lock:
            one = self.set(name)
            vm = next(vm for vm in one.vms if self._provider_id(one.vm_id(vm)) == machine)
            vm.deleted_at = vm.gone_at = self.now()

    def stop(self, name: str, machine: str) -> None:
        """An operator stops a machine; the set keeps it."""
        with self._lock:
            one = self.set(name)
            next(vm for vm in one.vms if self._provider_id(one.vm_id(vm)) == machine).power = "stopped"

    def fail(self, name: str, trouble: Trouble | None = None) -> None:
        with self._lock:
            self.set(name).fail(trouble)

    def spoil(self, name: str, power: str, mishap: Trouble | None = None) -> None:
        """The last operation on every machine that is there failed, long after it was created; None: on none."""
        with self._lock:
            for vm in self.set(name).existing(self.now()):
                vm.mishap, vm.power = mishap, power

    def lag(self, seconds: float) -> None:
        """Listings tell how things were so long ago."""
        self.arm.lag = seconds

    # What goes wrong with calls

    def deny(self, *actions: str) -> None:
        """No role grants these actions any more."""
        self.arm.denied.update(actions)

    def refuse_once(self, operation: str, code: str, message: str, status: int = 400, retry_after: str = "") -> None:
        headers = retry_headers(retry_after, self.now())
        self.mishaps.plan(operation, Refused(status, code, message, headers).answer)

    def throttle(self, operation: str, seconds: float) -> None:
        """Azure refuses each such call until then, and says how long that is."""
        self._throttled[operation] = self.now() + seconds

    def lose_answer_once(self, operation: str) -> None:
        """The operation is done, and the connection breaks before the answer."""
        self.mishaps.plan(operation, Mishap.LOST)

    def stall_once(self, operation: str) -> None:
        """The next such call is never answered."""
        self.mishaps.plan(operation, Mishap.STALLS)

    def before_write(self, happening: Callable[[], object]) -> None:
        """Takes place when the next write of a size is here and was not looked at yet."""
        self.mishaps.before_write(happening)

    # How each call is answered

    def _play(self, request: Request) -> Answer:
        if request.path == "/api/retail/prices":
            return self._tell_prices(request)
        if not request.path.startswith("/subscriptions/"):
            return self._identify(request)
        operation = _operation(request)
        self.calls[operation] += 1
        if operation in _SIZE_WRITES:
            self.mishaps.write_arrives()
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self._tokens:
            return Refused(401, "ExpiredAuthenticationToken", "The access token is expired or was never given.").answer
        left = self._throttled.get(operation, 0.0) - self.now()
        if left > 0:
            self.refused[operation] += 1
            return Refused(429, "TooManyRequests", "slow down", {"Retry-After": f"{left:.0f}"}).answer
        mishap = self.mishaps.take(operation)
        if isinstance(mishap, Answer):
            return mishap
        if mishap is Mishap.STALLS:
            self._closing.wait()
        if mishap in (Mishap.STALLS, Mishap.GIVEN_UP):
            raise LostAnswer
        answer = self._act(request)
        if mishap is Mishap.LOST:
            raise LostAnswer
        return answer

    def _act(self, request: Request) -> Answer:
        with self._lock:
            return self.arm.answer(request)

    def _tell_prices(self, request: Request) -> Answer:
        """The public price list: who asks shows no token, and gets it in pages of two meters."""
        self.calls["prices"] += 1
        assert "authorization" not in request.headers
        if not self.tells_prices:
            return Answer(503, {"Error": {"Code": "ServiceUnavailable"}})
        wanted = request.query["$filter"]
        assert "serviceName eq 'Virtual Machines'" in wanted
        fitting = [
            one
            for one in self.retail_prices
            if f"armRegionName eq '{one['armRegionName']}'" in wanted
            and f"armSkuName eq '{one['armSkuName']}'" in wanted
        ]
        skipped = int(request.query.get("$skip", "0"))
        link = f"{self.url}/api/retail/prices?{urlencode({'$filter': wanted, '$skip': skipped + 2})}"
        more = link if len(fitting) > skipped + 2 else None
        return Answer(200, {"BillingCurrency": "USD", "Items": fitting[skipped : skipped + 2], "NextPageLink": more})

    def _identify(self, request: Request) -> Answer:
        """The part of Entra that hands out tokens."""
        if request.path.endswith("/.well-known/openid-configuration"):
            tenant = f"{self.url}/{TENANT}"
            told = {"issuer": f"{tenant}/v2.0", "authorization_endpoint": f"{tenant}/oauth2/v2.0/authorize"}
            return Answer(200, {**told, "token_endpoint": f"{tenant}/oauth2/v2.0/token"})
        self.calls["token"] += 1
        form = dict(pair.partition("=")[::2] for pair in str(request.body).split("&"))
        self.logins.append(form)
        if not self.accepts_logins or form.get("client_secret", SECRET) != SECRET:
            told = {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."}
            return Answer(401, told)
        token = f"token-{uuid4()}"
        self._tokens.add(token)
        return Answer(200, {"token_type": "Bearer", "expires_in": 86400, "access_token": token})

    def _provider_id(self, resource_id: str) -> str:
        return f"azure://{resource_id.replace(f'/resourceGroups/{GROUP}/', f'/resourceGroups/{GROUP.lower()}/')}"


def _operation(request: Request) -> str:
    """A short name for what is asked."""
    last = request.path.rpartition("/")[2]
    plain = {"skus": "skus", "instanceView": "view", "delete": "delete", "virtualMachineScaleSets": "list"}
    if last == "virtualMachines":
        return "machines" if "/virtualMachineScaleSets/" in request.path else "flexible"
    if "/operations/" in request.path:
        return "operation"
    if last == "instanceView" and "/virtualMachines/" in request.path:
        return "machineView"
    others = {"permissions", "locks", "autoscaleSettings", "deleteMachines"}
    if "/agentPools" in request.path and last not in others:
        return "pools" if last == "agentPools" else {"GET": "pool", "PUT": "put"}.get(request.method, request.method)
    found = plain.get(last, last if last in others else "")
    return found or {"GET": "get", "PATCH": "update"}.get(request.method, request.method)
