"""All predicates together: order, completeness, and agreement of mask and explanation."""

from core.tests.predicates.manifests import cluster, node, pod, refusals
from core.tests.predicates.strategies import FEATURES, SETTINGS, worlds
from hypothesis import given

from nodewright.model.reason import Rejection
from nodewright.predicates import explain, feasible, static_fit
from nodewright.predicates.check import FILTERS
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot


def test_filters_stand_in_the_schedulers_order() -> None:
    assert [predicate.name for predicate in FILTERS] == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
    ]


def test_the_first_filter_that_refuses_is_named() -> None:
    taints = [{"key": "k", "effect": "NoSchedule"}]
    snapshot = cluster(node("n", offers={}, taints=taints), node("cordoned", unschedulable=True, taints=taints))
    found = refusals(snapshot, pod(nodeSelector={"a": "b"}))
    assert {name: text.partition(":")[0] for name, text in found.items()} == {
        "n": "TaintToleration",
        "cordoned": "NodeUnschedulable",
    }


def test_106_scheduling_gates_keep_no_pod_from_any_node() -> None:
    assert refusals(cluster(node("n")), pod(schedulingGates=[{"name": "g"}])) == {}


def test_pods_with_resource_claims_are_refused_with_that_reason() -> None:
    found = refusals(cluster(node("n")), pod(resourceClaims=[{"name": "gpu"}]))
    assert found == {"n": "DynamicResources: resource claims (dynamic resource allocation) are not supported yet"}


def test_what_turns_a_pod_away_comes_before_what_keeps_it_off_a_node() -> None:
    asked = pod(resourceClaims=[{"name": "gpu"}])
    snapshot = cluster(node("cordoned", unschedulable=True))
    rejection = explain(snapshot, snapshot.class_of(asked), 0)
    assert isinstance(rejection, Rejection)
    assert rejection.predicate == "DynamicResources"


def test_dead_rows_take_nothing() -> None:
    snapshot = cluster(node("a"), node("b"))
    asked = snapshot.class_of(pod())
    snapshot.remove_node(0)
    assert feasible(snapshot, asked).tolist() == [False, True]
    assert static_fit(snapshot, asked, slice(0, 2)).tolist() == [False, True]


def test_an_empty_picture_takes_nothing() -> None:
    snapshot = Snapshot()
    assert feasible(snapshot, snapshot.class_of(pod())).tolist() == []


@given(worlds(*FEATURES))
@SETTINGS
def test_feasible_is_where_nothing_explains_a_refusal(world: tuple[Snapshot, list[PodClass]]) -> None:
    snapshot, classes = world
    for pod_class in classes:
        mask = feasible(snapshot, pod_class)
        for row, _ in snapshot.nodes():
            assert bool(mask[row]) == (explain(snapshot, pod_class, row) is None)
        assert not (mask & ~static_fit(snapshot, pod_class, slice(0, len(snapshot)))).any()
