"""ProvisioningRequests, PodTemplates, CapacityBuffers and CapacityQuotas as the simulated API server keeps them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.cluster import Deployment, ResourceQuota
from nodewright.model.errors import KubeApiError
from nodewright.model.meta import Condition
from nodewright.model.provisioning_request import PodTemplate, ProvisioningClass, ProvisioningRequest
from nodewright.snapshot.observation import Buffers, Provisioning
from nodewright_simulator.crash import Tripwire

WRITE_QUOTA = "write_quota_status"


class Quotas:
    """``writes`` counts status writes; ``refuses`` lets each of them fail. The engine may die at each: ``wire``."""

    def __init__(self, wire: Tripwire) -> None:
        self.writes = 0
        self.refuses = False
        self._wire = wire
        self._held: dict[str, CapacityQuota] = {}

    def put(self, quota: CapacityQuota) -> None:
        """Create the quota, or change the spec of the one with its name."""
        before = self._held.get(quota.name)
        generation = before.metadata.generation + 1 if before is not None else 1
        status = before.status if before is not None else quota.status
        meta = replace(quota.metadata, uid=f"quota-{quota.name}", generation=generation)
        self._held[quota.name] = replace(quota, metadata=meta, status=status)

    def delete(self, name: str) -> None:
        """Delete it, if it exists."""
        self._held.pop(name, None)

    def get(self, name: str) -> CapacityQuota | None:
        return self._held.get(name)

    def read(self) -> tuple[CapacityQuota, ...]:
        return tuple(self._held.values())

    def write_status(self, quota: CapacityQuota) -> None:
        """Write the status, as the engine asks."""
        if self.refuses:
            raise KubeApiError("the server is busy", retryable=True)
        if quota.name not in self._held:
            raise KubeApiError(f"there is no such quota {quota.name}", retryable=False)
        self._wire.cross(WRITE_QUOTA, self._write, quota)

    def _write(self, quota: CapacityQuota) -> None:
        self._held[quota.name] = replace(self._held[quota.name], status=quota.status)
        self.writes += 1


class PodTemplates:
    """``held`` by ``namespace/name``; another mapping after each change."""

    def __init__(self) -> None:
        self.held: dict[str, PodTemplate] = {}

    def put(self, template: PodTemplate) -> None:
        """Create the template, or change the one with its name."""
        before = self.held.get(template.key)
        generation = before.metadata.generation + 1 if before is not None else 1
        fresh = replace(template, metadata=replace(template.metadata, generation=generation))
        self.held = {**self.held, template.key: fresh}

    def drop(self, key: str) -> None:
        """Delete it, if it exists."""
        self.held = {held: one for held, one in self.held.items() if held != key}


WRITE_CONDITIONS, DELETE_REQUEST = "write_conditions", "delete_request"

RequestWatch = Callable[[ProvisioningRequest, float], None]


class Requests:
    """``writes`` counts status writes; ``refuses`` lets each of them fail. ``watchers`` are called after each.

    The engine may die at each write: ``wire``.
    """

    def __init__(self, wire: Tripwire, templates: PodTemplates) -> None:
        self.writes = 0
        self.refuses = False
        self.watchers: list[RequestWatch] = []
        self._wire = wire
        self._made = 0
        self._held: dict[str, ProvisioningRequest] = {}
        self._templates = templates
        self._classes: dict[str, ProvisioningClass] = {}

    def put_class(self, held: ProvisioningClass) -> None:
        """Create the class, or change the one with its name."""
        self._classes[held.name] = held

    def drop_class(self, name: str) -> None:
        self._classes.pop(name)

    def add(self, request: ProvisioningRequest, at: float) -> ProvisioningRequest:
        """Create the request with a new uid, even if another had its name before."""
        self._made += 1
        created = datetime.fromtimestamp(at, tz=UTC)
        uid = f"request-{self._made}"
        meta = replace(request.metadata, uid=uid, creation_timestamp=created, generation=1)
        fresh = self._held[request.key] = replace(request, metadata=meta)
        return fresh

    def put(self, request: ProvisioningRequest) -> None:
        """Replace the request of that name."""
        self._held[request.key] = request

    def delete(self, key: str) -> None:
        """Delete it, if it exists."""
        self._held.pop(key, None)

    def get(self, key: str) -> ProvisioningRequest | None:
        return self._held.get(key)

    def all(self) -> tuple[ProvisioningRequest, ...]:
        return tuple(self._held.values())

    def read(self) -> Provisioning:
        return Provisioning(requests=self.all(), templates=self._templates.held, classes=tuple(self._classes.values()))

    # What the engine writes

    def write_conditions(
        self, request: ProvisioningRequest, conditions: Sequence[Condition], *, is_apply: bool, now: float
    ) -> None:
        """See ClusterWrites."""
        self._find(request)
        self._wire.cross(WRITE_CONDITIONS, self._write, request, conditions if is_apply else None, now)

    def delete_request(self, request: ProvisioningRequest) -> None:
        """See ClusterWrites."""
        held = self._held.get(request.key)
        if held is not None and held.metadata.uid == request.metadata.uid:
            self._wire.cross(DELETE_REQUEST, self.delete, request.key)

    def _find(self, request: ProvisioningRequest) -> ProvisioningRequest:
        held = self._held.get(request.key)
        if self.refuses:
            raise KubeApiError("the server is busy", retryable=True)
        if held is None or held.metadata.uid != request.metadata.uid:
            raise KubeApiError(f"there is no such request {request.key}", retryable=False)
        return held

    def _write(self, request: ProvisioningRequest, conditions: Sequence[Condition] | None, now: float) -> None:
        fresh = self._find(request)
        if conditions is None:
            fresh = replace(fresh, status=request.status)
        for condition in conditions or ():
            fresh = fresh.with_condition(condition)
        fresh = fresh.with_details(**request.own_details)
        self._held[request.key] = fresh
        self.writes += 1
        for watch in self.watchers:
            watch(fresh, now)


WRITE_BUFFER = "write_buffer_status"

BufferWatch = Callable[[CapacityBuffer], None]


class CapacityBuffers:
    """``writes`` counts status writes; ``refuses`` lets each of them fail, and ``watchers`` are told of each.

    The engine may die at each: ``wire``.
    """

    def __init__(self, wire: Tripwire, templates: PodTemplates) -> None:
        self.writes = 0
        self.refuses = False
        self.quotas: tuple[ResourceQuota, ...] = ()
        self.watchers: list[BufferWatch] = []
        self._wire = wire
        self._made = 0
        self._held: dict[str, CapacityBuffer] = {}
        self._templates = templates

    def put(self, buffer: CapacityBuffer, at: float) -> None:
        """Create the buffer, or change the spec of the one with its name."""
        before = self._held.get(buffer.key)
        if before is not None:
            meta = replace(before.metadata, generation=before.metadata.generation + 1)
            self._held[buffer.key] = replace(before, metadata=meta, spec=buffer.spec)
            return
        self._made += 1
        created = datetime.fromtimestamp(at, tz=UTC)
        meta = replace(buffer.metadata, uid=f"buffer-{self._made}", creation_timestamp=created, generation=1)
        self._held[buffer.key] = replace(buffer, metadata=meta)

    def delete(self, key: str) -> None:
        """Delete it, if it exists."""
        self._held.pop(key, None)

    def get(self, key: str) -> CapacityBuffer | None:
        return self._held.get(key)

    def read(self, deployments: Mapping[str, Deployment]) -> Buffers:
        """Return all that concerns buffers, with the given Deployments."""
        return Buffers(
            buffers=tuple(self._held.values()),
            templates=self._templates.held,
            deployments=deployments,
            quotas=self.quotas,
        )

    def write_status(self, buffer: CapacityBuffer) -> None:
        """Write the status, as the engine asks."""
        held = self._held.get(buffer.key)
        if self.refuses:
            raise KubeApiError("the server is busy", retryable=True)
        if held is None or held.metadata.uid != buffer.metadata.uid:
            raise KubeApiError(f"there is no such buffer {buffer.key}", retryable=False)
        self._wire.cross(WRITE_BUFFER, self._write, buffer)

    def _write(self, buffer: CapacityBuffer) -> None:
        fresh = self._held[buffer.key] = replace(self._held[buffer.key], status=buffer.status)
        self.writes += 1
        for watch in self.watchers:
            watch(fresh)
