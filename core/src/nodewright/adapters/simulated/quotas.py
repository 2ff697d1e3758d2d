"""CapacityQuotas in a simulated cluster, as its API server keeps them."""

from msgspec.structs import replace

from nodewright.adapters.simulated.crash import Tripwire
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.errors import KubeApiError

WRITE_QUOTA = "write_quota_status"


class Quotas:
    """``writes`` counts status writes; ``refuses`` lets each of them fail. The engine may die at each: ``wire``."""

    def __init__(self, wire: Tripwire) -> None:
        self.writes = 0
        self.refuses = False
        self._wire = wire
        self._held: dict[str, CapacityQuota] = {}

    def put(self, quota: CapacityQuota) -> None:
        """Somebody creates the quota, or gives the one of its name another spec."""
        before = self._held.get(quota.name)
        generation = before.metadata.generation + 1 if before is not None else 1
        status = before.status if before is not None else quota.status
        meta = replace(quota.metadata, uid=f"quota-{quota.name}", generation=generation)
        self._held[quota.name] = replace(quota, metadata=meta, status=status)

    def delete(self, name: str) -> None:
        """Somebody deletes it, if it is there."""
        self._held.pop(name, None)

    def get(self, name: str) -> CapacityQuota | None:
        return self._held.get(name)

    def read(self) -> tuple[CapacityQuota, ...]:
        return tuple(self._held.values())

    def write_status(self, quota: CapacityQuota) -> None:
        """What the engine writes."""
        if self.refuses:
            raise KubeApiError("the server is busy", retryable=True)
        if quota.name not in self._held:
            raise KubeApiError(f"there is no such quota {quota.name}", retryable=False)
        self._wire.cross(WRITE_QUOTA, self._write, quota)

    def _write(self, quota: CapacityQuota) -> None:
        self._held[quota.name] = replace(self._held[quota.name], status=quota.status)
        self.writes += 1
