"""Everything that one loop reads: nodes and pods, groups with their prices, and custom resources."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nodewright.model.capability import Capability
from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.cluster import (
    DaemonSet,
    Deployment,
    ResourceQuota,
)
from nodewright.model.disruption import NO_DISRUPTION_CONFIG, DisruptionConfig
from nodewright.model.gang import PodGroups
from nodewright.model.group import (
    FailedInstance,
    GroupOptions,
    GroupRef,
    Instance,
    InstanceState,
    MachineType,
    NodeGroup,
    Price,
)
from nodewright.model.interruption import Interruption
from nodewright.model.node import Node
from nodewright.model.objects import ClusterObjects
from nodewright.model.pod import Pod
from nodewright.model.price_book import ReservedInstances
from nodewright.model.provisioning_request import PodTemplate, ProvisioningClass, ProvisioningRequest
from nodewright.model.removal import Removing
from nodewright.snapshot.context import Workloads
from nodewright.snapshot.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class Buffers:
    """``buffers`` in the order in which they were listed, ``templates`` and ``deployments`` by ``namespace/name``."""

    buffers: tuple[CapacityBuffer, ...] = ()
    templates: Mapping[str, PodTemplate] = field(default_factory=dict)
    deployments: Mapping[str, Deployment] = field(default_factory=dict)
    quotas: tuple[ResourceQuota, ...] = ()

    @staticmethod
    def of(objects: ClusterObjects) -> "Buffers":
        return Buffers(
            buffers=objects.capacity_buffers,
            templates={one.key: one for one in objects.pod_templates},
            deployments={one.key: one for one in objects.deployments},
            quotas=objects.resource_quotas,
        )


@dataclass(frozen=True, kw_only=True)
class Provisioning:
    """``requests`` in the order of the list call, ``templates`` by ``namespace/name``, ``classes`` of requests."""

    requests: tuple[ProvisioningRequest, ...] = ()
    templates: Mapping[str, PodTemplate] = field(default_factory=dict)
    classes: tuple[ProvisioningClass, ...] = ()

    @staticmethod
    def of(objects: ClusterObjects) -> "Provisioning":
        return Provisioning(
            requests=objects.provisioning_requests,
            templates={one.key: one for one in objects.pod_templates},
            classes=objects.provisioning_classes,
        )


@dataclass(frozen=True, kw_only=True)
class GroupSeen:
    """A node group as its provider described it.

    ``target`` and ``instances`` are None if they could not be read, and ``problem`` says why: such a group is Unknown and
    gets no writes. ``failed`` is None if the provider does not report failures (no capability), and empty if nothing
    failed. ``disputed`` are reports of failed creations of machines that ran: these machines are in ``instances``.
    ``listed_price`` is the provider's price of the next machine, and ``price`` the one that planning uses, in USD; None:
    unknown, and ``price_problem`` says why a listed price is not used. ``reserved`` are machines that the operator pays for
    anyway, to which the group's machines belong.
    While schedules change ``group`` or ``options``, ``stated`` are those of the provider; ``is_min_scheduled``: the minimum is
    that of a schedule, to which the group grows; ``consolidates``: its nodes may be given up for cheaper ones.
    """

    ref: GroupRef
    group: NodeGroup
    capabilities: frozenset[Capability] = frozenset()
    target: int | None = None
    instances: tuple[Instance, ...] | None = None
    failed: tuple[FailedInstance, ...] | None = None
    disputed: tuple[FailedInstance, ...] = ()
    template: Node | None = None
    options: GroupOptions = field(default_factory=GroupOptions)
    listed_price: Price | None = None
    price: Price | None = None
    price_problem: str = ""
    reserved: ReservedInstances | None = None
    stated: tuple[NodeGroup, GroupOptions] | None = None
    is_min_scheduled: bool = False
    consolidates: bool = True
    problem: str = ""

    @property
    def hourly_price(self) -> float | None:
        """Return the price in USD; None: not known."""
        return self.price.per_hour if self.price is not None else None

    @property
    def is_known(self) -> bool:
        return self.target is not None and self.instances is not None

    @property
    def staying(self) -> tuple[Instance, ...]:
        """Return the machines that are not on their way out; none where they could not be read."""
        return tuple(one for one in self.instances or () if one.state != InstanceState.DELETING)


def paid_machines(reserved: ReservedInstances | None, groups: Iterable[GroupSeen]) -> int:
    """Return how many of the paid machines no group uses. That many further machines cost nothing."""
    if reserved is None:
        return 0
    used = sum(group.target or 0 for group in groups if group.reserved == reserved)
    return max(0, reserved.count - used)


@dataclass(frozen=True, kw_only=True)
class ProviderSeen:
    """The facts that a provider returned about itself; ``problem`` is set if its refresh failed.

    ``gpu_types`` are the values that ``gpu_label`` may have, also those that no node has now.
    ``provisioning_classes`` are the names of the classes of requests that it provisions itself. It creates groups from
    ``machine_types``; these groups have its ``capabilities``. ``interruptions`` are the notices about its machines;
    if they cannot be read, ``notice_problem`` says why, and they are the last known ones. ``named`` are the names in --nodes
    whose groups it had when it was last read.
    """

    name: str
    ignores_id_case: bool = False
    ignored_labels: tuple[str, ...] = ()
    same_group_labels: tuple[str, ...] = ()
    gpu_label: str = ""
    gpu_types: tuple[str, ...] = ()
    gpu_resources: tuple[str, ...] = ()
    provisioning_classes: tuple[str, ...] = ()
    machine_types: tuple[MachineType, ...] = ()
    capabilities: frozenset[Capability] = frozenset()
    interruptions: tuple[Interruption, ...] = ()
    notice_problem: str = ""
    problem: str = ""
    named: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The state of cluster and clouds at ``now`` (seconds since the epoch). The snapshot has all nodes and their pods.

    ``pending`` are pods without a node, in arrival order. ``priorities`` is the text of the priority expander's
    ConfigMap. ``removing`` are the removals in progress by node name, as of before the reads of this loop. ``quotas``
    are the CapacityQuotas in the order of the list call. ``disruption`` are the operator's disruption budgets and schedules, of
    which the next one begins or ends at ``next_edge`` (epoch seconds; inf: none does).
    """

    now: float
    snapshot: Snapshot
    pending: tuple[Pod, ...] = ()
    groups: Mapping[GroupRef, GroupSeen] = field(default_factory=dict)
    providers: Mapping[str, ProviderSeen] = field(default_factory=dict)
    daemon_sets: tuple[DaemonSet, ...] = ()
    priorities: str | None = None
    workloads: Workloads = field(default_factory=Workloads)
    removing: Mapping[str, Removing] = field(default_factory=dict)
    provisioning: Provisioning = field(default_factory=Provisioning)
    quotas: tuple[CapacityQuota, ...] = ()
    buffers: Buffers = field(default_factory=Buffers)
    pod_groups: PodGroups = field(default_factory=PodGroups)
    disruption: DisruptionConfig = NO_DISRUPTION_CONFIG
    next_edge: float = math.inf


@dataclass(frozen=True, kw_only=True)
class HourlyCost:
    """The cost of machines, in USD an hour, by group. ``unpriced`` groups have machines and no price; they are not counted."""

    by_group: Mapping[GroupRef, float]
    unpriced: tuple[GroupRef, ...] = ()

    @property
    def total(self) -> float:
        return sum(self.by_group.values())


def hourly_cost(
    groups: Iterable[GroupSeen], sizes: Mapping[GroupRef, int], unused: Mapping[str, int] | None = None
) -> HourlyCost:
    """Return the cost of these numbers of machines of each group.

    Machines that are already paid for cost nothing: as many as ``unused`` has under their name, or all that are reserved.
    """
    found, unpriced, paid = dict[GroupRef, float](), list[GroupRef](), dict(unused or {})
    for seen in groups:
        count = sizes.get(seen.ref, 0)
        if seen.hourly_price is None:
            unpriced += [seen.ref] if count else []
            continue
        free = 0
        if seen.reserved is not None:
            left = paid.setdefault(seen.reserved.name, seen.reserved.count)
            free = min(count, left)
            paid[seen.reserved.name] = left - free
        found[seen.ref] = (count - free) * seen.hourly_price
    return HourlyCost(by_group=found, unpriced=tuple(unpriced))
