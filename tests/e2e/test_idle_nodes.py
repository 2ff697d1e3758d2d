"""Pods that depend on others, or that cannot be helped, on the real scheduler: no node is bought that stays idle."""

import urllib.error
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from tests.e2e.cloud import SharedCloud
from tests.e2e.conftest import StartDaemon, make_group
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import DaemonProcess, wait_until
from tests.e2e.farm_files import ENDS_AFTER
from tests.e2e.test_scale_up import deploy

from nodewright_fake import GroupConfig

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
# The cores of the groups of each case. Its pods choose them by the label ``case``, so that cases do not meet.
CASES: dict[str, tuple[float, ...]] = {
    "spread": (4.0, 16.0, 8.0),
    "company": (4.0, 16.0, 8.0),
    "tenants": (4.0, 16.0, 8.0),
    "preempted": (4.0,),
    "ending": (4.0,),
}
OTHER_TEAM, ENDING = "other-team", "ending"
# So many loops without a purchase, once all pods run, show that there will be none.
FURTHER_LOOPS = 5
MERGE = "application/merge-patch+json"


@pytest.fixture
def groups() -> tuple[GroupConfig, ...]:
    """Each group in a zone of its own."""
    return tuple(
        replace(make_group(f"{case}-{number}", zone=f"{case}-{number}"), cpu=cores, labels={"case": case})
        for case, sizes in CASES.items()
        for number, cores in enumerate(sizes)
    )


@pytest.fixture
def namespaces(clean: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with a namespace of another team, and one to delete."""
    for name in (OTHER_TEAM, ENDING):
        clean.request("/api/v1/namespaces", method="POST", body={"metadata": {"name": name, "labels": {"team": name}}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"  # no pod can be created without it
        wait_until(partial(exists, clean, account), "a service account")
    yield clean
    if exists(clean, held := pod_path("held", ENDING)):
        clean.request(held, method="PATCH", body={"metadata": {"finalizers": None}}, content=MERGE)
    for name in (OTHER_TEAM, ENDING):
        clean.request(f"/api/v1/namespaces/{name}/pods", method="DELETE", body={"gracePeriodSeconds": 0})
        if exists(clean, f"/api/v1/namespaces/{name}"):
            clean.request(f"/api/v1/namespaces/{name}", method="DELETE")


def exists(plane: ControlPlane, path: str) -> bool:
    try:
        plane.request(path)
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return False
    return True


def pod_path(name: str, namespace: str = "default") -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def create_pod(
    plane: ControlPlane,
    name: str,
    case: str,
    cpu: str,
    *,
    namespace: str = "default",
    metadata: dict[str, Any] | None = None,
    **spec: Any,
) -> None:
    container = {"name": "c", "image": "none.invalid/c", "resources": {"requests": {"cpu": cpu}}}
    selector = {"case": case, **spec.pop("nodeSelector", {})}
    body = {
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [container], "nodeSelector": selector, **spec},
    }
    plane.request(pod_path("", namespace).rstrip("/"), method="POST", body=body)


def spread_by_zone_and_host(plane: ControlPlane) -> None:
    """Six pods: two in each of three zones, each on a node of its own."""
    match = {"labelSelector": {"matchLabels": {"app": "spread"}}, "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}
    constraints = [{"topologyKey": ZONE, "minDomains": 3, **match}, {"topologyKey": HOST, **match}]
    deploy(plane, "spread", 6, "500m", nodeSelector={"case": "spread"}, topologySpreadConstraints=constraints)


def seek_company_of_another_namespace(plane: ControlPlane) -> None:
    """The pod that seeks company fits beside the other one on 8 cores alone."""
    term = {
        "topologyKey": ZONE,
        "labelSelector": {"matchLabels": {"role": "database"}},
        "namespaceSelector": {"matchLabels": {"team": OTHER_TEAM}},
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    labels = {"labels": {"role": "database"}}
    selector = {ZONE: "company-2"}
    create_pod(plane, "database", "company", "500m", namespace=OTHER_TEAM, metadata=labels, nodeSelector=selector)
    create_pod(plane, "seeks", "company", "7500m", affinity=affinity)


def keep_tenants_apart(plane: ControlPlane) -> None:
    """Two pods of tenant a may share a node, and the pod of tenant b needs another zone."""
    anybody = {"matchExpressions": [{"key": "tenant", "operator": "Exists"}]}
    term = {"topologyKey": ZONE, "labelSelector": anybody, "mismatchLabelKeys": ["tenant"]}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for name in ("a-1", "b-1", "a-2"):
        create_pod(plane, name, "tenants", "500m", metadata={"labels": {"tenant": name[0]}}, affinity=affinity)


def let_the_scheduler_try_again(plane: ControlPlane) -> None:
    """Touch the pod that seeks company once the other one has a node.

    kube-scheduler 1.36 compares a pod that was bound with its term as if that had no namespaceSelector, and would
    leave the pod alone for five minutes.
    """
    wait_until(
        lambda: plane.request(pod_path("database", OTHER_TEAM))["spec"].get("nodeName"), "a node for the database"
    )
    touch = {"metadata": {"labels": {"touched": "yes"}}}
    plane.request(pod_path("seeks"), method="PATCH", body=touch, content=MERGE)


def hold_a_pod_in_an_ending_namespace(plane: ControlPlane) -> None:
    """It was gated when its namespace was deleted, and a finalizer keeps it there."""
    held = {"finalizers": ["example.com/hold"]}
    gates = [{"name": "example.com/gate"}]
    create_pod(plane, "held", "ending", "1", namespace=ENDING, metadata=held, schedulingGates=gates)
    plane.request(f"/api/v1/namespaces/{ENDING}", method="DELETE")
    open_gate: dict[str, Any] = {"spec": {"schedulingGates": []}}
    plane.request(pod_path("held", ENDING), method="PATCH", body=open_gate, content=MERGE)


def list_pods(plane: ControlPlane) -> list[Any]:
    return [pod for pod in plane.request("/api/v1/pods")["items"] if pod["metadata"]["namespace"] != ENDING]


def all_run(plane: ControlPlane, count: int) -> bool:
    phases = [pod["status"]["phase"] for pod in list_pods(plane) if "deletionTimestamp" not in pod["metadata"]]
    return phases == ["Running"] * count


def count_loops(daemon: DaemonProcess) -> int:
    return len(daemon.says("loop"))


def count_machines(shared: SharedCloud) -> Counter[str]:
    """Return how many machines each case was given."""
    with shared.lock:
        sizes = {group.name: shared.cloud.view(group.name).target for group in shared.cloud.options.groups}
    return sum((Counter({name.rpartition("-")[0]: size}) for name, size in sizes.items()), Counter())


def test_no_node_is_bought_in_vain(namespaces: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    plane = namespaces
    daemon = start("--scale-down-enabled=false", "--expander=least-waste")
    wait_until(partial(count_loops, daemon), "first loop")
    create_pod(plane, "victim", "preempted", "3", metadata={"annotations": {ENDS_AFTER: "8s"}})
    spread_by_zone_and_host(plane)
    seek_company_of_another_namespace(plane)
    keep_tenants_apart(plane)
    hold_a_pod_in_an_ending_namespace(plane)
    let_the_scheduler_try_again(plane)
    wait_until(partial(all_run, plane, 6 + 2 + 3 + 1), "pods of all cases that run")
    create_pod(plane, "urgent", "preempted", "3", priorityClassName="system-cluster-critical")
    wait_until(lambda: plane.request(pod_path("urgent"))["status"].get("nominatedNodeName"), "a preemption")
    wait_until(partial(all_run, plane, 6 + 2 + 3 + 1), "pods that run once the victim has ended")
    before = count_loops(daemon)
    wait_until(lambda: count_loops(daemon) >= before + FURTHER_LOOPS, "further loops")
    nodes = {node["metadata"]["name"] for node in plane.request("/api/v1/nodes")["items"]}
    assert nodes == {pod["spec"]["nodeName"] for pod in list_pods(plane)}
    machines = count_machines(shared)
    assert (machines["company"], machines["preempted"], machines["ending"]) == (1, 1, 0)
