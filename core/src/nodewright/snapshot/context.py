"""The objects beside nodes and pods: what predicates look up (volumes, devices, classes, namespaces), controllers and budgets.

The test kit imports it without numpy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nodewright.model.cluster import (
    CsiDriver,
    CsiStorageCapacity,
    DaemonSet,
    Job,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
)
from nodewright.model.devices import (
    CLASS_RESOURCE_PREFIX,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from nodewright.model.gang import GangRef, RunningGang
from nodewright.model.node import CsiNode
from nodewright.model.objects import ClusterObjects


@dataclass(frozen=True, kw_only=True)
class Context:
    """Objects that predicates look up: claims by ``namespace/name``, all others by name; namespaces give their labels.

    ``ending_namespaces`` are those that are being deleted. ``device_resources`` are the extended resources that device
    classes serve. ``memo`` caches what predicates derive from these objects.
    """

    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ending_namespaces: frozenset[str] = frozenset()
    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    storage_classes: Mapping[str, StorageClass] = field(default_factory=dict)
    csi_nodes: Mapping[str, CsiNode] = field(default_factory=dict)
    csi_drivers: Mapping[str, CsiDriver] = field(default_factory=dict)
    storage_capacities: tuple[CsiStorageCapacity, ...] = ()
    volume_attachments: tuple[VolumeAttachment, ...] = ()
    resource_slices: tuple[ResourceSlice, ...] = ()
    device_classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    device_resources: Mapping[str, DeviceClass] = field(default_factory=dict)
    device_claims: Mapping[str, ResourceClaim] = field(default_factory=dict)
    claim_templates: Mapping[str, ResourceClaimTemplate] = field(default_factory=dict)
    device_taint_rules: tuple[DeviceTaintRule, ...] = ()
    memo: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @staticmethod
    def of(objects: ClusterObjects) -> "Context":
        return Context(
            namespaces={n.name: n.metadata.labels for n in objects.namespaces},
            ending_namespaces=frozenset(n.name for n in objects.namespaces if n.is_ending),
            claims={c.key: c for c in objects.persistent_volume_claims},
            volumes={v.name: v for v in objects.persistent_volumes},
            storage_classes={s.name: s for s in objects.storage_classes},
            csi_nodes={n.name: n for n in objects.csi_nodes},
            csi_drivers={d.name: d for d in objects.csi_drivers},
            storage_capacities=objects.csi_storage_capacities,
            volume_attachments=objects.volume_attachments,
            resource_slices=objects.resource_slices,
            device_classes={c.name: c for c in objects.device_classes},
            device_resources=_resources_of(objects.device_classes),
            device_claims={c.key: c for c in objects.resource_claims},
            claim_templates={t.key: t for t in objects.resource_claim_templates},
            device_taint_rules=objects.device_taint_rules,
        )

    def slices_on(self, node: str) -> tuple[ResourceSlice, ...]:
        """Return the slices that name a node."""
        held: dict[str, list[ResourceSlice]] | None = self.memo.get(Context.slices_on)
        if held is None:
            held = self.memo[Context.slices_on] = {}
            for one in self.resource_slices:
                if one.spec.node_name:
                    held.setdefault(one.spec.node_name, []).append(one)
        return tuple(held.get(node, ()))

    def only_devices(self) -> "Context":
        """Return a context that has only the devices and the claims for them."""
        return Context(
            resource_slices=self.resource_slices,
            device_classes=self.device_classes,
            device_resources=self.device_resources,
            device_claims=self.device_claims,
            claim_templates=self.claim_templates,
            device_taint_rules=self.device_taint_rules,
        )


def _resources_of(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Return the class of each extended resource: of several classes the newest, then the first by name."""
    found: dict[str, DeviceClass] = {}
    for one in sorted(classes, key=lambda one: (-one.created, one.name)):
        if one.spec.extended_resource_name:
            found.setdefault(one.spec.extended_resource_name, one)
        found[CLASS_RESOURCE_PREFIX + one.name] = one
    return found


Controller = ReplicaSet | ReplicationController | StatefulSet | Job | DaemonSet


@dataclass(frozen=True, kw_only=True)
class Workloads:
    """``controllers`` maps (kind, ``namespace/name``) to the object.

    None: controllers were not listed, and every controller that a pod names is assumed to exist. ``gangs`` are those with
    running pods.
    """

    controllers: Mapping[tuple[str, str], Controller] | None = None
    budgets: tuple[PodDisruptionBudget, ...] = field(default=())
    gangs: Mapping[GangRef, RunningGang] = field(default_factory=dict)

    @staticmethod
    def of(objects: ClusterObjects, *, listed: bool = True) -> "Workloads":
        """Return the workloads of a list call; ``listed`` says whether controllers were listed at all."""
        held: tuple[Iterable[Controller], ...] = (
            objects.replica_sets,
            objects.replication_controllers,
            objects.stateful_sets,
            objects.jobs,
            objects.daemon_sets,
        )
        controllers = {(type(one).__name__, one.key): one for kind in held for one in kind}
        return Workloads(controllers=controllers if listed else None, budgets=objects.pod_disruption_budgets)
