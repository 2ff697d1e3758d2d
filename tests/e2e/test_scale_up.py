"""Growth on a real control plane: the scheduler gives up on pods, the cloud starts machines, the pods run."""

import json
import urllib.error
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.cloud import SharedCloud
from tests.e2e.conftest import StartDaemon
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import run_command, wait_until

PODS = "/api/v1/namespaces/default/pods"
SYSTEM = "/api/v1/namespaces/kube-system"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cluster-autoscaler"


def make_deployment(name: str, replicas: int, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """``spec`` is of its pods; ``annotations`` among it are theirs, too."""
    annotations = spec.pop("annotations", {})
    container = {"name": "c", "image": "none.invalid/c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": annotations},
                "spec": {"containers": [container], **spec},
            },
        },
    }


def deploy(plane: ControlPlane, name: str, replicas: int, cpu: str = "1", **spec: Any) -> None:
    body = make_deployment(name, replicas, cpu, **spec)
    plane.request("/apis/apps/v1/namespaces/default/deployments", method="POST", body=body)


def count_running(plane: ControlPlane) -> int:
    return sum(pod["status"]["phase"] == "Running" for pod in plane.request(PODS)["items"])


def count_ready(plane: ControlPlane) -> int:
    conditions = [one for node in plane.request("/api/v1/nodes")["items"] for one in node["status"]["conditions"]]
    return sum(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def find_lease(plane: ControlPlane) -> Any:
    return plane.request(LEASE)["spec"]


def find_events(plane: ControlPlane, reason: str, namespace: str = "default") -> list[dict[str, Any]]:
    found = plane.request(f"/api/v1/namespaces/{namespace}/events?fieldSelector=reason={reason}")["items"]
    return list(found)


def test_from_nothing_to_three_nodes(
    clean: ControlPlane, shared: SharedCloud, start: StartDaemon, tmp_path: Path
) -> None:
    daemon = start()
    deploy(clean, "web", 9)
    wait_until(lambda: count_running(clean) == 9, "nine running pods")
    assert [call for call in shared.calls if call[0] == "increase"] == [("increase", ("small", 0, 3))]
    wait_until(lambda: find_events(clean, "TriggeredScaleUp"), "event on a pod")
    event = find_events(clean, "TriggeredScaleUp")[0]
    assert event["source"]["component"] == "cluster-autoscaler"
    assert event["involvedObject"]["uid"]
    # One id leads from a pod to the call of the cloud.
    [told] = {line["loop"] for line in daemon.lines() if line.get("event") == "TriggeredScaleUp"}
    assert {
        line["write"]["loop"] for line in daemon.says("cloud write") if line["write"]["action"] == "IncreaseSize"
    } == {told}
    wait_until(
        lambda: "nodewright_pod_running_seconds_count 9.0" in daemon.page("address", "/metrics"), "pods in the metrics"
    )
    assert "nodewright_pod_decision_seconds_count 9.0" in daemon.page("address", "/metrics")
    bundle, [told] = str(tmp_path / "bundle.tar.gz"), daemon.says("starting")
    made = run_command("bundle", bundle, f"--debug-address=127.0.0.1:{told['ports']['debug_address']}")
    assert made.returncode == 0, made.stderr
    node = clean.request("/api/v1/nodes")["items"][0]["metadata"]["name"]
    explained = run_command("explain", "node", node, bundle, "--output=json")
    assert json.loads(explained.stdout)["group"]["group"] == "dump/shared/small", explained.stderr
    assert run_command("plan", bundle).returncode == 0
    assert daemon.end() == 0
    assert "Traceback" not in json.dumps(daemon.lines())


def test_the_status_is_told_as_ca_tells_it(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    start()
    deploy(clean, "web", 4)
    wait_until(lambda: count_running(clean) == 4, "running pods")

    def group() -> Any:
        text = clean.request(f"{SYSTEM}/configmaps/cluster-autoscaler-status")["data"]["status"]
        found = yaml.safe_load(text)
        assert found["autoscalerStatus"] in ("Running", "Initializing")
        return found.get("nodeGroups", [{}])[0]

    def nodes() -> Any:
        return group().get("health", {}).get("nodeCounts", {}).get("registered", {}).get("ready")

    wait_until(lambda: nodes() == len(shared.cloud.living("small")) > 0, "status with every node ready")
    assert group()["scaleUp"]["status"] == "NoActivity"


def test_events_are_about_the_status_that_there_is(clean: ControlPlane, start: StartDaemon) -> None:
    """An installation outside of kube-system describes that ConfigMap."""
    daemon = start("--namespace=default", "--status-config-map-name=ours", user="admin")
    deploy(clean, "web", 2)
    wait_until(lambda: find_events(clean, "ScaledUpGroup"), "event")
    about = find_events(clean, "ScaledUpGroup")[0]["involvedObject"]
    held = clean.request("/api/v1/namespaces/default/configmaps/ours")["metadata"]
    assert (about["name"], about["namespace"], about["uid"]) == ("ours", "default", held["uid"])
    assert daemon.end() == 0


def test_once_grows_and_ends(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    deploy(clean, "web", 2)
    pending = f"{PODS}?fieldSelector=spec.nodeName="
    wait_until(lambda: len(clean.request(pending)["items"]) == 2, "pending pods")
    daemon = start("--once")
    assert daemon.wait() == 0
    assert shared.calls == [("increase", ("small", 0, 1))]
    assert not find_lease(clean).get("holderIdentity")
    wait_until(lambda: count_running(clean) == 2, "running pods")


def test_many_pods_of_one_replica_set_share_an_event(clean: ControlPlane, start: StartDaemon) -> None:
    deploy(clean, "web", 40, "100m")
    unplaced = f"{PODS}?fieldSelector=spec.nodeName="
    wait_until(lambda: len(clean.request(unplaced)["items"]) == 40, "pending pods")
    assert start("--once").wait() == 0
    told = [event["involvedObject"] for event in find_events(clean, "TriggeredScaleUp")]
    [replica_set] = clean.request("/apis/apps/v1/namespaces/default/replicasets")["items"]
    assert sum(of["kind"] == "Pod" for of in told) == 30
    [of] = [of for of in told if of["kind"] != "Pod"]
    assert (of["apiVersion"], of["kind"], of["name"]) == ("apps/v1", "ReplicaSet", replica_set["metadata"]["name"])
    assert of["uid"] == replica_set["metadata"]["uid"]


def test_a_dry_run_needs_no_right_to_write(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    deploy(clean, "web", 2)
    daemon = start("--dry-run", user="dry-run")
    wait_until(lambda: daemon.says("would be done"), "plan in the log")
    planned = daemon.says("would be done")[0]["action"]
    assert (planned["type"], planned["target"]) == ("IncreaseSize", 1)
    assert daemon.end() == 0
    assert not shared.calls
    assert not [line for line in daemon.lines() if "forbidden" in json.dumps(line)]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        clean.request(f"{SYSTEM}/configmaps/nodewright-state")
