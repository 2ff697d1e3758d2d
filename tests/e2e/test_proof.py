"""Larger and rarer things, on the real control plane."""

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.cloud import SharedCloud
from tests.e2e.conftest import StartDaemon, make_group
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import wait_until
from tests.e2e.test_inquiries import nodewright
from tests.e2e.test_scale_up import PODS, count_running, deploy, find_lease

from nodewright.model.capability import Capability
from nodewright_fake import CloudOptions, GroupConfig, StockOut

ZONE = "topology.kubernetes.io/zone"
# What docs/commands.md tells people to dump.
KINDS = "nodes,pods,daemonsets,rs,rc,statefulsets,jobs,pdb,pvc,pv,storageclasses,csinodes,csidrivers,csistoragecapacities,volumeattachments,namespaces"


@pytest.fixture
def groups() -> tuple[GroupConfig, ...]:
    return tuple(make_group(zone, zone=zone, max_size=60) for zone in ("a", "b", "c"))


@pytest.fixture
def cloud_options(groups: tuple[GroupConfig, ...], request: pytest.FixtureRequest) -> CloudOptions:
    """The parameter says what the cloud cannot do."""
    switched_off: tuple[Capability, ...] = getattr(request, "param", ())
    return CloudOptions(groups=groups, switched_off=switched_off)


def find_nodes(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    return {node["metadata"]["name"]: node for node in plane.request("/api/v1/nodes")["items"]}


def test_two_hundred_pods_on_fifty_nodes(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    start()
    deploy(clean, "web", 200)
    wait_until(lambda: count_running(clean) == 200, "two hundred running pods")
    assert sum(len(shared.cloud.living(zone)) for zone in "abc") == 50


def test_pods_that_spread_over_zones(clean: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    start()
    constraint = {
        "maxSkew": 1,
        "minDomains": 3,  # without it the scheduler spreads over the zones that have nodes: over one, in an empty cluster
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    deploy(clean, "web", 9, "1500m", topologySpreadConstraints=[constraint])
    wait_until(lambda: count_running(clean) == 9, "nine running pods")
    nodes = find_nodes(clean)
    hosts = [pod["spec"]["nodeName"] for pod in clean.request(PODS)["items"]]
    assert Counter(nodes[host]["metadata"]["labels"][ZONE] for host in hosts) == {"a": 3, "b": 3, "c": 3}
    assert all(shared.cloud.living(zone) for zone in "abc")


@pytest.mark.parametrize("cloud_options", [(Capability.FAST_FAILURE_DETECTION,)], indirect=True)
def test_a_stock_out_that_the_cloud_does_not_report(
    clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """Only time tells: what never came is withdrawn, and another group is asked."""
    with shared.lock:
        for zone in ("a", "b"):
            shared.cloud.stock_out(StockOut(zone=zone))
    start("--max-node-provision-time=12s")
    deploy(clean, "web", 4)
    wait_until(lambda: count_running(clean) == 4, "running pods")
    wait_until(lambda: sum(shared.cloud.view(zone).target for zone in "abc") == 1, "withdrawal of what never came")
    assert len(shared.cloud.living("c")) == 1


def test_the_lease_is_renewed_while_the_process_computes(
    clean: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """Twenty seconds of pure computing in Python, with a lease that must be renewed within ten, and lasts for 15."""
    options = {"address": str(shared.address), "busy_seconds": 20}
    settings = {"providers": {"shared": {"options": options, "call-timeout": "25s"}}}
    daemon = start(settings=settings)
    wait_until(lambda: daemon.says("leading"), "leader")
    renewed = set()

    def is_through() -> bool:
        renewed.add(find_lease(clean)["renewTime"])
        return bool(daemon.says("loop"))

    wait_until(is_through, "end of the first loop")
    assert daemon.says("loop")[0]["seconds"] > 19
    assert len(renewed) > 4
    assert find_lease(clean)["leaseTransitions"] == 0
    assert daemon.end() == 0


def test_a_dump_by_kubectl_is_what_plan_reads(
    clean: ControlPlane, shared: SharedCloud, farm_binary: Path, tmp_path: Path
) -> None:
    assert not shared.calls
    deploy(clean, "web", 5)
    wait_until(lambda: len(clean.request(f"{PODS}?fieldSelector=spec.nodeName=")["items"]) == 5, "pending pods")
    wait_until(lambda: all(pod["status"].get("conditions") for pod in clean.request(PODS)["items"]), "verdicts")
    kubectl = [str(farm_binary), "kubectl", f"--kubeconfig={clean.kubeconfig()}"]
    for form in ("json", "yaml"):
        words = [*kubectl, "get", KINDS, "-A", "-o", form]
        dump = tmp_path / f"dump.{form}"
        with dump.open("wb") as file:
            subprocess.run(words, stdout=file, check=True, env={**os.environ, "HOME": str(tmp_path)})
        groups = tmp_path / "groups.yaml"
        groups.write_text("groups:\n- {name: small, cpu: 4, memory: 16Gi, max_size: 5}\n")
        result = nodewright("plan", str(dump), "--groups", str(groups), "--output", "json")
        assert result.returncode == 0, result.stderr
        plan = json.loads(result.stdout)
        assert plan["cluster"]["pending_pods"] == 5
        assert [action["type"] for action in plan["actions"]] == ["IncreaseSize"]
        assert plan["expansions"][0]["target"] == 2
