"""The objects beside nodes and pods that predicates look up: volumes, classes, namespaces."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nodewright.model.cluster import CsiDriver, CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass
from nodewright.model.objects import ClusterObjects


@dataclass(frozen=True, kw_only=True)
class Context:
    """Claims by ``namespace/name``, everything else by name; of namespaces their labels.

    ``ending_namespaces`` are those that are being deleted. ``memo`` caches what predicates derive from these objects.
    """

    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ending_namespaces: frozenset[str] = frozenset()
    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    storage_classes: Mapping[str, StorageClass] = field(default_factory=dict)
    csi_nodes: Mapping[str, CsiNode] = field(default_factory=dict)
    csi_drivers: Mapping[str, CsiDriver] = field(default_factory=dict)
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
        )
