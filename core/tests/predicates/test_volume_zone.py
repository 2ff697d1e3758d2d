"""VolumeZone: docs/behaviour/scheduling.md#volumezone, cases 124 and 125."""

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

from nodewright.predicates.volume_zone import PREDICATE
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

ZONE = "topology.kubernetes.io/zone"
BETA = "failure-domain.beta.kubernetes.io/zone"
REASON = "VolumeZone: node(s) had no available volume zone"
CLAIMING: dict[str, Any] = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}


@pytest.mark.parametrize(
    ("labels", "refused"),
    [
        pytest.param({ZONE: "a"}, {"b"}, id="124-one-zone"),
        pytest.param({ZONE: "a__b"}, set(), id="124-two-zones"),
        pytest.param({BETA: "a"}, {"b"}, id="124-beta-label-by-the-new-one"),
        pytest.param({ZONE: "a__"}, set(), id="empty-entry-says-nothing"),
        pytest.param({"topology.kubernetes.io/region": "r"}, {"a", "b"}, id="region-that-no-node-has"),
        pytest.param({}, set(), id="no-labels"),
    ],
)
def test_labels_of_a_bound_volume(labels: dict[str, str], refused: set[str]) -> None:
    context = volume_context(claim("c", volume="v"), volume("v", labels=labels))
    snapshot = cluster(node("a", "a"), node("b", "b"), node("nowhere"), context=context)
    assert refusals(snapshot, pod(**CLAIMING)) == dict.fromkeys(refused, REASON)


def test_the_beta_label_of_a_node_does_not_stand_in_for_the_new_one() -> None:
    context = volume_context(claim("c", volume="v"), volume("v", labels={ZONE: "a"}))
    snapshot = cluster(node("old", labels={BETA: "a"}), context=context)
    assert refusals(snapshot, pod(**CLAIMING)) == {"old": REASON}


def test_125_a_bound_volume_that_is_missing_is_reported_here() -> None:
    snapshot = cluster(node("n"), context=volume_context(claim("c", volume="v")))
    assert refusals(snapshot, pod(**CLAIMING)) == {"n": 'VolumeZone: persistentvolume "v" not found'}


@given(worlds("volumes"))
@SETTINGS
def test_mask_agrees_with_explanation(world: tuple[Snapshot, list[PodClass]]) -> None:
    snapshot, classes = world
    for pod_class in classes:
        assert_agreement(PREDICATE, snapshot, pod_class)
