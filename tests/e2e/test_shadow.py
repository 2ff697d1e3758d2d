"""Beside another autoscaler: here a second nodewright that acts, with other settings."""

import json
from typing import Any

from tests.e2e.conftest import StartDaemon
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import DaemonProcess, wait_until
from tests.e2e.rights import read_asked
from tests.e2e.test_scale_down import QUICK
from tests.e2e.test_scale_up import count_running, deploy

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_READS = ("get", "list", "watch")


def find_shadows(daemon: DaemonProcess, what: str) -> list[dict[str, Any]]:
    told = [line["shadow"] for line in daemon.lines() if "shadow" in line and isinstance(line["shadow"], dict)]
    return [one for one in told if one["what"] == what]


def count_unneeded(daemon: DaemonProcess) -> float:
    name = "cluster_autoscaler_unneeded_nodes_count "
    [line] = [line for line in daemon.page("address", "/metrics").splitlines() if line.startswith(name)]
    return float(line.removeprefix(name))


def test_two_of_a_mind(clean: ControlPlane, start: StartDaemon) -> None:
    # A node from which not all pods have gone yet may be unremovable at a first look: the shadow looks again soon.
    shadow = start("--shadow", "--unremovable-node-recheck-timeout=1s", user="dry-run")
    wait_until(lambda: shadow.says("loop"), "loop of the shadow")
    growing = start("--scale-down-enabled=false")
    deploy(clean, "web", 9)
    wait_until(lambda: count_running(clean) == 9, "running pods")
    wait_until(lambda: find_shadows(shadow, "growth"), "comparison")
    [growth] = find_shadows(shadow, "growth")
    assert (growth["subject"], growth["verdict"], growth["theirs"]) == ("shared/small", "same", "+3")
    clean.request(f"{DEPLOYMENTS}/web", method="DELETE", body={"propagationPolicy": "Background"})
    # What removes starts once the shadow has seen that no node is needed: however slow the shadow is, it looked before.
    wait_until(lambda: count_unneeded(shadow) == 3, "unneeded nodes in the shadow")
    assert growing.end() == 0
    acting = start(*QUICK)
    wait_until(lambda: find_shadows(shadow, "removal"), "comparison of a removal")
    removals = find_shadows(shadow, "removal")
    assert {removal["verdict"] for removal in removals} == {"notYet"}
    assert all("not needed here either" in removal["reason"] for removal in removals)
    page = json.loads(shadow.page("debug_address", "/shadowz"))
    assert page["counts"]["growth same"] == 1
    metrics = shadow.page("address", "/metrics")
    assert 'nodewright_shadow_comparisons_total{verdict="same",what="growth"} 1.0' in metrics
    assert shadow.end() == 0
    assert acting.end() == 0
    asked = read_asked(clean, "dry-run")
    assert asked
    assert {one.right.verb for one in asked} <= {*_READS}
    assert all(one.status < 400 or one.status == 404 for one in asked)


def test_a_difference_and_its_reason(clean: ControlPlane, start: StartDaemon) -> None:
    shadow = start("--shadow", "--cores-total=0:4", user="dry-run")
    wait_until(lambda: shadow.says("loop"), "loop of the shadow")
    start()
    deploy(clean, "web", 8)
    wait_until(lambda: count_running(clean) == 8, "running pods")
    wait_until(lambda: find_shadows(shadow, "growth"), "comparison")
    growth = find_shadows(shadow, "growth")[0]
    assert (growth["verdict"], growth["theirs"], growth["ours"]) == ("otherSize", "+2", "+1")
