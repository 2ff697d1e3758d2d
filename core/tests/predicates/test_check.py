"""All predicates together: order, completeness, and agreement of mask and explanation."""

from typing import Any

from core.tests.predicates.manifests import cluster, node, pod, refusals
from core.tests.predicates.strategies import FEATURES, SETTINGS, nodes, pods, worlds
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodewright.model.pod import Pod, ResourceClaimReference
from nodewright.model.reason import Rejection
from nodewright.predicates import (
    amounts_room,
    explain,
    feasible,
    is_admitted,
    is_countable,
    static_fit,
    static_key,
)
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
        "NodeDeclaredFeatures",
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


def test_a_pod_whose_resource_claim_does_not_exist_is_refused_with_that_reason() -> None:
    found = refusals(cluster(node("n")), pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "card"}]))
    assert found == {"n": 'DynamicResources: could not find ResourceClaim "default/card"'}


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


# The fields of a spec that a static predicate reads.
STATIC = ("node_name", "node_selector", "affinity", "tolerations", "resource_claims")
CLAIMS = st.sampled_from(((), (ResourceClaimReference(name="r"),)))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Pod, Pod]:
    """Two pods that differ in one field of the spec."""
    features: dict[str, Any] = {**FEATURES, "resource_claims": CLAIMS}
    field = draw(st.sampled_from(STATIC))
    one = draw(pods())
    alike = {other: draw(features[other]) for other in STATIC if other != field and draw(st.integers(0, 3)) == 0}
    one = replace(one, spec=replace(one.spec, **alike, **{field: draw(features[field])}))
    return one, replace(one, spec=replace(one.spec, **{field: draw(features[field])}))


@given(pairs(), st.lists(nodes("n0"), min_size=1, max_size=3))
@SETTINGS
def test_pods_with_one_static_key_are_admitted_to_the_same_nodes(pair: tuple[Pod, Pod], drawn: list[Any]) -> None:
    snapshot = Snapshot()
    snapshot.add_nodes([replace(it, metadata=replace(it.metadata, name=f"n{n}")) for n, it in enumerate(drawn)])
    one, other = (snapshot.class_of(found) for found in pair)
    window = slice(0, len(snapshot))
    if static_key(one) == static_key(other):
        assert static_fit(snapshot, one, window).tolist() == static_fit(snapshot, other, window).tolist()
        if one.is_plain and other.is_plain:
            assert is_admitted(snapshot, one, window).tolist() == is_admitted(snapshot, other, window).tolist()


def test_a_static_key_differs_in_every_field_that_decides_where_a_pod_may_run() -> None:
    snapshot = cluster(
        node("tainted", taints=[{"key": "k", "effect": "NoSchedule"}]),
        node("cordoned", unschedulable=True),
        node("m"),
        node("n"),
    )
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
            }
        }
    }
    fields: tuple[dict[str, Any], ...] = (
        {"nodeName": "n"},
        {"nodeSelector": {"a": "b"}},
        {"affinity": affinity},
        {"tolerations": [{"key": "k", "operator": "Exists"}]},
    )
    window, plain = slice(0, len(snapshot)), snapshot.class_of(pod())
    for field in fields:
        found = snapshot.class_of(pod(**field))
        assert is_admitted(snapshot, found, window).tolist() != is_admitted(snapshot, plain, window).tolist(), field
        assert static_key(found) != static_key(plain), field
        alike = snapshot.class_of(pod(labels={"a": "b"}, **field))
        assert alike is not found
        assert static_key(alike) == static_key(found), field


@given(worlds(*FEATURES))
@SETTINGS
def test_a_plain_pod_fits_where_it_is_admitted_and_amounts_suffice(world: tuple[Snapshot, list[PodClass]]) -> None:
    """A predicate that is not static, and concerns plain pods, would be left out for them."""
    snapshot, classes = world
    window = slice(0, len(snapshot))
    for pod_class in classes:
        if is_countable(snapshot, pod_class):
            fits = is_admitted(snapshot, pod_class, window) & (amounts_room(snapshot, pod_class, window) > 0)
            assert fits.tolist() == feasible(snapshot, pod_class).tolist()
