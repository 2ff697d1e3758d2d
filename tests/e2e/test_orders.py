"""Commands and queries of operators for the daemon of a cluster, through the cluster only."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.cloud import SharedCloud
from tests.e2e.conftest import StartDaemon
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import run_command, wait_until
from tests.e2e.rights import find_refused, granted, is_used, read_asked
from tests.e2e.test_scale_up import count_running, deploy, find_events

from nodewright.adapters.kube.store import PAUSE_NAME


def nodewright(*words: str) -> str:
    result = run_command(*words)
    assert result.returncode == 0, result.stderr
    return result.stdout


def read_status(kubeconfig: Path) -> Any:
    return json.loads(nodewright("status", "--kubeconfig", str(kubeconfig), "--output", "json"))


def test_a_pause_holds_until_somebody_ends_it(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    """Under the role of the chart, as in the pod of the daemon."""
    kubeconfig = clean.kubeconfig("nodewright")
    daemon = start()
    wait_until(lambda: daemon.says("loop"), "first loop")
    assert "paused until" in nodewright("pause", "--for", "1h", "--kubeconfig", str(kubeconfig))
    wait_until(lambda: "nodewright_paused 1.0" in daemon.page("address", "/metrics"), "pause in the metrics")
    deploy(clean, "web", 4)
    wait_until(lambda: find_events(clean, "Paused", "kube-system"), "event of the pause")
    assert read_status(kubeconfig)["paused_until"]
    assert not shared.calls
    nodewright("pause", "--for", "2h", "--kubeconfig", str(kubeconfig))
    nodewright("resume", "--kubeconfig", str(kubeconfig))
    wait_until(lambda: count_running(clean) == 4, "running pods")
    wait_until(lambda: read_status(kubeconfig)["groups"][0]["target"] == 1, "group in the status")
    assert daemon.page("address", "/health-check") == "OK\n"
    assert daemon.page("address", "/readyz") == "OK\n"
    seen = json.loads(daemon.page("debug_address", "/snapshotz"))
    assert len(seen["NodeList"]) == 1
    asked = read_asked(clean)
    assert not find_refused(asked, granted())
    rights = {right for right in granted() if right.name == PAUSE_NAME}
    assert {right.verb for right in rights} == {"delete", "get", "update"}
    assert all(is_used(right, asked) for right in rights)


def test_who_only_looks_sees_a_pause_and_orders_none(clean: ControlPlane) -> None:
    looks = str(clean.kubeconfig("onlooker"))  # what the other one asks for is audited
    nodewright("pause", "--for", "1h", "--force", "--kubeconfig", str(clean.kubeconfig()))
    assert read_status(Path(looks))["paused_until"]
    refused = run_command("resume", "--kubeconfig", looks)
    assert refused.returncode == 2
    assert 'configmaps "nodewright-pause" is forbidden' in refused.stderr
