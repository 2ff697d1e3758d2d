"""CapacityBuffers in a simulated cluster, as its API server keeps them."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from msgspec.structs import replace

from nodewright.adapters.simulated.crash import Tripwire
from nodewright.adapters.simulated.templates import PodTemplates
from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.cluster import Deployment, ResourceQuota
from nodewright.model.errors import KubeApiError
from nodewright.snapshot.buffers import Buffers

WRITE_BUFFER = "write_buffer_status"

Watch = Callable[[CapacityBuffer], None]


class CapacityBuffers:
    """``writes`` counts status writes; ``refuses`` lets each of them fail, and ``watchers`` are told of each.

    The engine may die at each: ``wire``.
    """

    def __init__(self, wire: Tripwire, templates: PodTemplates) -> None:
        self.writes = 0
        self.refuses = False
        self.quotas: tuple[ResourceQuota, ...] = ()
        self.watchers: list[Watch] = []
        self._wire = wire
        self._made = 0
        self._held: dict[str, CapacityBuffer] = {}
        self._templates = templates

    def put(self, buffer: CapacityBuffer, at: float) -> None:
        """Somebody creates the buffer, or gives the one of its name another spec."""
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
        """Somebody deletes it, if it is there."""
        self._held.pop(key, None)

    def get(self, key: str) -> CapacityBuffer | None:
        return self._held.get(key)

    def read(self, deployments: Mapping[str, Deployment]) -> Buffers:
        """With the Deployments that somebody else keeps."""
        return Buffers(
            buffers=tuple(self._held.values()),
            templates=self._templates.held,
            deployments=deployments,
            quotas=self.quotas,
        )

    def write_status(self, buffer: CapacityBuffer) -> None:
        """What the engine writes."""
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
