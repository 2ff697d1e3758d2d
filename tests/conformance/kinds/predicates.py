"""Kind ``predicates``: on which nodes one pod fits, and what refuses it elsewhere."""

from collections.abc import Mapping
from typing import Any

from nodewright.model.cluster import (
    CsiDriver,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from nodewright.model.decode import convert_object
from nodewright.model.node import CsiNode, Node
from nodewright.model.objects import ClusterObjects
from nodewright.model.pod import Pod
from nodewright.predicates import explain, feasible
from nodewright.snapshot.context import Context
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

_OBJECTS: dict[str, tuple[str, type]] = {
    "namespaces": ("namespaces", Namespace),
    "persistentVolumes": ("persistent_volumes", PersistentVolume),
    "persistentVolumeClaims": ("persistent_volume_claims", PersistentVolumeClaim),
    "storageClasses": ("storage_classes", StorageClass),
    "csiNodes": ("csi_nodes", CsiNode),
    "csiDrivers": ("csi_drivers", CsiDriver),
    "volumeAttachments": ("volume_attachments", VolumeAttachment),
}


def check(case: Mapping[str, Any]) -> list[str]:
    """What differs from the decisions observed, node by node."""
    snapshot, results = _snapshot(case["input"]), case["expected"]["results"]
    pod = snapshot.class_of(convert_object(Pod, case["input"]["pod"]))
    mask = feasible(snapshot, pod)
    differences = (_compare(snapshot, pod, name, bool(mask[snapshot.row(name)]), results[name]) for name in results)
    return [difference for difference in differences if difference]


def _snapshot(given: Mapping[str, Any]) -> Snapshot:
    snapshot = Snapshot(_context(given.get("objects", {})))
    snapshot.add_nodes([convert_object(Node, node) for node in given["nodes"]])
    for manifest in given.get("scheduledPods", []):
        pod = convert_object(Pod, manifest)
        if pod.spec.node_name in snapshot:
            snapshot.place(snapshot.class_of(pod, placed=True), snapshot.row(pod.spec.node_name), pod=pod)
    return snapshot


def _context(objects: Mapping[str, list[Any]]) -> Context:
    unknown = sorted(set(objects) - set(_OBJECTS))
    if unknown:
        raise ValueError(f"no such objects are read: {', '.join(unknown)}")
    read: dict[str, tuple[Any, ...]] = {}
    for key, manifests in objects.items():
        field, wanted = _OBJECTS[key]
        read[field] = tuple(convert_object(wanted, manifest) for manifest in manifests)
    return Context.of(ClusterObjects(**read))


def _compare(snapshot: Snapshot, pod: PodClass, name: str, fits: bool, wanted: Mapping[str, Any]) -> str | None:
    rejection = explain(snapshot, pod, snapshot.row(name))
    if fits != (rejection is None):
        return f"{name}: mask and explanation disagree: {fits}, {rejection}"
    if fits != wanted["fits"]:
        return f"{name}: {rejection or 'fits'}, observed {wanted}"
    if rejection is None:
        return None
    reasons = sorted(rejection.reasons)
    if rejection.predicate != wanted.get("plugin", rejection.predicate) or reasons != wanted.get("reasons", reasons):
        return f"{name}: {rejection.predicate} {reasons}, observed {wanted}"
    return None
