"""VolumeBinding: docs/behaviour/scheduling.md#volumebinding, cases 121-127."""

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

from nodewright.model.cluster import (
    CsiDriver,
    CsiDriverSpec,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    TopologyRequirement,
    TopologyTerm,
    VolumeNodeAffinity,
)
from nodewright.model.decode import convert_object
from nodewright.model.meta import LabelSelector, Object, ObjectMeta, Requirement
from nodewright.model.node import CsiNode
from nodewright.model.pod import NodeSelector, NodeSelectorTerm
from nodewright.model.quantity import Quantity
from nodewright.predicates.volume_binding import (
    BIND_REASON,
    IMMEDIATE_REASON,
    PREDICATE,
    SPACE_REASON,
    _topologies_with_space,
)
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

ZONE = "topology.kubernetes.io/zone"
BIND = f"VolumeBinding: {BIND_REASON}"


def _claiming(*names: str) -> dict[str, Any]:
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names or ("c",)]}


def _in_zone(zone: str) -> VolumeNodeAffinity:
    term = NodeSelectorTerm(match_expressions=(Requirement(key=ZONE, operator="In", values=(zone,)),))
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,)))


def _zones(*objects: Object) -> Snapshot:
    return cluster(node("a", "a"), node("b", "b"), node("out"), context=volume_context(*objects))


def test_121_an_unbound_claim_is_provisioned_anywhere() -> None:
    snapshot = _zones(claim("c", storage_class="wait"), storage_class("wait"))
    assert refusals(snapshot, pod(**_claiming())) == {}


def test_121_allowed_topologies_restrict_provisioning() -> None:
    term = TopologyTerm(match_label_expressions=(TopologyRequirement(key=ZONE, values=("a",)),))
    topologies = (TopologyTerm(), term)
    snapshot = _zones(claim("c", storage_class="wait"), storage_class("wait", allowed_topologies=topologies))
    assert refusals(snapshot, pod(**_claiming())) == {"b": BIND, "out": BIND}


def _static(*names: str, **volumes: VolumeNodeAffinity) -> Snapshot:
    classes = [storage_class("static", provisioner="kubernetes.io/no-provisioner")]
    claims = [claim(name, storage_class="static") for name in names]
    offered = [volume(name, node_affinity=place, storage_class="static") for name, place in volumes.items()]
    return _zones(*classes, *claims, *offered)


def test_122_without_a_provisioner_only_an_available_volume_will_do() -> None:
    assert refusals(_static("c", v=_in_zone("a")), pod(**_claiming())) == {"b": BIND, "out": BIND}


def test_122_one_volume_serves_one_claim_of_a_pod() -> None:
    snapshot = _static("c", "d", v=_in_zone("a"))
    assert set(refusals(snapshot, pod(**_claiming("c", "d")))) == {"a", "b", "out"}
    two = _static("c", "d", v=_in_zone("a"), w=_in_zone("a"))
    assert set(refusals(two, pod(**_claiming("c", "d")))) == {"b", "out"}


def test_122_two_pods_one_after_another_may_take_the_same_volume() -> None:
    snapshot = _static("c", "d", v=_in_zone("a"))
    snapshot.place(snapshot.class_of(pod(**_claiming("c"))), 0)
    assert "a" not in refusals(snapshot, pod(**_claiming("d")))


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param((claim("c", storage_class="now"), storage_class("now", mode="Immediate")), id="123-immediate"),
        pytest.param((claim("c", storage_class="gone"),), id="123-class-missing"),
        pytest.param((claim("c", volume="v", bound=False), volume("v")), id="123-prebound"),
    ],
)
def test_123_unbound_immediate_claims_are_turned_away(objects: tuple[Object, ...]) -> None:
    found = refusals(_zones(*objects), pod(**_claiming()))
    assert found == dict.fromkeys(("a", "b", "out"), f"VolumeBinding: {IMMEDIATE_REASON}")


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (claim("c", volume="v", phase="Lost"), 'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"'),
        (claim("c", volume="v", deleted=True), 'persistentvolumeclaim "c" is being deleted'),
    ],
)
def test_125_claims_in_a_bad_state(made: PersistentVolumeClaim, reason: str) -> None:
    assert refusals(_zones(made, volume("v")), pod(**_claiming()))["a"] == f"VolumeBinding: {reason}"


def test_a_bound_volume_must_reach_the_node() -> None:
    snapshot = _zones(claim("c", volume="v"), volume("v", node_affinity=_in_zone("a")))
    reason = "VolumeBinding: node(s) didn't match PersistentVolume's node affinity"
    assert refusals(snapshot, pod(**_claiming())) == {"b": reason, "out": reason}


_ZONAL = {
    "kubernetes.io/aws-ebs": ({"awsElasticBlockStore": {"volumeID": "aws://a/vol"}}, "topology.ebs.csi.aws.com/zone"),
    "kubernetes.io/gce-pd": ({"gcePersistentDisk": {"pdName": "disk"}}, "topology.gke.io/zone"),
    "kubernetes.io/cinder": ({"cinder": {"volumeID": "v"}}, "topology.cinder.csi.openstack.org/zone"),
}
_OLD_ZONE, _OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


def _in_tree(source: dict[str, Any], labels: dict[str, str], *affinity: tuple[str, str]) -> PersistentVolume:
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in affinity]
    terms = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}
    meta = {"name": "v", "labels": labels}
    raw = {"kind": "PersistentVolume", "metadata": meta, "spec": {**source, **(terms if affinity else {})}}
    return convert_object(PersistentVolume, raw)


def _migrated(name: str, plugin: str) -> CsiNode:
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": f"kubernetes.io/other,{plugin}"}
    return CsiNode(metadata=ObjectMeta(name=name, annotations=annotations))


@pytest.mark.parametrize("plugin", _ZONAL)
@pytest.mark.parametrize(
    ("labels", "affinity"),
    [
        ({}, [(ZONE, "a")]),
        ({ZONE: "a"}, [(ZONE, "a")]),
        ({ZONE: "a__c"}, []),
        ({_OLD_ZONE: "a"}, []),
        ({}, [(_OLD_ZONE, "a"), (_OLD_REGION, "r")]),
        ({ZONE: "a"}, [("disk", "ssd")]),
    ],
)
def test_a_volume_of_an_in_tree_plugin_is_reached_by_the_label_of_the_driver_that_stands_in(
    plugin: str, labels: dict[str, str], affinity: list[tuple[str, str]]
) -> None:
    """The migrated nodes are ``a``, ``b`` and ``bare``, which its driver has not labelled; ``old`` is not migrated."""
    source, key = _ZONAL[plugin]
    held = _in_tree(source, labels, *affinity)
    plain = {ZONE: "a", _OLD_ZONE: "a", "topology.kubernetes.io/region": "r", _OLD_REGION: "r", "disk": "ssd"}
    nodes = {"a": {key: "a"}, "b": {key: "b"}, "bare": {}, "old": {}}
    csi_nodes = [_migrated(name, plugin) for name in ("a", "b", "bare")]
    snapshot = cluster(
        *(node(name, labels={**plain, **own}) for name, own in nodes.items()),
        context=volume_context(claim("c", volume="v"), held, *csi_nodes),
    )
    reason = "VolumeBinding: node(s) didn't match PersistentVolume's node affinity"
    assert refusals(snapshot, pod(**_claiming())) == {"b": reason, "bare": reason}
    assert_agreement(PREDICATE, snapshot, snapshot.class_of(pod(**_claiming())))


def test_a_volume_of_an_in_tree_plugin_without_a_zone_is_reached_from_everywhere() -> None:
    context = volume_context(claim("c", volume="v"), _in_tree(_ZONAL["kubernetes.io/cinder"][0], {}))
    assert refusals(cluster(node("a"), context=context), pod(**_claiming())) == {}


def test_126_a_claim_given_to_a_node_goes_there_only() -> None:
    chosen = claim("c", storage_class="wait", annotations={"volume.kubernetes.io/selected-node": "b"})
    assert refusals(_zones(chosen, storage_class("wait")), pod(**_claiming())) == {"a": BIND, "out": BIND}


def test_127_a_driver_that_publishes_its_space_has_none_here() -> None:
    driver = CsiDriver(metadata=ObjectMeta(name="csi"), spec=CsiDriverSpec(storage_capacity=True))
    snapshot = _zones(claim("c", storage_class="wait"), storage_class("wait"), driver)
    assert refusals(snapshot, pod(**_claiming()))["a"] == f"VolumeBinding: {SPACE_REASON}"
    unsized = claim("c", storage_class="wait", size=None)
    assert refusals(_zones(unsized, storage_class("wait"), driver), pod(**_claiming())) == {}


def _capacity(zone: str | None, size: str | None, most: str | None = None, of: str = "wait") -> CsiStorageCapacity:
    selector = LabelSelector(match_labels={ZONE: zone} if zone else {}) if zone is not None else None
    sizes = {name: Quantity.of(one) for name, one in (("capacity", size), ("maximum_volume_size", most)) if one}
    meta = ObjectMeta(name=f"{zone}-{size}-{most}-{of}", namespace="driver")
    return CsiStorageCapacity(metadata=meta, node_topology=selector, storage_class_name=of, **sizes)


SPACE = f"VolumeBinding: {SPACE_REASON}"


@pytest.mark.parametrize(
    ("capacity", "full"),
    [
        (_capacity("a", "5Gi"), {"b", "out"}),
        (_capacity("", "5Gi"), set()),
        (_capacity(None, "5Gi"), {"a", "b", "out"}),
        (_capacity("a", "4Gi"), {"a", "b", "out"}),
        (_capacity("a", "1Ti", "4Gi"), {"a", "b", "out"}),
        (_capacity("a", "1Gi", "5Gi"), {"b", "out"}),
        (_capacity("a", None), {"a", "b", "out"}),
        (_capacity("a", "5Gi", of="other"), {"a", "b", "out"}),
    ],
)
def test_a_claim_goes_where_its_driver_reports_enough_space(capacity: CsiStorageCapacity, full: set[str]) -> None:
    driver = CsiDriver(metadata=ObjectMeta(name="csi"), spec=CsiDriverSpec(storage_capacity=True))
    snapshot = _zones(claim("c", storage_class="wait", size=5 * 2**30), storage_class("wait"), driver, capacity)
    assert refusals(snapshot, pod(**_claiming())) == dict.fromkeys(full, SPACE)


def test_space_that_is_reported_for_each_zone_is_joined() -> None:
    driver = CsiDriver(metadata=ObjectMeta(name="csi"), spec=CsiDriverSpec(storage_capacity=True))
    space = [_capacity("a", "5Gi"), _capacity("b", "6Gi")]
    snapshot = _zones(claim("c", storage_class="wait"), storage_class("wait"), driver, *space)
    assert refusals(snapshot, pod(**_claiming())) == {"out": SPACE}
    joined, *others = _topologies_with_space(claim("c", storage_class="wait"), snapshot.context) or []
    assert [(one.key, set(one.values)) for one in joined.requirements] == [(ZONE, {"a", "b"})]
    assert not others


def test_space_and_allowed_topologies_must_agree() -> None:
    driver = CsiDriver(metadata=ObjectMeta(name="csi"), spec=CsiDriverSpec(storage_capacity=True))
    term = TopologyTerm(match_label_expressions=(TopologyRequirement(key=ZONE, values=("a",)),))
    made = storage_class("wait", allowed_topologies=(term,))
    snapshot = _zones(claim("c", storage_class="wait"), made, driver, _capacity("b", "1Ti"))
    assert refusals(snapshot, pod(**_claiming())) == {"a": SPACE, "b": BIND, "out": BIND}


def test_the_smallest_volume_that_is_large_enough_is_taken() -> None:
    classes = storage_class("static", provisioner="kubernetes.io/no-provisioner")
    volumes = [volume(name, storage_class="static", size=size) for name, size in (("v", 5), ("w", 2), ("x", 1))]
    claims = [claim("c", storage_class="static", size=1), claim("d", storage_class="static", size=4)]
    assert refusals(_zones(classes, *volumes, *claims), pod(**_claiming("d", "c"))) == {}
    assert refusals(_zones(classes, *volumes[1:], *claims), pod(**_claiming("d", "c")))["a"] == BIND


def test_a_volume_reserved_for_the_claim_or_none() -> None:
    classes = storage_class("static", provisioner="kubernetes.io/no-provisioner")
    reserved = volume("v", storage_class="static", node_affinity=_in_zone("a"), reserved_for="c", phase="Released")
    snapshot = _zones(classes, claim("c", storage_class="static"), reserved, volume("w", storage_class="static"))
    assert refusals(snapshot, pod(**_claiming())) == {"b": BIND, "out": BIND}


def test_an_ephemeral_claim_must_exist_and_belong_to_the_pod() -> None:
    asked = pod(volumes=[{"name": "scratch", "ephemeral": {}}])
    waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    assert refusals(_zones(), asked)["a"] == f"VolumeBinding: {waiting}"
    foreign = "PVC default/p-scratch was not created for pod default/p (pod is not owner)"
    assert refusals(_zones(claim("p-scratch", volume="v"), volume("v")), asked)["a"] == f"VolumeBinding: {foreign}"


@given(worlds("volumes"))
@SETTINGS
def test_mask_agrees_with_explanation(world: tuple[Snapshot, list[PodClass]]) -> None:
    snapshot, classes = world
    for pod_class in classes:
        assert_agreement(PREDICATE, snapshot, pod_class)
