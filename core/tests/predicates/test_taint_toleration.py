"""TaintToleration: docs/behaviour/scheduling.md#tainttoleration, cases 93 and 94."""

import pytest
from core.tests.predicates.manifests import assert_agreement, cluster, node, pod, refusals
from core.tests.predicates.strategies import SETTINGS, worlds
from hypothesis import given

from nodewright.predicates.taint_toleration import PREDICATE
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

REFUSED = {"n": "TaintToleration: node(s) had untolerated taint(s)"}


@pytest.mark.parametrize(
    ("taint", "toleration", "fits"),
    [
        pytest.param({"value": "v"}, {"operator": "Equal", "value": "v"}, True, id="93-empty-key-with-same-value"),
        pytest.param({"value": "v"}, {"value": "w"}, False, id="93-empty-key-with-another-value"),
        pytest.param({"value": "5"}, {"key": "k", "operator": "Gt", "value": "4"}, True, id="94-gt-above"),
        pytest.param({"value": "4"}, {"key": "k", "operator": "Gt", "value": "4"}, False, id="94-gt-equal"),
        pytest.param({"value": "3"}, {"key": "k", "operator": "Lt", "value": "4"}, True, id="94-lt-below"),
        pytest.param({"value": "4"}, {"key": "k", "operator": "Lt", "value": "4"}, False, id="94-lt-equal"),
        pytest.param({"value": "+5"}, {"key": "k", "operator": "Gt", "value": "4"}, False, id="94-no-plain-number"),
        pytest.param({"value": "5"}, {"key": "k", "operator": "Gt", "value": "x"}, False, id="94-no-bound"),
        pytest.param({}, {"key": "k", "operator": "Exists"}, True, id="exists"),
        pytest.param({}, {"key": "k", "operator": "Exists", "effect": "NoExecute"}, False, id="another-effect"),
        pytest.param({"effect": "PreferNoSchedule"}, {}, True, id="soft-taints-do-not-count"),
        pytest.param({"effect": "NoExecute"}, {"key": "other"}, False, id="another-key"),
        pytest.param({}, {"key": "k", "operator": "nonsense"}, False, id="unknown-operator"),
    ],
)
def test_toleration(taint: dict[str, str], toleration: dict[str, str], fits: bool) -> None:
    tainted = node("n", taints=[{"key": "k", "effect": "NoSchedule", **taint}])
    assert refusals(cluster(tainted), pod(tolerations=[toleration])) == ({} if fits else REFUSED)


def test_every_hard_taint_must_be_tolerated() -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]
    snapshot = cluster(node("n", taints=taints))
    assert refusals(snapshot, pod(tolerations=[{"key": "a"}])) == REFUSED
    assert refusals(snapshot, pod(tolerations=[{"key": "a"}, {"key": "b", "operator": "Exists"}])) == {}


@given(worlds("tolerations"))
@SETTINGS
def test_mask_agrees_with_explanation(world: tuple[Snapshot, list[PodClass]]) -> None:
    snapshot, classes = world
    for pod_class in classes:
        assert_agreement(PREDICATE, snapshot, pod_class)
