"""A real cluster for dry runs: it is read, and nothing is written."""

from collections.abc import Callable, Sequence

from nodewright.actuation.ports import Eviction, EvictionAnswer
from nodewright.adapters.kube.cluster import KubeCluster
from nodewright.adapters.kube.store import ConfigMapStore
from nodewright.clusterstate.memory import Memory
from nodewright.engine.ports import Loaded, Pause
from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.condition import Condition
from nodewright.model.errors import KubeApiError
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import ProvisioningRequest

_DRY = "this is a dry run"


class DryCluster(KubeCluster):
    """As KubeCluster, but writes are refused or skipped."""

    def edit_node(self, name: str, edit: Callable[[Node], Node]) -> Node | None:  # noqa: ARG002 - nothing is edited
        """Refuse to edit: a write that is silently skipped would be reported as done."""
        raise KubeApiError(f"node {name} is not changed: {_DRY}", retryable=False)

    def evict(self, pod: Pod, grace_seconds: int) -> Eviction:  # noqa: ARG002 - no pod is evicted
        return Eviction(answer=EvictionAnswer.REFUSED, message=_DRY)

    def delete_pod(self, pod: Pod, grace_seconds: int) -> Eviction:  # noqa: ARG002 - no pod is deleted
        return Eviction(answer=EvictionAnswer.REFUSED, message=_DRY)

    def write_conditions(
        self, request: ProvisioningRequest, conditions: Sequence[Condition], *, is_apply: bool
    ) -> None:
        """Write nothing."""

    def delete_request(self, request: ProvisioningRequest) -> None:
        """Delete nothing."""

    def write_buffer_status(self, buffer: CapacityBuffer) -> None:
        """Write nothing."""

    def write_quota_status(self, quota: CapacityQuota) -> None:
        """Write nothing."""


class DryStore:
    """Implements StateStore: begins with what is saved in ``store``, and saves nothing."""

    def __init__(self, store: ConfigMapStore) -> None:
        self._store = store

    def load(self) -> Loaded:
        return self._store.read()

    def load_pause(self) -> Pause | None:
        return self._store.load_pause()

    def save_if_changed(self, memory: Memory) -> None:
        """Save nothing: memory lasts as long as the process."""
