"""Kind ``binpacking``: packing pending pods on copies of one template."""

from collections.abc import Mapping
from typing import Any

from nodewright.estimator.binpacking import Estimate, Template, estimate
from nodewright.estimator.pod_group import group_pods
from nodewright.model.decode import convert_object
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.snapshot.snapshot import Snapshot


def check(case: Mapping[str, Any]) -> list[str]:
    """What differs from the expected estimate; empty when nothing does."""
    found = _run(case["input"])
    got: dict[str, Any] = {
        "nodeCount": found.node_count,
        "scheduledPods": sorted(pod.key for pod in found.pods),
        "packing": [sorted(pod.key for pod in pods) for pods in found.packing],
    }
    return [f"{k}: expected {v}, got {got[k]}" for k, v in case["expected"].items() if got[k] != v]


def _run(given: Mapping[str, Any]) -> Estimate:
    snapshot = Snapshot()
    snapshot.add_nodes([convert_object(Node, node) for node in given.get("existingNodes", ())])
    for manifest in given.get("existingPods", ()):
        pod = convert_object(Pod, manifest)
        snapshot.place(snapshot.class_of(pod, placed=True), snapshot.row(pod.spec.node_name), pod=pod)
    template = given["template"]
    daemons = tuple(convert_object(Pod, pod) for pod in template.get("pods", ()))
    groups = group_pods([convert_object(Pod, pod) for pod in given["pendingPods"]], snapshot)
    return estimate(
        snapshot,
        Template(convert_object(Node, template["node"]), daemons),
        groups,
        given["maxNodes"],
        fastpath=given.get("fastpath", False),
    )
