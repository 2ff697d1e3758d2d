"""The SDK of a made-up cloud that lives in memory: stands for the vendor's own package."""

from copy import deepcopy
from dataclasses import dataclass, field


@dataclass
class Vm:
    uri: str
    state: str = "creating"
    error: str = ""


@dataclass
class Pool:
    id: str
    desired: int = 0
    max: int = 10
    vcpus: int = 4
    memory: str = "16Gi"
    vms: list[Vm] = field(default_factory=list)
    started: int = 0

    def start_vm(self) -> Vm:
        self.started += 1
        vm = Vm(uri=f"acme://{self.id}/{self.started}")
        self.vms.append(vm)
        return vm


class NoSuchPool(Exception):
    """No pool of that id."""


class Refused(Exception):
    """The pool may not have that size."""


class Conflict(Exception):
    """The pool's size is not what the caller thought."""

    def __init__(self, desired: int) -> None:
        super().__init__(f"desired size is {desired}")
        self.desired = desired


CLOUDS: dict[str, dict[str, Pool]] = {}


class Client:
    """Every write names the size it starts from, and answers the pool as it is then."""

    def __init__(self, endpoint: str) -> None:
        self._cloud = CLOUDS.setdefault(endpoint, {})

    def pools(self) -> list[Pool]:
        return deepcopy(list(self._cloud.values()))

    def grow(self, pool_id: str, if_desired: int, desired: int) -> Pool:
        pool = self._pool(pool_id, if_desired)
        if desired > pool.max:
            raise Refused(f"{pool_id} holds {pool.max} machines at most")
        pool.desired = desired
        return deepcopy(pool)

    def withdraw(self, pool_id: str, if_desired: int, desired: int) -> Pool:
        """Take back what no VM was started for; stops at what is there."""
        pool = self._pool(pool_id, if_desired)
        pool.desired = max(desired, len(pool.vms))
        return deepcopy(pool)

    def delete(self, pool_id: str, if_desired: int, uris: list[str]) -> tuple[Pool, list[str]]:
        pool = self._pool(pool_id, if_desired)
        deleted = [vm.uri for vm in pool.vms if vm.uri in uris]
        pool.vms = [vm for vm in pool.vms if vm.uri not in deleted]
        pool.desired -= len(deleted)
        return deepcopy(pool), deleted

    def _pool(self, pool_id: str, if_desired: int) -> Pool:
        if pool_id not in self._cloud:
            raise NoSuchPool(pool_id)
        if self._cloud[pool_id].desired != if_desired:
            raise Conflict(self._cloud[pool_id].desired)
        return self._cloud[pool_id]
