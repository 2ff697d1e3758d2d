"""NodeVolumeLimits: docs/behaviour/scheduling.md#nodevolumelimits."""

from typing import Any

import pytest
from core.tests.predicates.manifests import (
    assert_agreement,
    claim,
    cluster,
    node,
    pod,
    refusals,
    storage_class,
    volume,
    volume_context,
)
from core.tests.predicates.strategies import SETTINGS, worlds
from hypothesis import given
from msgspec.structs import replace

from nodewright.model.cluster import (
    AttachmentSource,
    CsiDriver,
    CsiDriverSpec,
    PersistentVolume,
    VolumeAttachment,
    VolumeAttachmentSpec,
)
from nodewright.model.decode import convert_object
from nodewright.model.meta import Object, ObjectMeta
from nodewright.model.node import CsiAllocatable, CsiNode, CsiNodeDriver, CsiNodeSpec
from nodewright.predicates import explain, feasible
from nodewright.predicates.node_volume_limits import PREDICATE
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

REASON = "NodeVolumeLimits: node(s) exceed max volume count"


def _claiming(*names: str) -> dict[str, Any]:
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]}


def _limited(count: int | None, *objects: Object, driver: str = "csi", migrated: str = "") -> Snapshot:
    """One node whose driver attaches so many volumes, and one without a CSINode; claims a, b and c are bound."""
    allocatable = CsiAllocatable(count=count)
    csi_node = CsiNode(
        metadata=ObjectMeta(name="n", annotations={"storage.alpha.kubernetes.io/migrated-plugins": migrated}),
        spec=CsiNodeSpec(drivers=(CsiNodeDriver(name=driver, allocatable=allocatable),)),
    )
    bound = [claim(name, volume=f"v{name}") for name in "abc"]
    volumes = [volume(f"v{name}", handle=name) for name in "abc"]
    return cluster(node("n"), node("free"), context=volume_context(csi_node, *bound, *volumes, *objects))


@pytest.mark.parametrize(("count", "fits"), [(None, True), (2, True), (1, False), (0, False)])
def test_limit_of_the_driver(count: int | None, fits: bool) -> None:
    assert refusals(_limited(count), pod(**_claiming("a", "b"))) == ({} if fits else {"n": REASON})


def test_a_volume_that_is_there_already_counts_once() -> None:
    snapshot = _limited(2)
    snapshot.place(snapshot.class_of(pod("q", **_claiming("a", "b"))), 0)
    snapshot.place(snapshot.class_of(pod("r", **_claiming("a", "b"))), 0)
    assert refusals(snapshot, pod(**_claiming("b"))) == {}
    assert refusals(snapshot, pod(**_claiming("c"))) == {"n": REASON}


def test_an_unbound_claim_counts_for_the_driver_of_its_class() -> None:
    snapshot = _limited(1, claim("d", storage_class="wait"), storage_class("wait"))
    assert refusals(snapshot, pod(**_claiming("d"))) == {}
    assert refusals(snapshot, pod(**_claiming("d", "a"))) == {"n": REASON}


def test_in_tree_disks_count_where_the_node_has_migrated_them() -> None:
    inline: dict[str, Any] = {"volumes": [{"awsElasticBlockStore": {"volumeID": f"aws://z/{name}"}} for name in "xy"]}
    assert refusals(_limited(1, driver="ebs.csi.aws.com"), pod(**inline)) == {}
    migrated = _limited(1, driver="ebs.csi.aws.com", migrated="kubernetes.io/aws-ebs")
    assert refusals(migrated, pod(**inline)) == {"n": REASON}


_IN_TREE = {
    "kubernetes.io/aws-ebs": ("ebs.csi.aws.com", {"awsElasticBlockStore": {"volumeID": "aws://z/vol"}}),
    "kubernetes.io/gce-pd": ("pd.csi.storage.gke.io", {"gcePersistentDisk": {"pdName": "disk"}}),
    "kubernetes.io/azure-disk": ("disk.csi.azure.com", {"azureDisk": {"diskURI": "/subscriptions/x"}}),
    "kubernetes.io/azure-file": ("file.csi.azure.com", {"azureFile": {"secretName": "s", "shareName": "f"}}),
    "kubernetes.io/cinder": ("cinder.csi.openstack.org", {"cinder": {"volumeID": "v"}}),
    "kubernetes.io/vsphere-volume": ("csi.vsphere.vmware.com", {"vsphereVolume": {"volumePath": "[d] v"}}),
    "kubernetes.io/portworx-volume": ("pxd.portworx.com", {"portworxVolume": {"volumeID": "v"}}),
}


@pytest.mark.parametrize("plugin", _IN_TREE)
def test_bound_volumes_of_in_tree_plugins_count_for_the_driver_that_stands_in(plugin: str) -> None:
    driver, source = _IN_TREE[plugin]
    old = convert_object(PersistentVolume, {"kind": "PersistentVolume", "metadata": {"name": "old"}, "spec": source})
    claims = (claim("old", volume="old"), old)
    asked = pod(**_claiming("old"))
    assert refusals(_limited(0, *claims, driver=driver, migrated=plugin), asked) == {"n": REASON}
    assert refusals(_limited(1, *claims, driver=driver, migrated=plugin), asked) == {}
    assert refusals(_limited(0, *claims, driver=driver), asked) == {}


def test_copies_of_a_template_have_no_limit() -> None:
    snapshot = _limited(0)
    snapshot.add_copies(node("n"), 1)
    assert refusals(snapshot, pod(**_claiming("a"))) == {"n": REASON}


@given(worlds("volumes"))
@SETTINGS
def test_mask_agrees_with_explanation(world: tuple[Snapshot, list[PodClass]]) -> None:
    snapshot, classes = world
    for pod_class in classes:
        assert_agreement(PREDICATE, snapshot, pod_class)


def test_what_is_attached_takes_room_until_it_is_detached() -> None:
    left = AttachmentSource(persistent_volume_name="vc")
    attachment = VolumeAttachmentSpec(attacher="csi", node_name="n", source=left)
    held = _limited(2, VolumeAttachment(metadata=ObjectMeta(name="at"), spec=attachment))
    assert refusals(held, pod(**_claiming("a"))) == {}
    assert refusals(held, pod(**_claiming("a", "b"))) == {"n": REASON}


def test_a_driver_that_must_be_there() -> None:
    spec = CsiDriverSpec(prevent_pod_scheduling_if_missing=True)
    snapshot = _limited(2, CsiDriver(metadata=ObjectMeta(name="csi"), spec=spec))
    missing = "NodeVolumeLimits: csi CSI driver is not installed on the node"
    assert refusals(snapshot, pod(**_claiming("a"))) == {"free": missing}
    assert refusals(snapshot, pod()) == {}


@pytest.mark.parametrize(
    ("drivers", "takes"), [({"csi": 1}, False), ({"csi": 2}, True), ({"csi": None}, True), ({}, False)]
)
def test_a_new_node_has_the_drivers_of_its_template(drivers: dict[str, int | None], takes: bool) -> None:
    spec = CsiDriverSpec(prevent_pod_scheduling_if_missing=True)
    snapshot = _limited(0, CsiDriver(metadata=ObjectMeta(name="csi"), spec=spec))
    known = tuple(
        CsiNodeDriver(name=name, allocatable=CsiAllocatable(count=count) if count is not None else None)
        for name, count in drivers.items()
    )
    rows = snapshot.add_copies(replace(node("t"), csi_node=CsiNode(spec=CsiNodeSpec(drivers=known))), 2)
    wanted = snapshot.class_of(pod(**_claiming("a", "b")))
    assert feasible(snapshot, wanted, rows).tolist() == [takes, takes]
    assert [explain(snapshot, wanted, row) is None for row in (rows.start, rows.start + 1)] == [takes, takes]
