"""Nodes, pods and clusters as manifests say them, and what is refused there."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from nodewright.model.cluster import (
    ClaimReference,
    CsiDriver,
    CsiStorageCapacity,
    CsiVolume,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    StorageClass,
    VolumeAttachment,
    VolumePhase,
)
from nodewright.model.decode import convert_object
from nodewright.model.meta import Object, ObjectMeta
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL, CsiNode, Node
from nodewright.model.objects import ClusterObjects
from nodewright.model.pod import Pod, ResourceRequirements
from nodewright.model.quantity import Quantity
from nodewright.predicates import explain, feasible
from nodewright.predicates.predicate import Predicate
from nodewright.snapshot.context import Context
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

T = TypeVar("T", bound=Object)
Reference = Callable[[Snapshot, PodClass, int], tuple[str, ...] | None]
Manifest = Mapping[str, Any]
NOW = datetime(2026, 11, 21, tzinfo=UTC)
ROOMY = {"cpu": "16", "memory": "64Gi", "pods": "110"}


def node(name: str, zone: str = "", offers: Manifest = ROOMY, **extras: Any) -> Node:
    """``extras``: labels, and fields of the spec."""
    labels = {HOSTNAME_LABEL: name, **({ZONE_LABEL: zone} if zone else {}), **extras.pop("labels", {})}
    manifest = {"metadata": {"name": name, "labels": labels}, "spec": extras, "status": {"allocatable": offers}}
    return convert_object(Node, manifest)


def pod(name: str = "p", labels: Manifest | None = None, namespace: str = "default", **spec: Any) -> Pod:
    """``spec``: fields of the spec; ``requests`` stands for one container that asks for them."""
    if "requests" in spec:
        spec["containers"] = [{"resources": {"requests": spec.pop("requests")}}]
    return convert_object(
        Pod, {"metadata": {"name": name, "namespace": namespace, "labels": labels or {}}, "spec": spec}
    )


def cluster(*nodes: Node, placed: Sequence[tuple[Pod, str]] = (), context: Context | None = None) -> Snapshot:
    """Nodes, and pods on them by node name."""
    snapshot = Snapshot(context)
    snapshot.add_nodes(list(nodes))
    for other, name in placed:
        snapshot.place(snapshot.class_of(other, placed=True), snapshot.row(name))
    return snapshot


def refusals(snapshot: Snapshot, asked: Pod) -> dict[str, str]:
    """Node name → plugin and reasons, for every node that does not take the pod."""
    pod_class = snapshot.class_of(asked)
    found = {}
    for row, there in snapshot.nodes():
        rejection = explain(snapshot, pod_class, row)
        assert bool(feasible(snapshot, pod_class)[row]) == (rejection is None)
        if rejection is not None:
            found[there.name] = f"{rejection.predicate}: {', '.join(rejection.reasons)}"
    return found


def assert_agreement(
    predicate: Predicate[Any], snapshot: Snapshot, pod_class: PodClass, reference: Reference | None = None
) -> None:
    """The mask is true exactly where the explanation is None; asked over the whole and over a part.

    A ``reference`` gives the explanation from scratch.
    """
    if predicate.refuse_pod(snapshot, pod_class) is not None:
        return  # neither is asked about a pod that is turned away
    size = len(snapshot)
    for window in (slice(0, size), slice(size // 3, size - size // 4), slice(size, size)):
        mask = predicate.mask(snapshot, predicate.reads(pod_class), window)
        for row in range(window.start, window.stop):
            if snapshot.alive[row]:
                passes = mask is None or bool(mask[row - window.start])
                explanation = predicate.explain(snapshot, pod_class, row)
                assert passes == (explanation is None), (snapshot.name(row), explanation)
                assert predicate.concerns(pod_class) or passes
                assert reference is None or explanation == reference(snapshot, pod_class, row)


def claim(name: str, volume: str = "", *, bound: bool = True, **extras: Any) -> PersistentVolumeClaim:
    """``extras``: storage_class, size (units, None: not said), access_modes, annotations, phase, deleted."""
    said = {"pv.kubernetes.io/bind-completed": "yes"} if volume and bound else {}
    size = extras.get("size", 1)
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            annotations={**said, **extras.get("annotations", {})},
            deletion_timestamp=NOW if extras.get("deleted") else None,
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=extras.get("access_modes", ("ReadWriteOnce",)),
            resources=ResourceRequirements(requests={} if size is None else {"storage": Quantity.of(size)}),
            storage_class_name=extras.get("storage_class"),
            volume_name=volume,
        ),
        status=VolumePhase(phase=extras.get("phase", "Bound")),
    )


def volume(name: str, *, labels: Mapping[str, str] | None = None, **extras: Any) -> PersistentVolume:
    """``extras``: node_affinity, storage_class, size, handle (of a CSI volume), reserved_for (a claim), phase."""
    handle, reserved = extras.get("handle"), extras.get("reserved_for")
    return PersistentVolume(
        metadata=ObjectMeta(name=name, labels=dict(labels or {})),
        spec=PersistentVolumeSpec(
            capacity={"storage": Quantity.of(extras.get("size", 1))},
            access_modes=("ReadWriteOnce",),
            storage_class_name=extras.get("storage_class", ""),
            node_affinity=extras.get("node_affinity"),
            csi=CsiVolume(driver="csi", volume_handle=handle) if handle else None,
            claim_ref=ClaimReference(name=reserved, namespace="default") if reserved else None,
        ),
        status=VolumePhase(phase=extras.get("phase", "Available")),
    )


def storage_class(name: str, mode: str | None = "WaitForFirstConsumer", **extras: Any) -> StorageClass:
    return StorageClass(
        metadata=ObjectMeta(name=name),
        provisioner=extras.get("provisioner", "csi"),
        volume_binding_mode=mode,
        allowed_topologies=extras.get("allowed_topologies", ()),
    )


def volume_context(*objects: Object) -> Context:
    """What beside nodes and pods is there, by kind."""

    def having(wanted: type[T]) -> tuple[T, ...]:
        return tuple(found for found in objects if isinstance(found, wanted))

    return Context.of(
        ClusterObjects(
            persistent_volume_claims=having(PersistentVolumeClaim),
            persistent_volumes=having(PersistentVolume),
            storage_classes=having(StorageClass),
            csi_nodes=having(CsiNode),
            csi_drivers=having(CsiDriver),
            csi_storage_capacities=having(CsiStorageCapacity),
            volume_attachments=having(VolumeAttachment),
        )
    )
