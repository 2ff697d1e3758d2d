"""The SDK of a made-up cloud in memory. It takes the place of the vendor's package and of a fake cloud.

The plugin calls ``Client``. ``Cloud`` is the cloud behind it, which tests can change.
"""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field

PAGE = 50


@dataclass
class Vm:
    uri: str
    state: str = "creating"
    error: str = ""
    taken_at: float | None = None


@dataclass
class Pool:
    """A node group of the cloud. ``failures`` are creations that left no VM: id to code."""

    id: str
    cluster: str
    desired: int = 0
    max: int = 10
    vcpus: int = 4
    memory: str = "16Gi"
    price: float = 0.2
    labels: dict[str, str] = field(default_factory=lambda: {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"})
    vms: list[Vm] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    made: int = 0

    def make_vm(self, state: str = "creating", error: str = "") -> Vm:
        self.made += 1
        vm = Vm(uri=f"acme://{self.id}/{self.made}", state=state, error=error)
        self.vms.append(vm)
        return vm


class ApiError(Exception):
    """An error response of the cloud; ``desired`` is the pool's size if the code is CONFLICT."""

    def __init__(self, code: str, desired: int = 0) -> None:
        super().__init__(f"the cloud answers {code}")
        self.code = code
        self.desired = desired


@dataclass
class Cloud:
    """``refused`` are the error codes of the next calls, by kind (read, write); an empty code lets the call succeed.

    For ``lag`` seconds after a write, lists show the pools as they were before it.
    """

    pools: dict[str, Pool] = field(default_factory=dict)
    refused: dict[str, list[str]] = field(default_factory=lambda: {"read": [], "write": []})
    answers_lost: int = 0
    seconds_per_call: float = 0.0
    lag: float = 0.0
    old_lists: list[tuple[float, dict[str, Pool]]] = field(default_factory=list)
    now: Callable[[], float] = lambda: 0.0
    sleep: Callable[[float], None] = lambda _: None
    before_write: Callable[[], object] | None = None

    def add(self, pool: Pool) -> Pool:
        self.pools[pool.id] = pool
        return pool

    def listed(self) -> dict[str, Pool]:
        """Return the pools as lists show them now."""
        return next((pools for until, pools in self.old_lists if self.now() < until), self.pools)

    def note_write(self) -> None:
        """Keep the pools as they are, because lists show them for a while after the write that comes now."""
        if self.lag:
            self.old_lists.append((self.now() + self.lag, deepcopy(self.pools)))


# By endpoint. "demo" is for a first run of the commands: one group without machines.
CLOUDS: dict[str, Cloud] = {"demo": Cloud(pools={"web": Pool(id="web", cluster="default")})}


class Client:
    """Every write names the size that it starts from, and is refused if the pool has another size."""

    def __init__(self, endpoint: str, timeout: float) -> None:
        self._cloud = CLOUDS.setdefault(endpoint, Cloud())
        self._timeout = timeout

    def list_pools(self, cluster: str) -> list[Pool]:
        """Return the pools with that cluster's label, without their VMs."""
        self._arrive("read")
        found = [pool for pool in self._cloud.listed().values() if pool.cluster == cluster]
        return [Pool(**{**vars(deepcopy(pool)), "vms": []}) for pool in found]

    def list_vms(self, pool_id: str, page: int = 0) -> tuple[list[Vm], int | None]:
        """Return one page of a pool's VMs, and the number of the next page if there is one."""
        self._arrive("read")
        vms, start = self._find(self._cloud.listed(), pool_id).vms, page * PAGE
        return deepcopy(vms[start : start + PAGE]), page + 1 if start + PAGE < len(vms) else None

    def grow(self, pool_id: str, if_desired: int, desired: int) -> None:
        pool = self._written(pool_id, if_desired)
        if desired > pool.max:
            raise ApiError("ABOVE_MAXIMUM")
        pool.desired = desired
        self._answer()

    def withdraw(self, pool_id: str, if_desired: int, desired: int) -> int:
        """Withdraw requests for VMs that were not started, and return the new size: not below the existing VMs."""
        pool = self._written(pool_id, if_desired)
        pool.desired = max(desired, len(pool.vms))
        self._answer()
        return pool.desired

    def delete(self, pool_id: str, if_desired: int, names: Iterable[str]) -> list[str]:
        """Delete VMs by uri and failures by id, and lower the size by as many."""
        pool = self._written(pool_id, if_desired)
        known = {vm.uri for vm in pool.vms} | set(pool.failures)
        deleted = [name for name in names if name in known]
        pool.vms = [vm for vm in pool.vms if vm.uri not in deleted]
        pool.failures = {name: code for name, code in pool.failures.items() if name not in deleted}
        pool.desired -= len(deleted)
        self._answer()
        return deleted

    def _written(self, pool_id: str, if_desired: int) -> Pool:
        happening, self._cloud.before_write = self._cloud.before_write, None
        if happening is not None:
            happening()
        pool = self._find(self._cloud.pools, pool_id)
        self._arrive("write")
        if pool.desired != if_desired:
            raise ApiError("CONFLICT", desired=pool.desired)
        self._cloud.note_write()
        return pool

    def _find(self, pools: dict[str, Pool], pool_id: str) -> Pool:
        if pool_id not in pools:
            raise ApiError("NO_SUCH_POOL")
        return pools[pool_id]

    def _arrive(self, kind: str) -> None:
        self._cloud.sleep(min(self._cloud.seconds_per_call, self._timeout))
        if self._cloud.seconds_per_call > self._timeout:
            raise ApiError("TIMEOUT")
        code = self._cloud.refused[kind].pop(0) if self._cloud.refused[kind] else ""
        if code:
            raise ApiError(code)

    def _answer(self) -> None:
        if self._cloud.answers_lost:
            self._cloud.answers_lost -= 1
            raise ApiError("TIMEOUT")
