"""Ports of the observe package, as Protocols; the adapters implement them."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nodewright.model.capability import Capability
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.cluster import DaemonSet
from nodewright.model.disruption import NO_DISRUPTION_CONFIG, DisruptionConfig
from nodewright.model.gang import PodGroups
from nodewright.model.group import (
    FailedInstance,
    GroupOptions,
    Instance,
    MachineType,
    NodeGroup,
    NodeTemplate,
    Price,
    ProviderInfo,
)
from nodewright.model.interruption import Interruption
from nodewright.model.pod import Pod
from nodewright.model.price_book import PriceBook
from nodewright.snapshot.context import Workloads
from nodewright.snapshot.observation import Buffers, Provisioning
from nodewright.snapshot.snapshot import Snapshot
from nodewright.spec.hooks import CloudProvisioningClass


@dataclass(frozen=True, kw_only=True)
class ClusterObservation:
    """The Kubernetes objects of the cluster at one moment.

    ``snapshot`` holds every node and the pods on it, bound or nominated, without those that ended; the caller owns it
    and may change it. ``pending`` are pods without a node, in arrival order. ``priorities`` is the text of the priority
    expander's ConfigMap; None: there is none. ``problem`` is the reason why nothing may be done because of this
    observation; empty: it may.
    """

    snapshot: Snapshot
    pending: tuple[Pod, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    priorities: str | None = None
    workloads: Workloads = field(default_factory=Workloads)
    provisioning: Provisioning = field(default_factory=Provisioning)
    quotas: tuple[CapacityQuota, ...] = ()
    buffers: Buffers = field(default_factory=Buffers)
    pod_groups: PodGroups = field(default_factory=PodGroups)
    problem: str = ""


class ClusterReader(Protocol):
    """Reads the cluster from the API server."""

    def read(self, now: float) -> ClusterObservation:
        """Return the cluster at ``now`` (epoch seconds). Raise KubeApiError if it cannot be read."""


class PriceReader(Protocol):
    """Reads the operator's own prices."""

    def read(self) -> PriceBook: ...


class DisruptionReader(Protocol):
    """Reads the operator's disruption budgets and schedules."""

    def read(self) -> DisruptionConfig: ...


class NoDisruption:
    """The operator has neither budgets nor schedules."""

    def read(self) -> DisruptionConfig:
        """Return an empty file."""
        return NO_DISRUPTION_CONFIG


class NoPrices:
    """The operator has no prices of their own."""

    def read(self) -> PriceBook:
        """Return an empty book."""
        return PriceBook()


class ProviderReads(Protocol):
    """The reads of one provider; each may raise ProviderError. None means "not supported"."""

    @property
    def name(self) -> str: ...
    @property
    def info(self) -> ProviderInfo: ...
    def capabilities(self, group: NodeGroup) -> frozenset[Capability]: ...
    def refresh(self, wanted: frozenset[str] = frozenset()) -> None: ...
    def node_groups(self) -> Sequence[NodeGroup]: ...
    def names_of(self, known: Container[str]) -> frozenset[str]: ...
    def target_size(self, group_id: str) -> int: ...
    def instances(self, group_id: str) -> tuple[Instance, ...]: ...
    def failed_instances(self, group_id: str) -> tuple[FailedInstance, ...] | None: ...
    def template_node(self, group_id: str) -> NodeTemplate: ...
    def group_options(self, group_id: str, defaults: GroupOptions) -> GroupOptions: ...
    def node_price(self, group_id: str) -> Price | None: ...
    def ignored_labels(self) -> tuple[str, ...] | None: ...
    def same_group_labels(self) -> tuple[str, ...] | None: ...
    def gpu_label(self) -> str | None: ...
    def gpu_types(self) -> tuple[str, ...] | None: ...
    def gpu_resources(self) -> tuple[str, ...] | None: ...
    def machine_types(self) -> tuple[MachineType, ...] | None: ...
    def provisioning_classes(self) -> tuple[CloudProvisioningClass, ...] | None: ...
    def interruptions(self) -> tuple[Interruption, ...] | None: ...
