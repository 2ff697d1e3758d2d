"""VolumeRestrictions: docs/behaviour/scheduling.md#volumerestrictions, cases 105 and 128."""

from typing import Any

import pytest
from core.tests.predicates.manifests import (
    assert_agreement,
    claim,
    cluster,
    node,
    pod,
    refusals,
    volume,
    volume_context,
)
from core.tests.predicates.strategies import SETTINGS, worlds
from hypothesis import given

from nodewright.predicates.volume_restrictions import IN_USE_REASON, PREDICATE
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

DISK = {"n": "VolumeRestrictions: node(s) had no available disk"}


def _disk(kind: str, **fields: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", kind: fields}]}


def _claiming(name: str = "c") -> dict[str, Any]:
    return _disk("persistentVolumeClaim", claimName=name)


@pytest.mark.parametrize(
    ("held", "wanted", "fits"),
    [
        (_disk("gcePersistentDisk", pdName="d"), _disk("gcePersistentDisk", pdName="d"), False),
        (_disk("gcePersistentDisk", pdName="d", readOnly=True), _disk("gcePersistentDisk", pdName="d"), False),
        (
            _disk("gcePersistentDisk", pdName="d", readOnly=True),
            _disk("gcePersistentDisk", pdName="d", readOnly=True),
            True,
        ),
        (_disk("gcePersistentDisk", pdName="d"), _disk("gcePersistentDisk", pdName="e"), True),
        (
            _disk("awsElasticBlockStore", volumeID="d", readOnly=True),
            _disk("awsElasticBlockStore", volumeID="d", readOnly=True),
            False,
        ),
        (_disk("iscsi", iqn="i"), _disk("iscsi", iqn="i", readOnly=True), False),
        (_disk("iscsi", iqn="i", readOnly=True), _disk("iscsi", iqn="i", readOnly=True), True),
        (_disk("rbd", monitors=["m", "n"], image="i"), _disk("rbd", monitors=["n", "o"], image="i"), False),
        (_disk("rbd", monitors=["m"], image="i"), _disk("rbd", monitors=["n"], image="i"), True),
        (_disk("rbd", monitors=["m"], image="i", pool="a"), _disk("rbd", monitors=["m"], image="i", pool="b"), True),
    ],
)
def test_disks(held: dict[str, Any], wanted: dict[str, Any], fits: bool) -> None:
    snapshot = cluster(node("n"), node("free"), placed=[(pod("q", **held), "n")])
    assert refusals(snapshot, pod(**wanted)) == ({} if fits else DISK)


def test_105_a_missing_claim_is_reported_here_for_all_nodes() -> None:
    found = refusals(cluster(node("a"), node("b")), pod(**_claiming()))
    assert found == dict.fromkeys("ab", 'VolumeRestrictions: persistentvolumeclaim "c" not found')


def test_128_a_claim_for_one_pod_is_in_use_on_every_node() -> None:
    context = volume_context(claim("c", volume="v", access_modes=("ReadWriteOncePod",)), volume("v"))
    snapshot = cluster(node("a"), node("b"), context=context)
    assert refusals(snapshot, pod(**_claiming())) == {}
    snapshot.place(snapshot.class_of(pod(**_claiming())), 0)
    assert refusals(snapshot, pod(**_claiming())) == dict.fromkeys("ab", f"VolumeRestrictions: {IN_USE_REASON}")
    snapshot.unplace(snapshot.class_of(pod(**_claiming())), 0)
    assert refusals(snapshot, pod(**_claiming())) == {}


@given(worlds("volumes"))
@SETTINGS
def test_mask_agrees_with_explanation(world: tuple[Snapshot, list[PodClass]]) -> None:
    snapshot, classes = world
    for pod_class in classes:
        assert_agreement(PREDICATE, snapshot, pod_class)
