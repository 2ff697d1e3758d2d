"""Failures in a real cluster: clouds without machines, machines that never come, connections that break."""

import signal
from typing import Any

import pytest
import yaml
from tests.e2e.cloud import SharedCloud, silence
from tests.e2e.conftest import StartDaemon, make_group
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import DaemonProcess, wait_until
from tests.e2e.rights import Asked, Right, bind_role, read_asked
from tests.e2e.test_scale_down import QUICK
from tests.e2e.test_scale_up import count_running, deploy, find_events

from nodewright_fake import GroupConfig, StockOut
from nodewright_fake.options import DeadBoot

SYSTEM = "/api/v1/namespaces/kube-system"
DEVICES = "resource.k8s.io"


@pytest.fixture
def groups() -> tuple[GroupConfig, ...]:
    return (make_group("first", zone="a"), make_group("second", zone="b"))


def increases(shared: SharedCloud) -> list[Any]:
    return [args for what, args in shared.calls if what == "increase"]


def test_a_stock_out_is_followed_by_another_group(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    """Fast failure detection: the cloud accepts, then fails the machines; the next loop knows."""
    with shared.lock:
        shared.cloud.stock_out(StockOut(zone="a"))
    prefer(clean, "first")
    daemon = start("--expander=priority")
    deploy(clean, "web", 4)
    wait_until(lambda: count_running(clean) == 4, "running pods")
    assert [args[0] for args in increases(shared)] == ["first", "second"]
    failed, helped = loops_of_increases(daemon)
    assert helped == failed + 1
    wait_until(lambda: find_events(clean, "ScaleUpFailed", "kube-system"), "event of the failure")
    status = clean.request(f"{SYSTEM}/configmaps/cluster-autoscaler-status")["data"]["status"]
    groups = {group["name"]: group["scaleUp"] for group in yaml.safe_load(status)["nodeGroups"]}
    assert groups["first"]["status"] == "Backoff"
    assert groups["first"]["backoffInfo"]["errorCode"] == "STOCKOUT"
    assert all(name.startswith("second") for name in names_of_nodes(clean))
    assert daemon.end() == 0


def test_a_machine_that_never_comes_is_given_up(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    """No node appears within the provision time: the pods are planned on another group, the machine is deleted."""
    with shared.lock:
        shared.cloud.supply.dead_boots.append(DeadBoot(group="first"))
    prefer(clean, "first")
    start("--max-node-provision-time=12s", "--expander=priority")
    deploy(clean, "web", 4)
    wait_until(lambda: count_running(clean) == 4, "running pods")
    assert [args[0] for args in increases(shared)] == ["first", "second"]
    wait_until(lambda: find_events(clean, "ScaleUpTimedOut", "kube-system"), "event")
    wait_until(lambda: not shared.cloud.living("first"), "deletion of what never came")


def test_a_node_that_falls_silent_is_replaced(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    """The control plane evicts its pods; they get another machine, and the silent one goes."""
    # As in CA, a node that is not ready counts as one that is coming while its start-up time lasts.
    start(*QUICK, "--scale-down-unready-time=2s", "--max-node-startup-time=15s")
    soon = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 1}
    deploy(clean, "web", 8, tolerations=[{**soon, "effect": "NoExecute"}])
    wait_until(lambda: count_running(clean) == 8, "running pods")
    silent, alive = names_of_nodes(clean)  # of two: where all are silent, the control plane evicts nothing
    silence(clean, silent)
    wait_until(lambda: silent not in names_of_nodes(clean), "end of the silent node")
    wait_until(lambda: count_running(clean) == 8, "running pods elsewhere")
    assert alive in names_of_nodes(clean)
    assert len(names_of_nodes(clean)) == 2
    assert sum(args[2] - args[1] for args in increases(shared)) == 3
    assert len([call for call in shared.calls if call[0] == "delete"]) == 1


def test_an_api_server_that_restarts(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    """Every connection is cut; what happened meanwhile is seen, nothing is done twice."""
    daemon = start("--leader-elect-lease-duration=3m", "--leader-elect-renew-deadline=2m")
    deploy(clean, "web", 4)
    wait_until(lambda: count_running(clean) == 4, "running pods")
    clean.restart_apiserver(down=1.0)
    deploy(clean, "more", 4)
    wait_until(lambda: count_running(clean) == 8, "more running pods")
    assert sum(args[2] - args[1] for args in increases(shared)) == 2
    assert daemon.process.poll() is None
    assert daemon.end() == 0


def test_a_daemon_killed_in_the_middle_of_a_scale_up(
    clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """Its successor knows what was asked for, and asks for no more."""
    first = start("--scan-interval=10s")
    deploy(clean, "web", 8)
    wait_until(lambda: increases(shared), "increase")
    first.process.send_signal(signal.SIGKILL)
    asked = list(increases(shared))
    second = start()
    wait_until(lambda: second.says("loop"), "loop of the successor")
    wait_until(lambda: count_running(clean) == 8, "running pods")
    assert increases(shared) == asked
    assert sum(args[2] - args[1] for args in asked) == 2


def test_a_role_from_before_devices_stops_nothing_and_its_update_needs_no_restart(
    clean: ControlPlane, start: StartDaemon
) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/nodewright"
    role = clean.request(path)
    older = [rule for rule in role["rules"] if rule["apiGroups"] != [DEVICES]]
    clean.request(path, method="PUT", body={**role, "rules": older})
    try:
        daemon = start()
        deploy(clean, "web", 4)
        wait_until(lambda: count_running(clean) == 4, "running pods")
        [told] = daemon.says("kind ResourceClaim: ")
        assert told["level"] == "warning"
        assert f"list and watch of resourceclaims (API group {DEVICES}) in the ClusterRole" in told["message"]
    finally:
        bind_role(clean)
    lists = Right(DEVICES, "resourceclaims", "list")
    wait_until(lambda: Asked(lists, 200) in read_asked(clean), "list of what was forbidden")
    assert daemon.process.poll() is None


def test_one_loop_without_a_cluster(start: StartDaemon) -> None:
    """It is no bad input, and the log says once what is wrong."""
    daemon = start("--once", "--kubernetes=http://127.0.0.1:1")
    assert daemon.wait() == 3
    [told] = daemon.says("the cluster cannot be read: GET /api/v1/")
    assert "Connection refused; nor were " in told["message"]


def loops_of_increases(daemon: DaemonProcess) -> list[int]:
    """The number of the loop that asked for each."""
    writes = [line["write"] for line in daemon.says("cloud write")]
    asked = [write for write in writes if (write["action"], write["outcome"]) == ("IncreaseSize", "asked")]
    return [int(write["loop"].rpartition("-")[2]) for write in asked]


def names_of_nodes(plane: ControlPlane) -> list[str]:
    return [node["metadata"]["name"] for node in plane.request("/api/v1/nodes")["items"]]


def prefer(plane: ControlPlane, group: str) -> None:
    """By CA's ConfigMap of priorities."""
    body = {
        "metadata": {"name": "cluster-autoscaler-priority-expander"},
        "data": {"priorities": f"10: ['.*']\n50: ['.*{group}.*']\n"},
    }
    plane.request(f"{SYSTEM}/configmaps", method="POST", body=body)
