"""Nodes, pods and clusters as manifests say them, and what is refused there."""

from collections.abc import Mapping, Sequence
from typing import Any

from nodewright.model.decode import convert_object
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL, Node
from nodewright.model.pod import Pod
from nodewright.predicates import explain, feasible
from nodewright.predicates.predicate import Predicate
from nodewright.snapshot.context import Context
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

Manifest = Mapping[str, Any]
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


def assert_agreement(predicate: Predicate, snapshot: Snapshot, pod_class: PodClass) -> None:
    """The mask is true exactly where the explanation is None; asked over the whole and over a part."""
    if predicate.refuse_pod(snapshot, pod_class) is not None:
        return  # neither is asked about a pod that is turned away
    size = len(snapshot)
    for window in (slice(0, size), slice(size // 3, size - size // 4), slice(size, size)):
        mask = predicate.mask(snapshot, pod_class, window)
        for row in range(window.start, window.stop):
            if snapshot.alive[row]:
                passes = mask is None or bool(mask[row - window.start])
                explanation = predicate.explain(snapshot, pod_class, row)
                assert passes == (explanation is None), (snapshot.name(row), explanation)
                assert predicate.concerns(pod_class) or passes
