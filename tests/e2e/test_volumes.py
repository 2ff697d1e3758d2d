"""Volumes on the real scheduler: each pod lands on the node that was bought for it, and no node is bought in vain.

No driver and no PersistentVolume controller run here: claims are bound by hand, and CSINodes are there before their nodes.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.e2e.cloud import SharedCloud
from tests.e2e.conftest import StartDaemon, make_group
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import wait_until
from tests.e2e.test_scale_up import PODS, count_running, deploy, find_events

from nodewright_fake import GroupConfig

STORAGE = "/apis/storage.k8s.io/v1"
VOLUMES, CLAIMS = "/api/v1/persistentvolumes", "/api/v1/namespaces/default/persistentvolumeclaims"
CAPACITIES = f"{STORAGE}/namespaces/default/csistoragecapacities"
DRIVER, MERGE = "disk.example.com", "application/merge-patch+json"
SELECTED = "volume.kubernetes.io/selected-node"
# The plugin of a volume that is not of CSI, and the driver that stands in for it.
EBS, EBS_DRIVER, EBS_ZONE = "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"


@pytest.fixture
def groups() -> tuple[GroupConfig, ...]:
    """Nodes of ``far`` have the label that the driver for volumes of an in-tree plugin gives to its nodes."""
    far = make_group("far", zone="b")
    return (make_group("small", zone="a"), msgspec.structs.replace(far, labels={**far.labels, EBS_ZONE: "b"}))


@pytest.fixture
def storing(clean: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with a storage class whose volumes wait for their pod."""
    body = {"metadata": {"name": "wait"}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    clean.request(f"{STORAGE}/storageclasses", method="POST", body=body)
    yield clean
    clean.request("/apis/apps/v1/namespaces/default/deployments", method="DELETE")
    clean.request(PODS, method="DELETE", body={"gracePeriodSeconds": 0})
    for path in (CLAIMS, VOLUMES):
        for held in clean.request(path)["items"]:
            own = f"{path}/{held['metadata']['name']}"
            clean.request(own, method="PATCH", body={"metadata": {"finalizers": None}}, content=MERGE)
        clean.request(path, method="DELETE")
    for held in clean.request(f"{STORAGE}/volumeattachments")["items"]:
        clean.request(f"{STORAGE}/volumeattachments/{held['metadata']['name']}", method="DELETE")
    for kind in ("storageclasses", "csinodes", "csidrivers"):
        clean.request(f"{STORAGE}/{kind}", method="DELETE")
    clean.request(CAPACITIES, method="DELETE")


def add_driver(plane: ControlPlane, *, reports_space: bool, is_needed: bool = False) -> None:
    """``is_needed``: no pod with its volumes goes to a node without it."""
    spec = {"attachRequired": True, "storageCapacity": reports_space, "preventPodSchedulingIfMissing": is_needed}
    plane.request(f"{STORAGE}/csidrivers", method="POST", body={"metadata": {"name": DRIVER}, "spec": spec})


def add_csi_nodes(plane: ControlPlane, limit: int, *groups: str, driver: str = DRIVER) -> None:
    """The next nodes of these groups (none named: both) have the driver, with this limit."""
    for name in (f"{group}-{number}" for group in groups or ("small", "far") for number in range(8)):
        add_csi_node(plane, name, limit, driver)


def add_csi_node(plane: ControlPlane, name: str, limit: int, driver: str = DRIVER) -> None:
    """As every kubelet does, it says that volumes of in-tree plugins are left to their drivers."""
    own = {"name": driver, "nodeID": name, "topologyKeys": [], "allocatable": {"count": limit}}
    body = {"metadata": {"name": name, "annotations": {MIGRATED: EBS}}, "spec": {"drivers": [own]}}
    plane.request(f"{STORAGE}/csinodes", method="POST", body=body)


def add_claim(plane: ControlPlane, name: str, size: str = "5Gi") -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "wait", "resources": {"requests": {"storage": size}}}
    plane.request(CLAIMS, method="POST", body={"metadata": {"name": name}, "spec": spec})


def bind(plane: ControlPlane, name: str, size: str = "5Gi", **source: Any) -> None:
    """Do what the driver and the controller of volumes would do for a claim.

    ``source``: fields of the volume's spec in the place of those of the driver.
    """
    held = plane.request(f"{CLAIMS}/{name}")
    volume: dict[str, Any] = {
        "metadata": {"name": f"volume-{name}"},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "wait",
            **(source or {"csi": {"driver": DRIVER, "volumeHandle": name}}),
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "namespace": "default",
                "name": name,
                "uid": held["metadata"]["uid"],
            },
        },
    }
    plane.request(VOLUMES, method="POST", body=volume)
    done = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    named = {"metadata": {"annotations": done}, "spec": {"volumeName": f"volume-{name}"}}
    plane.request(f"{CLAIMS}/{name}", method="PATCH", body=named, content=MERGE)
    for path in (f"{VOLUMES}/volume-{name}", f"{CLAIMS}/{name}"):
        plane.request(f"{path}/status", method="PATCH", body={"status": {"phase": "Bound"}}, content=MERGE)


def volume_of(claim: str) -> list[dict[str, Any]]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]


def hosts(plane: ControlPlane) -> list[str]:
    return [pod["spec"].get("nodeName", "") for pod in plane.request(PODS)["items"]]


def nodes(plane: ControlPlane) -> set[str]:
    return {node["metadata"]["name"] for node in plane.request("/api/v1/nodes")["items"]}


def count_bought(shared: SharedCloud) -> int:
    return sum(args[2] - args[1] for what, args in shared.calls if what == "increase")


def test_the_limit_of_a_driver_is_learned_from_the_first_node(
    storing: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """Three pods have room on one machine, and its driver attaches one volume: two more machines, and no more.

    The scheduler may leave the last pods in its queue for five minutes: no event tells it of CSINodes that are there already.
    """
    add_driver(storing, reports_space=False)
    add_csi_nodes(storing, 1)
    start()
    for name in ("x", "y", "z"):
        add_claim(storing, name)
        bind(storing, name)
        deploy(storing, name, 1, volumes=volume_of(name))
    wait_until(lambda: count_bought(shared) == 3, "three machines")
    wait_until(lambda: count_running(storing) > 0, "a running pod")
    there = [host for host in hosts(storing) if host]
    assert len(set(there)) == len(there)
    assert count_bought(shared) == 3


def in_tree(name: str) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}}


def test_volumes_of_an_in_tree_plugin_count_for_the_driver_that_stands_in(
    storing: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """As above, for volumes that are not of CSI: three machines for pods that have room on one."""
    add_csi_nodes(storing, 1, driver=EBS_DRIVER)
    start()
    for name in ("x", "y", "z"):
        add_claim(storing, name)
        bind(storing, name, **in_tree(name))
        deploy(storing, name, 1, volumes=volume_of(name))
    wait_until(lambda: count_bought(shared) == 3, "three machines")
    wait_until(lambda: count_running(storing) > 0, "a running pod")
    there = [host for host in hosts(storing) if host]
    assert len(set(there)) == len(there)
    assert count_bought(shared) == 3


def test_a_volume_of_an_in_tree_plugin_is_reached_by_the_label_of_its_driver(
    storing: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    """Both groups are in a zone of the volume; the driver has labelled the nodes of one only, as the first ones show."""
    add_csi_nodes(storing, 8, driver=EBS_DRIVER)
    start()
    for zone in ("a", "b"):
        deploy(storing, f"in-{zone}", 1, "3", nodeSelector={"topology.kubernetes.io/zone": zone})
    wait_until(lambda: count_running(storing) == 2, "two running pods")
    shared.calls.clear()
    zones = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}}
    for name in ("x", "y", "z"):
        add_claim(storing, name)
        bind(storing, name, **in_tree(name), nodeAffinity=affinity)
        deploy(storing, name, 1, "3", volumes=volume_of(name))
    wait_until(lambda: count_running(storing) == 5, "all pods running")
    assert {args[0] for what, args in shared.calls if what == "increase"} == {"far"}
    assert count_bought(shared) == 3


def test_volumes_that_are_still_attached_count(storing: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    """The pod would have room on the first machine, to which two volumes of pods that are gone are attached."""
    add_driver(storing, reports_space=False)
    start()
    deploy(storing, "first", 1)
    wait_until(lambda: count_running(storing) == 1, "a running pod")
    [first] = hosts(storing)
    add_csi_node(storing, first, 2)
    for name in ("old", "older"):
        add_claim(storing, name)
        bind(storing, name)
        spec = {"attacher": DRIVER, "nodeName": first, "source": {"persistentVolumeName": f"volume-{name}"}}
        body = {"metadata": {"name": f"attached-{name}"}, "spec": spec}
        storing.request(f"{STORAGE}/volumeattachments", method="POST", body=body)
    add_claim(storing, "fresh")
    bind(storing, "fresh")
    deploy(storing, "second", 1, volumes=volume_of("fresh"))
    wait_until(lambda: len(nodes(storing)) == 2, "a second node")
    [second] = nodes(storing) - {first}
    add_csi_node(storing, second, 2)  # the driver comes after the node; the scheduler looks again then
    wait_until(lambda: count_running(storing) == 2, "both pods running")
    assert set(hosts(storing)) == {first, second}
    assert count_bought(shared) == 2


def test_a_pod_gets_a_node_that_has_its_driver(storing: ControlPlane, shared: SharedCloud, start: StartDaemon) -> None:
    """Machines of one group come without the driver, as the first ones show; the scheduler takes no other."""
    add_driver(storing, reports_space=False, is_needed=True)
    add_csi_nodes(storing, 8, "far")
    start()
    for zone in ("a", "b"):
        deploy(storing, f"in-{zone}", 1, "3", nodeSelector={"topology.kubernetes.io/zone": zone})
    wait_until(lambda: count_running(storing) == 2, "two running pods")
    shared.calls.clear()
    for name in ("x", "y", "z"):
        add_claim(storing, name)
        bind(storing, name)
        deploy(storing, name, 1, "3", volumes=volume_of(name))
    wait_until(lambda: count_running(storing) == 5, "all pods running")
    assert {args[0] for what, args in shared.calls if what == "increase"} == {"far"}
    assert count_bought(shared) == 3


def test_a_pod_gets_a_node_where_its_driver_has_space(
    storing: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    add_driver(storing, reports_space=True)
    add_csi_nodes(storing, 8)
    for zone, size in (("a", "1Gi"), ("b", "1Ti")):
        body = {
            "metadata": {"name": f"space-{zone}"},
            "storageClassName": "wait",
            "nodeTopology": {"matchLabels": {"topology.kubernetes.io/zone": zone}},
            "capacity": size,
        }
        storing.request(CAPACITIES, method="POST", body=body)
    start()
    add_claim(storing, "data")
    deploy(storing, "db", 1, volumes=volume_of("data"))

    def is_selected() -> bool:
        return SELECTED in storing.request(f"{CLAIMS}/data")["metadata"].get("annotations", {})

    wait_until(is_selected, "a node for the volume")
    bind(storing, "data")
    wait_until(lambda: count_running(storing) == 1, "a running pod")
    [host] = hosts(storing)
    assert host.startswith("far-")
    assert [args[0] for what, args in shared.calls if what == "increase"] == ["far"]
    assert count_bought(shared) == 1


def test_a_pod_whose_driver_has_no_space_anywhere_buys_nothing(
    storing: ControlPlane, shared: SharedCloud, start: StartDaemon
) -> None:
    add_driver(storing, reports_space=True)
    start()
    add_claim(storing, "data")
    deploy(storing, "db", 1, volumes=volume_of("data"))
    wait_until(lambda: find_events(storing, "NotTriggerScaleUp"), "event of the pod")
    told = find_events(storing, "NotTriggerScaleUp")[0]
    assert "node(s) did not have enough free storage" in told["message"]
    assert shared.calls == []
