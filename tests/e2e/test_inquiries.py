"""What the running daemon returns to ``explain`` and ``status``, and settings that change meanwhile."""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml
from tests.e2e.cloud import SharedCloud
from tests.e2e.conftest import StartDaemon
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import PLUGIN, DaemonProcess, run_command, wait_until
from tests.e2e.test_scale_up import count_running, deploy


def nodewright(*words: str) -> subprocess.CompletedProcess[str]:
    return run_command(*words, environ={"PYTHONPATH": str(PLUGIN), "COLUMNS": "200"})


def ask(daemon: DaemonProcess, *words: str) -> Any:
    [told] = daemon.says("starting")
    address = f"--debug-address=127.0.0.1:{told['ports']['debug_address']}"
    result = nodewright(*words, address, "--output=json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_the_daemon_says_why(clean: ControlPlane, start: StartDaemon) -> None:
    daemon = start()
    deploy(clean, "web", 4)
    deploy(clean, "giant", 1, cpu="64")
    wait_until(lambda: count_running(clean) == 4, "four running pods")
    wait_until(lambda: ask(daemon, "status")["ready"] == {"shared/small": 1}, "node in the status")
    pods = clean.request("/api/v1/namespaces/default/pods?labelSelector=app=giant")["items"]
    found = ask(daemon, "explain", "pod", f"default/{pods[0]['metadata']['name']}")
    assert found["outcome"] == "unhelped"
    [(group)] = found["groups"]
    assert "Insufficient cpu" in group["message"]
    [node] = [node["metadata"]["name"] for node in clean.request("/api/v1/nodes")["items"]]
    assert ask(daemon, "explain", "node", node)["group"]["group"] == "shared/small"
    assert ask(daemon, "explain", "group", "shared/small")["target"] == 1
    status = ask(daemon, "status")
    assert status["healthy"]
    assert status["deletions"]["limit"] == 10
    assert status["problems"] == []
    missing = nodewright("explain", "node", "nobody", f"--debug-address={address_of(daemon)}")
    assert missing.returncode == 2
    assert "there is no node nobody" in missing.stderr
    shown = nodewright("explain", "node", node, f"--debug-address={address_of(daemon)}")
    assert shown.stdout.startswith(f"Node {node}")
    assert daemon.end() == 0


def address_of(daemon: DaemonProcess) -> str:
    [told] = daemon.says("starting")
    return f"127.0.0.1:{told['ports']['debug_address']}"


def test_without_a_daemon_one_loop_says_why(clean: ControlPlane, shared: SharedCloud, tmp_path: Path) -> None:
    deploy(clean, "web", 2)
    wait_until(lambda: clean.request("/api/v1/namespaces/default/pods")["items"], "pods")
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"providers": {"shared": {"options": {"address": str(shared.address)}}}}))
    words = ("explain", "group", "shared/small", "--config", str(config), "--kubeconfig", str(clean.kubeconfig()))
    result = nodewright(*words, "--debug-address=127.0.0.1:1")
    assert result.returncode == 0, result.stderr
    assert "shared/small" in result.stdout
    assert "No daemon answers at 127.0.0.1:1" in result.stderr
    assert not shared.calls


def test_savings_looks_at_the_cluster_and_changes_nothing(
    clean: ControlPlane, shared: SharedCloud, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"providers": {"shared": {"options": {"address": str(shared.address)}}}}))
    result = nodewright("savings", "--config", str(config), "--kubeconfig", str(clean.kubeconfig()), "--output=json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["moves"], found["nodes_cost"]) == ([], 0.0)
    assert not shared.calls


def test_settings_that_change_under_it(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    """A limit is lifted without a restart; what needs one is told; a bad file changes nothing."""
    daemon = start(settings={"cores-total": "0:2"})
    deploy(clean, "web", 4)
    wait_until(lambda: len(daemon.says("loop")) > 2, "some loops")
    assert not shared.calls
    daemon.write_settings({"cores-total": "nothing"})
    wait_until(lambda: daemon.says("the settings stay as they are"), "refusal in the log")
    assert "nodewright_config_reload_failed 1.0" in daemon.page("address", "/metrics")
    daemon.write_settings({"cores-total": "0:100", "namespace": "elsewhere"})
    wait_until(lambda: count_running(clean) == 4, "running pods")
    [told] = daemon.says("settings were read again")
    assert told["applied"] == ["cores-total"]
    [waiting] = daemon.says("some settings change only at a restart")
    assert waiting["settings"] == ["namespace"]
    assert "nodewright_config_reload_failed 0.0" in daemon.page("address", "/metrics")


def test_counts_of_what_it_costs(start: StartDaemon) -> None:
    daemon = start()
    wait_until(lambda: len(daemon.says("loop")) > 3, "some loops")
    page = daemon.page("address", "/metrics")
    assert 'nodewright_kube_requests_total{code="200",resource="nodes",verb="list"}' in page
    assert 'nodewright_kube_requests_total{code="200",resource="nodes",verb="watch"}' in page
    assert 'nodewright_lease_renewals_total{result="renewed"}' in page
    assert 'nodewright_hook_calls_total{operation="refresh",provider="shared",result="ok"}' in page
    assert 'cluster_autoscaler_function_duration_seconds_count{function="cloudProviderRefresh"}' in page


def test_plan_reads_the_live_cluster_and_says_what_one_more_group_would_change(
    clean: ControlPlane, shared: SharedCloud, tmp_path: Path
) -> None:
    deploy(clean, "web", 2)
    deploy(clean, "giant", 1, cpu="64")
    wait_until(lambda: len(clean.request("/api/v1/namespaces/default/pods")["items"]) == 3, "pods")
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"providers": {"shared": {"options": {"address": str(shared.address)}}}}))
    words = ("plan", "--config", str(config), "--kubeconfig", str(clean.kubeconfig("onlooker")), "--output=json")
    result = nodewright(*words, "--group=name=huge,cpu=96,memory=768Gi,max_size=3")
    assert result.returncode == 0, result.stderr
    difference = json.loads(result.stdout)["difference"]
    assert [difference[which]["pods_not_helped"] for which in ("now", "then")] == [1, 0]
    assert difference["then"]["groups"]["dump/huge"] == 1
    assert not shared.calls
