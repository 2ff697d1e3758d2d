"""Requests for capacity in a simulated cluster, as its API server keeps them."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from nodewright.adapters.simulated.crash import Tripwire
from nodewright.adapters.simulated.templates import PodTemplates
from nodewright.model.condition import Condition
from nodewright.model.errors import KubeApiError
from nodewright.model.provisioning_class import ProvisioningClass
from nodewright.model.provisioning_request import ProvisioningRequest
from nodewright.snapshot.provisioning import Provisioning

WRITE_CONDITIONS, DELETE_REQUEST = "write_conditions", "delete_request"

Watch = Callable[[ProvisioningRequest, float], None]


class Requests:
    """``writes`` counts status writes; ``refuses`` lets each of them fail. ``on_change`` is told of what somebody writes.

    The engine may die at each write: ``wire``.
    """

    def __init__(self, wire: Tripwire, templates: PodTemplates) -> None:
        self.writes = 0
        self.refuses = False
        self.watchers: list[Watch] = []
        self._wire = wire
        self._made = 0
        self._held: dict[str, ProvisioningRequest] = {}
        self._templates = templates
        self._classes: dict[str, ProvisioningClass] = {}

    def put_class(self, held: ProvisioningClass) -> None:
        """Somebody creates the class, or changes the one of its name."""
        self._classes[held.name] = held

    def drop_class(self, name: str) -> None:
        self._classes.pop(name)

    def add(self, request: ProvisioningRequest, at: float) -> ProvisioningRequest:
        """Somebody creates the request; it is one of its own, whatever had its name before."""
        self._made += 1
        created = datetime.fromtimestamp(at, tz=UTC)
        uid = f"request-{self._made}"
        meta = replace(request.metadata, uid=uid, creation_timestamp=created, generation=1)
        fresh = self._held[request.key] = replace(request, metadata=meta)
        return fresh

    def put(self, request: ProvisioningRequest) -> None:
        """Somebody changes what is there."""
        self._held[request.key] = request

    def delete(self, key: str) -> None:
        """Somebody deletes it, if it is there."""
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
