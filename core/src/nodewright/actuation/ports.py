"""Ports of the actuation package, as Protocols; the adapters implement them."""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from nodewright import spec
from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.errors import KubeApiError
from nodewright.model.gang import PodGroups
from nodewright.model.group import NewNodeGroup, NodeGroup
from nodewright.model.meta import Condition, OwnerReference
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import ProvisioningRequest
from nodewright.snapshot.context import Workloads

NORMAL = "Normal"
WARNING = "Warning"
POD_KIND = "Pod"
STATUS_KIND = "ConfigMap"
STATUS_NAME = "kube-system/cluster-autoscaler-status"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One Kubernetes event. ``name`` is ``namespace/name`` where the kind is namespaced.

    ``api_version`` and ``uid`` are those of the object; empty: the EventSink finds them. ``controller`` is that of the pod
    which the event is about: EventFilter combines the events of a controller's pods.
    """

    kind: str
    name: str
    reason: str
    message: str
    type: str = NORMAL
    api_version: str = ""
    uid: str = ""
    controller: OwnerReference | None = None


def status_not_written(kind: str, name: str, error: KubeApiError) -> Event:
    """Return the event for a status that the API server did not accept; ``name`` as in Event."""
    message = f"Its status could not be written: {error}"
    return Event(kind=kind, name=name, reason="StatusNotWritten", message=message, type=WARNING)


class EventSink(Protocol):
    """Receives events. ``record`` never raises: a lost event must not fail the loop."""

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
    def create_node_group(self, spec: NewNodeGroup) -> NodeGroup | None:
        """Create a node group. Return None in a dry run, which does not call the cloud."""

    def delete_node_group(self, group_id: str) -> bool: ...


class ServesRequests(Protocol):
    """The part of a provider that serves ProvisioningRequests of its own classes; raises ProviderError."""

    @property
    def name(self) -> str: ...
    def provision(self, request: spec.CloudProvisioningRequest) -> spec.ProvisioningVerdict | None:
        """Serve a request. Return None in a dry run, which does not call the cloud."""


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node as the API server shows it now (None: it is gone), its pods, and the workloads that own or protect them."""

    node: Node | None
    pods: tuple[Pod, ...] = ()
    workloads: Workloads = msgspec.field(default_factory=Workloads)


class GangView(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of one namespace as the API server shows them now, and the PodGroups of the cluster."""

    pods: tuple[Pod, ...] = ()
    groups: PodGroups = msgspec.field(default_factory=PodGroups)


class EvictionAnswer(StrEnum):
    """The API server's answer to an eviction request. GONE: the pod no longer exists."""

    ACCEPTED = "accepted"
    GONE = "gone"
    REFUSED = "refused"


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """The API server's answer. If it refused: its ``message``, and the seconds to wait before the next attempt."""

    answer: EvictionAnswer
    message: str = ""
    retry_after: float = 0.0


class NodeReader(Protocol):
    """Reads nodes directly from the API server, past every cache. Raises KubeApiError."""

    def get_node_view(self, node: str) -> NodeView:
        """Return the node, its pods and their workloads as they are now."""

    def get_gang_view(self, namespace: str) -> GangView:
        """Return the pods of a namespace as they are now, and the PodGroups."""

    def find_unlisted(self, node: str) -> tuple[Pod, ...]:
        """Return the pods that run on the node although a later list lacked them and no watch told of their end.

        Each is read by name. One that has ended is not asked for again.
        """

    def list_nodes(self) -> Iterator[Node]:
        """Yield every node of one consistent list as it is now; an error may come between two nodes."""


class ClusterWrites(Protocol):
    """Writes to the API server: nodes, evictions and the status of custom resources. Each raises KubeApiError."""

    def edit_node(self, name: str, edit: Callable[[Node], Node]) -> Node | None:
        """Change taints, cordon and annotations of a node: read it, apply ``edit``, write it.

        Retry after a conflict, for at most 5 seconds. Return the node as it was before the edit; None if there is no
        node of that name.
        """

    def evict(self, pod: Pod, grace_seconds: int) -> Eviction:
        """Request the eviction of this pod, and of no later pod with the same name."""

    def delete_pod(self, pod: Pod, grace_seconds: int) -> Eviction:
        """Delete this pod, also if a disruption budget does not allow it, and no later pod with the same name."""

    def write_conditions(
        self, request: ProvisioningRequest, conditions: Sequence[Condition], *, is_apply: bool
    ) -> None:
        """Write these conditions with server-side apply, beside those of other writers.

        Without ``is_apply`` write the whole status of ``request``.
        """

    def write_buffer_status(self, buffer: CapacityBuffer) -> None:
        """Write the buffer's whole status."""

    def write_quota_status(self, quota: CapacityQuota) -> None:
        """Write the quota's status, beside conditions of other writers."""

    def delete_request(self, request: ProvisioningRequest) -> None:
        """Delete this request if it still exists, and no later one with the same name."""
