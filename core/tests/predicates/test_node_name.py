"""NodeName: docs/behaviour/scheduling.md#nodename."""

from core.tests.predicates.manifests import assert_agreement, cluster, node, pod, refusals
from core.tests.predicates.strategies import SETTINGS, worlds
from hypothesis import given

from nodewright.predicates.node_name import PREDICATE
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot


def test_a_pod_that_names_its_node_goes_nowhere_else() -> None:
    snapshot = cluster(node("a"), node("b"))
    assert refusals(snapshot, pod(nodeName="a")) == {"b": "NodeName: node(s) didn't match the requested node name"}
    assert set(refusals(snapshot, pod(nodeName="gone"))) == {"a", "b"}


def test_a_copy_can_be_named() -> None:
    snapshot = cluster(node("a"))
    snapshot.add_copies(node("template"), 2)
    assert set(refusals(snapshot, pod(nodeName="copy-2"))) == {"a", "copy-1"}
    assert set(refusals(snapshot, pod(nodeName="template"))) == {"a", "copy-1", "copy-2"}


def test_a_placed_pod_is_no_longer_asked_where_it_wants_to_be() -> None:
    snapshot = cluster(node("a"), node("b"))
    running = snapshot.class_of(pod(nodeName="a"), placed=True)
    assert running.spec.node_name == ""


@given(worlds("node_name"))
@SETTINGS
def test_mask_agrees_with_explanation(world: tuple[Snapshot, list[PodClass]]) -> None:
    snapshot, classes = world
    for pod_class in classes:
        assert_agreement(PREDICATE, snapshot, pod_class)
