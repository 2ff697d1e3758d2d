"""Our filters against the real kube-scheduler: each pod is placed by it, and judged by ours just before.

Half of the pods may use one node only, so that yes and no are both compared.
"""

import json
import time
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.e2e.cloud import RealClock
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import PATIENCE, wait_until

from nodewright.adapters.kube.caches import CacheOptions, Caches
from nodewright.adapters.kube.cluster import KubeCluster
from nodewright.adapters.kube.connection import connect
from nodewright.adapters.kube.resources import Resource
from nodewright.expander import CONFIG_MAP
from nodewright.model.pod import Pod
from nodewright.predicates import feasible
from nodewright.snapshot.snapshot import Snapshot

PODS, MERGE = "/api/v1/namespaces/default/pods", "application/merge-patch+json"
ZONES, DISKS, APPS = ("a", "b", "c"), ("ssd", "hdd"), ("web", "db", "job")
NODES, COUNT = 24, 500
FEATURE = "RestartAllContainersOnContainerExits"


def make_node(number: int, random: Random) -> dict[str, Any]:
    name = f"site-{number}"
    amounts = {"cpu": random.choice(["4", "8", "16"]), "memory": "32Gi", "pods": random.choice(["5", "30"])}
    if random.random() < 0.3:
        amounts["example.com/fpga"] = "2"
    taints = [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}] if random.random() < 0.3 else []
    if random.random() < 0.3:
        taints.append({"key": "loss", "value": random.choice(["0", "5", "50", "many"]), "effect": "NoSchedule"})
    labels = {"kubernetes.io/hostname": name, "disk": random.choice(DISKS), "size": str(number)}
    if random.random() < 0.9:
        labels["topology.kubernetes.io/zone"] = random.choice(ZONES)
    ready = [{"type": "Ready", "status": "False", "reason": "Booting"}]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": random.random() < 0.1},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": ready,
            "declaredFeatures": [FEATURE] if random.random() < 0.5 else [],
        },
    }


def make_pod(number: int, random: Random) -> dict[str, Any]:
    container = make_container(random)
    app = random.choice(APPS)
    spec: dict[str, Any] = {"containers": [container], "affinity": {}}
    if random.random() < 0.1:
        spec["resources"] = {"requests": {"cpu": random.choice(["3", "6"]), "memory": "4Gi"}}
    if random.random() < 0.4:
        spec["tolerations"] = [random.choice([{"key": "dedicated", "operator": "Exists"}, {"operator": "Exists"}])]
    if random.random() < 0.3:
        limit = {"operator": random.choice(["Gt", "Lt"]), "value": random.choice(["0", "5", "20"])}
        spec.setdefault("tolerations", []).append({"key": "loss", "effect": "NoSchedule", **limit})
    if random.random() < 0.2:
        spec["nodeSelector"] = {"disk": random.choice(DISKS)}
    if random.random() < 0.2:
        spec["affinity"]["nodeAffinity"] = make_node_affinity(random)
    if random.random() < 0.5:
        pin(spec["affinity"], f"site-{random.randrange(NODES)}")
    add_neighbours(spec["affinity"], app, random)
    if random.random() < 0.25:
        spec["topologySpreadConstraints"] = [make_spread(app, random)]
    return {"metadata": {"name": f"p{number}", "labels": {"app": app}}, "spec": spec}


def make_container(random: Random) -> dict[str, Any]:
    requests = {"cpu": random.choice(["100m", "500m", "1", "3"]), "memory": random.choice(["64Mi", "2Gi"])}
    container: dict[str, Any] = {"name": "c", "image": "none.invalid/c", "resources": {"requests": requests}}
    if random.random() < 0.1:
        container["resources"] = {
            "requests": {**requests, "example.com/fpga": "1"},
            "limits": {"example.com/fpga": "1"},
        }
    if random.random() < 0.1:
        container["ports"] = [{"containerPort": 80, "hostPort": random.choice([8000, 8001])}]
    if random.random() < 0.1:
        container["restartPolicy"] = "Never"
        exits = {"operator": "In", "values": [42]}
        container["restartPolicyRules"] = [{"action": "RestartAllContainers", "exitCodes": exits}]
    return container


def make_node_affinity(random: Random) -> dict[str, Any]:
    expression = random.choice(
        [
            {"key": "topology.kubernetes.io/zone", "operator": random.choice(["In", "NotIn"]), "values": ["a", "b"]},
            {"key": "size", "operator": random.choice(["Gt", "Lt"]), "values": ["5"]},
            {"key": "topology.kubernetes.io/zone", "operator": random.choice(["Exists", "DoesNotExist"])},
        ]
    )
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def pin(affinity: dict[str, Any], node: str) -> None:
    """To one node, as a DaemonSet's pods are: what else we would take for a place of the pod would not show."""
    required = affinity.setdefault("nodeAffinity", {}).setdefault(
        "requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [{}]}
    )
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    for term in required["nodeSelectorTerms"]:
        term["matchFields"] = fields


def add_neighbours(affinity: dict[str, Any], app: str, random: Random) -> None:
    """Pods of an app that this one wants near, or far."""
    key = random.choice(["kubernetes.io/hostname", "topology.kubernetes.io/zone"])
    for kind, share in (("podAffinity", 0.1), ("podAntiAffinity", 0.15)):
        if random.random() < share:
            term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": random.choice([app, *APPS])}}}
            affinity[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def make_spread(app: str, random: Random) -> dict[str, Any]:
    return {
        "maxSkew": random.choice([1, 2]),
        "topologyKey": random.choice(["topology.kubernetes.io/zone", "kubernetes.io/hostname"]),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
        "nodeTaintsPolicy": random.choice(["Ignore", "Honor"]),
        "nodeAffinityPolicy": random.choice(["Ignore", "Honor"]),
    }


@pytest.fixture
def caches(clean: ControlPlane) -> Iterator[Caches]:
    api = connect(kubeconfig=str(clean.kubeconfig()))
    held = Caches(api, RealClock(), Random(1), CacheOptions(config_maps=(CONFIG_MAP,)))
    held.start()
    assert held.wait_synced(PATIENCE)
    yield held
    held.stop()


def decide(plane: ControlPlane, name: str) -> tuple[str, str]:
    """The node that the scheduler chose, or its words when it found none."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        held = plane.request(f"{PODS}/{name}")
        if held["spec"].get("nodeName"):
            return held["spec"]["nodeName"], ""
        for condition in held["status"].get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return "", condition["message"]
    pytest.fail("the scheduler does not decide")


def candidates(snapshot: Snapshot, pod: Pod) -> set[str]:
    return {snapshot.name(int(row)) for row in np.flatnonzero(feasible(snapshot, snapshot.class_of(pod)))}


def count_ready(caches: Caches) -> int:
    nodes = [
        node for node in caches.of("Node").all() if not any("not-ready" in taint.key for taint in node.spec.taints)
    ]
    return sum(c.type == "Ready" and c.status == "True" for node in nodes for c in node.status.conditions)


def is_bound(caches: Caches, key: str) -> bool:
    held = caches.of("Pod").get(key)
    return held is not None and bool(held.spec.node_name)


def resize(plane: ControlPlane, name: str, random: Random) -> str:
    """Ask for another amount of cpu for a running pod; the kubelet keeps the old one, or refuses for good. No more than a node has."""
    own = f"{PODS}/{name}"
    wait_until(lambda: plane.request(own)["status"]["phase"] == "Running", "the pod running")
    held = plane.request(own)
    had = held["spec"]["containers"][0]["resources"]["requests"]
    [status] = held["status"]["containerStatuses"]
    told: dict[str, Any] = {
        "containerStatuses": [{**status, "allocatedResources": had, "resources": {"requests": had}}]
    }
    if random.random() < 0.3:
        refusal = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
        told["conditions"] = [*held["status"]["conditions"], refusal]
    plane.request(f"{own}/status", method="PATCH", body={"status": told}, content=MERGE)
    cpu = random.choice(["50m", "1500m", "3500m"])
    wanted = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    body = {"spec": {"containers": wanted}}
    changed = plane.request(
        f"{own}/resize", method="PATCH", body=body, content="application/strategic-merge-patch+json"
    )
    version: str = changed["metadata"]["resourceVersion"]
    return version


def has_version(caches: Caches, key: str, version: str) -> bool:
    held = caches.of("Pod").get(key)
    return held is not None and int(held.metadata.resource_version) >= int(version)


def is_gone(caches: Caches, key: str) -> bool:
    return caches.of("Pod").get(key) is None


def test_no_disagreement(clean: ControlPlane, caches: Caches) -> None:
    random = Random(20_261_122)
    for number in range(NODES):
        clean.request("/api/v1/nodes", method="POST", body=make_node(number, random))
    cluster = KubeCluster(connect(kubeconfig=str(clean.kubeconfig())), caches, max_age=1e9)
    wait_until(lambda: count_ready(caches) == NODES, "ready nodes in the cache")
    resource: Resource[Pod] = Resource("Pod")
    placed = resized = 0
    for number in range(COUNT):
        body = make_pod(number, random)
        snapshot = cluster.read(RealClock().now()).snapshot
        created = clean.request(PODS, method="POST", body=body)  # with the API server's defaults
        node, why = decide(clean, f"p{number}")
        key = f"default/p{number}"
        ours = candidates(snapshot, resource.decode(json.dumps(created).encode()))
        if node:
            assert node in ours, (body, node)
            placed += 1
            wait_until(partial(is_bound, caches, key), "the pod in the cache")
            if "resources" not in body["spec"] and random.random() < 0.2:
                version = resize(clean, f"p{number}", random)
                wait_until(partial(has_version, caches, key, version), "the other amount in the cache")
                resized += 1
        else:
            assert not ours, (body, why)
            clean.request(f"{PODS}/p{number}", method="DELETE", body={"gracePeriodSeconds": 0})
            wait_until(partial(is_gone, caches, key), "its end in the cache")
    assert COUNT / 8 < placed < COUNT
    assert resized
