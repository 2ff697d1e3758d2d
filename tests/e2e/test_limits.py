"""CapacityQuotas and what a class notes of a request on the real API server: written as we write, read as we read."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import wait_until
from tests.e2e.helm import render
from tests.e2e.requesting import install_crds

from nodewright.adapters.clocks import SystemClock
from nodewright.adapters.kube.caches import CacheOptions, Caches, optional_kinds
from nodewright.adapters.kube.cluster import KubeCluster
from nodewright.adapters.kube.connection import connect
from nodewright.expander import CONFIG_MAP
from nodewright.model.capacity_quota import QUOTA_VALID, CapacityQuota
from nodewright.model.provisioning_request import PROVISIONED
from nodewright.planner.limits import read_quotas, with_status
from nodewright.planner.provisioning_requests.state import ProvisioningRequestState
from nodewright.snapshot.observation import Observation
from nodewright.testkit.world import World, settings_with

GROUP = "/apis/autoscaling.x-k8s.io"
QUOTAS, CLASSES = f"{GROUP}/v1beta1/capacityquotas", f"{GROUP}/v1alpha1/provisioningclasses"
REQUESTS = f"{GROUP}/v1/namespaces/default/provisioningrequests"
SOON = 30.0
ON = settings_with(enable_provisioning_requests=True, enable_provisioning_classes=True, capacity_quotas_enabled=True)


@pytest.fixture
def served(plane: ControlPlane) -> Iterator[ControlPlane]:
    install_crds(plane)
    yield plane
    for path in (QUOTAS, CLASSES, REQUESTS):
        plane.request(path, method="DELETE")


@pytest.fixture
def cluster(served: ControlPlane) -> Iterator[KubeCluster]:
    """What the daemon reads and writes with."""
    clock, api = SystemClock(), connect(kubeconfig=str(served.kubeconfig()))
    options = CacheOptions(config_maps=(CONFIG_MAP,), optional=optional_kinds(ON))
    caches = Caches(api, clock, Random(1), options)
    caches.start()
    try:
        assert caches.wait_synced(60.0), caches.missing()
        yield KubeCluster(api, caches, max_age=180.0)
    finally:
        caches.stop()


def create(plane: ControlPlane, path: str, kind: str, name: str, spec: dict[str, Any]) -> None:
    version = path.removeprefix("/apis/").split("/")[:2]
    body = {"apiVersion": "/".join(version), "kind": kind, "metadata": {"name": name}, "spec": spec}
    plane.request(path, method="POST", body=body)


def seen(cluster: KubeCluster) -> Observation:
    now = SystemClock().now()
    seen = cluster.read(now)
    return Observation(now=now, snapshot=seen.snapshot, quotas=seen.quotas, provisioning=seen.provisioning)


def judged(cluster: KubeCluster, name: str) -> CapacityQuota:
    found = seen(cluster)
    (read,) = [read for read in read_quotas(found, ON.limits) if read.quota.name == name]
    return with_status(read, found)


def is_settled(found: Observation) -> bool:
    """Nothing is left to be written."""
    return all(with_status(read, found) is read.quota for read in read_quotas(found, ON.limits))


def test_a_status_is_taken_and_found_to_be_as_it_should_be(served: ControlPlane, cluster: KubeCluster) -> None:
    """Also by the deprecated version; once it is there nothing is left to be written."""
    limits = {"limits": {"resources": {"nodes": 5, "memory": "4Gi", "example.com/gpu": "2"}}}
    create(served, QUOTAS, "CapacityQuota", "all", limits)
    bad = {"selector": {"matchLabels": {"no key!": "x"}}, **limits}
    create(served, f"{GROUP}/v1alpha1/capacityquotas", "CapacityQuota", "bad", bad)
    wait_until(lambda: len(seen(cluster).quotas) >= 2, "two quotas", SOON)
    for name, status in (("all", "True"), ("bad", "False")):
        cluster.write_quota_status(judged(cluster, name))
        held = served.request(f"{QUOTAS}/{name}")["status"]
        assert {one["type"]: one["status"] for one in held["conditions"]}[QUOTA_VALID] == status
        assert held["observedGeneration"] == 1
        assert ("used" in held) == (status == "True")
    wait_until(lambda: is_settled(seen(cluster)), "end of writes: what is there is written again and again", SOON)


def test_what_a_class_notes_of_a_request_outlives_later_writes(served: ControlPlane, cluster: KubeCluster) -> None:
    create(served, CLASSES, "ProvisioningClass", "train", {"limits": {"nodes": 4}})
    spec = {
        "provisioningClassName": "train",
        "podSets": [{"podTemplateRef": {"name": "t"}, "count": 1}],
    }
    create(served, REQUESTS, "ProvisioningRequest", "r", spec)
    wait_until(lambda: seen(cluster).provisioning.requests, "request", SOON)
    wait_until(lambda: seen(cluster).provisioning.classes, "class", SOON)
    found = seen(cluster).provisioning
    (request,) = found.requests
    assert [held.spec.limits.nodes for held in found.classes] == [4]
    requests = ProvisioningRequestState.of(World().state(), ON.requests)
    waiting = requests.condition(request, (PROVISIONED, "False"), "Provisioning", "2 nodes are asked for")
    noted = request.with_details(provisioner="somebody", nodes="2").with_condition(waiting)
    cluster.write_conditions(noted, (waiting,), is_apply=True)
    done = requests.condition(noted, (PROVISIONED, "True"), "CapacityIsProvisioned", "2 nodes were provisioned")
    cluster.write_conditions(noted.with_condition(done), (done,), is_apply=True)
    held = served.request(f"{REQUESTS}/r")["status"]
    assert held["provisioningClassDetails"] == {"provisioner": "somebody", "nodes": "2"}
    assert [one["status"] for one in held["conditions"] if one["type"] == PROVISIONED] == ["True"]


@pytest.mark.parametrize("mode", ["run", "shadow"])
@pytest.mark.parametrize("is_on", [True, False])
def test_the_chart_gives_the_rights_that_the_settings_need(farm_binary: Path, mode: str, is_on: bool) -> None:
    assert farm_binary.exists()
    settings = {
        "limits": {"capacity-quotas-enabled": is_on},
        "provisioning": {"enable-provisioning-requests": True, "enable-provisioning-classes": is_on},
    }
    [role] = [found for found in render({"mode": mode, "settings": settings}) if found["kind"] == "ClusterRole"]
    given = {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    reads = {(kind, verb) for kind in ("capacityquotas", "provisioningclasses") for verb in ("list", "watch")}
    assert given & reads == (reads if is_on else set())
    assert (("capacityquotas/status", "patch") in given) == (is_on and mode == "run")
