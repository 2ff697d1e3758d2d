"""What acting needs of the world, as Protocols: the adapters implement them."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from nodewright import spec
from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.condition import Condition
from nodewright.model.errors import KubeApiError
from nodewright.model.group import GroupSpec, NodeGroup
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import ProvisioningRequest
from nodewright.snapshot.workloads import Workloads

NORMAL = "Normal"
WARNING = "Warning"
STATUS_KIND = "ConfigMap"
STATUS_NAME = "kube-system/cluster-autoscaler-status"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One Kubernetes event. ``name`` is ``namespace/name`` where the kind has namespaces."""

    kind: str
    name: str
    reason: str
    message: str
    type: str = NORMAL


def status_not_written(kind: str, name: str, error: KubeApiError) -> Event:
    """A status that the API server did not take; ``name`` as in Event."""
    message = f"Its status could not be written: {error}"
    return Event(kind=kind, name=name, reason="StatusNotWritten", message=message, type=WARNING)


class EventSink(Protocol):
    """Where events go. Recording never fails the loop."""

    def record(self, event: Event) -> None: ...


class ProviderWrites(Protocol):
    """The writes of one provider; each raises ProviderError. Sizes count machines."""

    @property
    def name(self) -> str: ...
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int: ...
    def atomic_increase_size(self, group_id: str, expected_target: int, target: int) -> int: ...
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int: ...
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> tuple[str, ...]: ...
    def force_delete_instances(
        self, group_id: str, instance_ids: Sequence[str], expected_target: int
    ) -> tuple[str, ...]: ...
    def create_node_group(self, spec: GroupSpec) -> NodeGroup | None:
        """None: a dry run kept it from the cloud."""

    def delete_node_group(self, group_id: str) -> bool: ...


class ServesRequests(Protocol):
    """A provider, as far as it serves requests of classes of its own; raises ProviderError."""

    @property
    def name(self) -> str: ...
    def provision(self, request: spec.ProvisioningRequest) -> spec.ProvisioningVerdict | None:
        """None: a dry run kept the request from the cloud."""


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server says of a node now: the node (None: it is gone), what runs on it, and who has a say in it."""

    node: Node | None
    pods: tuple[Pod, ...] = ()
    workloads: Workloads = msgspec.field(default_factory=Workloads)


class EvictionAnswer(StrEnum):
    """What became of the wish to evict a pod."""

    ACCEPTED = "accepted"
    GONE = "gone"
    REFUSED = "refused"


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """The API server's answer; when it refused, why, and for how many seconds it wants to be left alone."""

    answer: EvictionAnswer
    message: str = ""
    retry_after: float = 0.0


class ClusterWrites(Protocol):
    """What removing nodes needs of the API server. Each raises KubeApiError."""

    def look(self, node: str) -> NodeView:
        """The node and its pods as they are at this moment."""

    def edit_node(self, name: str, edit: Callable[[Node], Node]) -> Node | None:
        """Change taints, cordon and annotations of a node: read it, edit, write; after a conflict all over again, for
        5 s at most. Answers the node as it was before; None: there is none of that name.
        """

    def evict(self, pod: Pod, grace_seconds: int) -> Eviction:
        """Ask for the eviction of this very pod."""

    def write_conditions(
        self, request: ProvisioningRequest, conditions: Sequence[Condition], *, is_apply: bool
    ) -> None:
        """Write these conditions beside those of others; not ``is_apply``: the whole status, as ``request`` has it."""

    def write_buffer_status(self, buffer: CapacityBuffer) -> None:
        """Write the buffer's whole status."""

    def write_quota_status(self, quota: CapacityQuota) -> None:
        """Write the quota's status, beside the conditions of others."""

    def delete_request(self, request: ProvisioningRequest) -> None:
        """Delete this very request, if it is still there."""
