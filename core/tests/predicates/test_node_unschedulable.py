"""NodeUnschedulable: docs/behaviour/scheduling.md#nodeunschedulable."""

from core.tests.predicates.manifests import assert_agreement, cluster, node, pod, refusals
from core.tests.predicates.strategies import SETTINGS, worlds
from hypothesis import given

from nodewright.predicates.node_unschedulable import PREDICATE
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot


def test_a_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    snapshot = cluster(node("cordoned", unschedulable=True), node("open"))
    assert refusals(snapshot, pod()) == {"cordoned": "NodeUnschedulable: node(s) were unschedulable"}
    key = "node.kubernetes.io/unschedulable"
    assert refusals(snapshot, pod(tolerations=[{"key": key, "operator": "Exists", "effect": "NoSchedule"}])) == {}
    assert "cordoned" in refusals(
        snapshot, pod(tolerations=[{"key": key, "operator": "Exists", "effect": "NoExecute"}])
    )
    assert refusals(snapshot, pod(tolerations=[{"operator": "Exists"}])) == {}


@given(worlds("tolerations"))
@SETTINGS
def test_mask_agrees_with_explanation(world: tuple[Snapshot, list[PodClass]]) -> None:
    snapshot, classes = world
    for pod_class in classes:
        assert_agreement(PREDICATE, snapshot, pod_class)
