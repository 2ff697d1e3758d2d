"""Removal of nodes on a real control plane, under exactly the role that deploy/ gives."""

from typing import Any

from tests.e2e.cloud import SharedCloud
from tests.e2e.conftest import StartDaemon
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import DaemonProcess, wait_until
from tests.e2e.farm_files import ENDS_AFTER
from tests.e2e.rights import Right, find_refused, granted, is_used, read_asked
from tests.e2e.test_scale_up import PODS, count_running, deploy, find_events

from nodewright.adapters.kube.api import MERGE_PATCH
from nodewright.adapters.kube.store import MOST_SHARDS, PAUSE_NAME, shard_name

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
QUICK = (
    "--scale-down-unneeded-time=2s",
    "--scale-down-delay-after-add=1s",
    "--node-delete-delay-after-taint=1s",
    "--unremovable-node-recheck-timeout=1s",
)
CLEANS_UP = "--node-object-cleanup-delay=2s"
# Rights for what takes longer than a test: the same event again after five minutes (core/tests/kube/test_events.py), and
# a state that does not fit into one ConfigMap (core/tests/kube/test_store.py); for who orders a pause (test_orders.py); and
# for pods that a budget guards on a machine that the cloud takes, which has a test of its own here; for pods that a later list
# lacked (core/tests/kube/test_cluster.py); and to watch
# DeviceTaintRules and PodGroups, which this control plane does not serve.
_SHARDS = ",".join(shard_name(turn, number) for turn in ("a", "b") for number in range(1, MOST_SHARDS))
DELETES_PODS = Right("", "pods", "delete")
READS_PODS = Right("", "pods", "get")
NOT_USED_HERE = {
    DELETES_PODS,
    READS_PODS,
    Right("", "events", "patch"),
    Right("resource.k8s.io", "devicetaintrules", "watch"),
    Right("scheduling.k8s.io", "podgroups", "watch"),
    Right("scheduling.volcano.sh", "podgroups", "watch"),
    Right("scheduling.x-k8s.io", "podgroups", "watch"),
    *(Right("", "configmaps", verb, _SHARDS) for verb in ("delete", "get", "update")),
    *(Right("", "configmaps", verb, PAUSE_NAME) for verb in ("delete", "get", "update")),
}
TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"


def find_nodes(plane: ControlPlane) -> list[dict[str, Any]]:
    return list(plane.request("/api/v1/nodes")["items"])


def find_taints(plane: ControlPlane) -> set[str]:
    return {taint["key"] for node in find_nodes(plane) for taint in node["spec"].get("taints", ())}


def deletions(shared: SharedCloud) -> list[Any]:
    return [call for call in shared.calls if call[0] == "delete"]


def half_empty(plane: ControlPlane, **of_pods: Any) -> None:
    """Two nodes, each with one pod that would fit on the other."""
    deploy(plane, "filler", 2, "2400m")
    deploy(plane, "web", 2, "1500m", **of_pods)
    wait_until(lambda: count_running(plane) == 4, "four running pods")
    assert len(find_nodes(plane)) == 2
    plane.request(f"{DEPLOYMENTS}/filler", method="DELETE", body={"propagationPolicy": "Background"})
    wait_until(lambda: count_running(plane) == 2, "the end of the fillers")


def guard(plane: ControlPlane, app: str) -> None:
    """No pod of the app may be evicted."""
    budget = {
        "metadata": {"name": app},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}},
    }
    plane.request(BUDGETS, method="POST", body=budget)
    wait_until(
        lambda: plane.request(f"{BUDGETS}/{app}").get("status", {}).get("expectedPods") == 2, "budget that is counted"
    )


def test_a_node_object_that_outlives_its_machine(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    """No cloud controller runs here: only nodewright would ever delete the node."""
    shared.leaves_nodes = True
    daemon = start(*QUICK, CLEANS_UP)
    deploy(clean, "web", 3)
    wait_until(lambda: count_running(clean) == 3, "running pods")
    clean.request(f"{DEPLOYMENTS}/web", method="DELETE", body={"propagationPolicy": "Background"})
    wait_until(lambda: shared.cloud.view("small").target == 0, "deletion of the machine")
    wait_until(lambda: not find_nodes(clean), "deletion of the node object")
    assert daemon.says("the node object")
    assert daemon.end() == 0


def test_a_budget_holds_a_node_and_then_lets_it_go(
    clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """It uses every right of the chart, deletion of node objects too."""
    shared.leaves_nodes = True
    daemon = start(*QUICK, CLEANS_UP)
    wait_until(lambda: daemon.says("loop"), "first loop")
    half_empty_and_guarded(clean, daemon)
    assert not deletions(shared)
    assert TO_BE_DELETED not in find_taints(clean)
    clean.request(f"{BUDGETS}/web", method="DELETE")
    wait_until(lambda: len(find_nodes(clean)) == 1, "removal of a node")
    wait_until(lambda: count_running(clean) == 2, "the evicted pod elsewhere")
    [(_, (group, ids, expected))] = deletions(shared)
    assert (group, len(ids), expected) == ("small", 1, 2)
    wait_until(lambda: find_events(clean, "ScaleDown"), "event of the removal")
    assert "cluster_autoscaler_scaled_down_nodes_total" in daemon.page("address", "/metrics")
    assert daemon.end() == 0
    asked = read_asked(clean)
    assert not find_refused(asked, granted())
    assert {right for right in granted() if not is_used(right, asked)} <= NOT_USED_HERE


def test_a_budget_does_not_hold_pods_on_a_machine_that_the_cloud_takes(
    clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """The notice is a taint, with too little time to wait for another machine."""
    shared.leaves_nodes = True
    daemon = start("--scale-down-enabled=false", "--interruption-signal=taint:example.com/taken=reclaim:20s", CLEANS_UP)
    deploy(clean, "web", 2, "1500m")
    wait_until(lambda: count_running(clean) == 2, "two running pods")
    guard(clean, "web")
    [taken] = find_nodes(clean)
    name = taken["metadata"]["name"]
    taints = {"spec": {"taints": [{"key": "example.com/taken", "effect": "PreferNoSchedule"}]}}
    clean.request(f"/api/v1/nodes/{name}", method="PATCH", body=taints, content=MERGE_PATCH)
    wait_until(lambda: name not in {node["metadata"]["name"] for node in find_nodes(clean)}, "removal of the node")
    wait_until(lambda: count_running(clean) == 2, "the pods elsewhere")
    [(_, (group, ids, _))] = deletions(shared)
    assert (group, list(ids)) == ("small", [taken["spec"]["providerID"]])
    assert daemon.end() == 0
    asked = read_asked(clean)
    assert not find_refused(asked, granted())
    assert is_used(DELETES_PODS, asked)


def half_empty_and_guarded(plane: ControlPlane, daemon: DaemonProcess) -> None:
    """The budget is there before the fillers go; the daemon then looks at it for some loops."""
    deploy(plane, "filler", 2, "2400m")
    deploy(plane, "web", 2, "1500m")
    wait_until(lambda: count_running(plane) == 4, "four running pods")
    guard(plane, "web")
    plane.request(f"{DEPLOYMENTS}/filler", method="DELETE", body={"propagationPolicy": "Background"})
    wait_until(lambda: count_running(plane) == 2, "the end of the fillers")
    loops = len(daemon.says("loop"))
    wait_until(lambda: len(daemon.says("loop")) > loops + 8, "some loops")


def test_a_restart_between_taint_and_deletion(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    slow = (*QUICK, "--node-delete-delay-after-taint=1h")
    first = start(*slow)
    half_empty(clean)
    wait_until(lambda: TO_BE_DELETED in find_taints(clean), "taint")
    first.kill()
    assert not deletions(shared)
    second = start(*QUICK)
    wait_until(lambda: len(find_nodes(clean)) == 1, "removal of a node")
    wait_until(lambda: count_running(clean) == 2, "the evicted pod elsewhere")
    assert len(deletions(shared)) == 1
    assert TO_BE_DELETED not in find_taints(clean)
    assert second.end() == 0


def test_a_restart_in_the_middle_of_a_drain(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    """The pod takes so long to end that the successor, too, finds it ending."""
    first = start(*QUICK)
    half_empty(clean, annotations={ENDS_AFTER: "30s"})
    wait_until(lambda: find_ending(clean), "evicted pod")
    first.kill()
    assert not deletions(shared)
    assert TO_BE_DELETED in find_taints(clean)
    [drained] = find_ending(clean)
    second = start(*QUICK)
    wait_until(lambda: len(find_nodes(clean)) == 1, "removal of a node")
    assert find_nodes(clean)[0]["metadata"]["name"] != drained
    wait_until(lambda: count_running(clean) == 2, "the evicted pod elsewhere")
    assert len(deletions(shared)) == 1
    assert TO_BE_DELETED not in find_taints(clean)
    assert second.end() == 0


def find_ending(plane: ControlPlane) -> set[str]:
    """Nodes with pods that were told to end."""
    pods = plane.request(PODS)["items"]
    return {pod["spec"]["nodeName"] for pod in pods if "deletionTimestamp" in pod["metadata"]}


def test_an_empty_node_goes(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    start(*QUICK)
    deploy(clean, "web", 3)
    wait_until(lambda: count_running(clean) == 3, "running pods")
    clean.request(f"{DEPLOYMENTS}/web", method="DELETE", body={"propagationPolicy": "Background"})
    wait_until(lambda: not find_nodes(clean), "cluster without nodes")
    assert shared.cloud.view("small").target == 0
