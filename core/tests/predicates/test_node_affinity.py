"""NodeAffinity: docs/behaviour/scheduling.md#nodeaffinity, cases 90-92 and 107."""

from typing import Any

import pytest
from core.tests.predicates.manifests import assert_agreement, cluster, node, pod, refusals
from core.tests.predicates.strategies import SETTINGS, worlds
from hypothesis import given

from nodewright.predicates.node_affinity import PREDICATE
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

REASON = "NodeAffinity: node(s) didn't match Pod's node affinity/selector"


def _required(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def _expression(operator: str, *values: str, key: str = "size") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def _named(operator: str, *names: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(names)}]}


@pytest.mark.parametrize(
    ("terms", "fitting"),
    [
        pytest.param([_expression("Gt", "3")], {"five"}, id="90-gt-on-absent-label"),
        pytest.param([_expression("NotIn", "5")], {"none", "word"}, id="90-not-in-on-absent-label"),
        pytest.param([_expression("Lt", "six")], set(), id="90-lt-with-non-integer"),
        pytest.param([_expression("Gt", "-3")], set(), id="gt-with-an-illegal-label-value"),
        pytest.param([_expression("Gt", "3", "4")], set(), id="gt-with-two-values"),
        pytest.param([_expression("Lt", "6")], {"five"}, id="lt-where-the-label-is-no-integer"),
        pytest.param([_expression("Exists")], {"five", "word"}, id="exists"),
        pytest.param([_expression("Exists", "5")], set(), id="exists-with-a-value"),
        pytest.param([_expression("DoesNotExist")], {"none"}, id="does-not-exist"),
        pytest.param([_expression("In")], set(), id="in-without-values"),
        pytest.param([_expression("Near", "5")], set(), id="unknown-operator"),
        pytest.param([_expression("In", "5", key="bad key!")], set(), id="illegal-key"),
        pytest.param([_expression("In", "bad value!")], set(), id="illegal-value"),
        pytest.param([_expression("In", "5", "x" * 64)], set(), id="value-too-long"),
        pytest.param([_expression("Near"), _expression("In", "5")], {"five"}, id="other-terms-still-count"),
        pytest.param([_named("In", "five", "none")], set(), id="91-two-names"),
        pytest.param([_named("NotIn", "five")], {"none", "word"}, id="91-not-in-one-name"),
        pytest.param([_named("In", "five")], {"five"}, id="one-name"),
        pytest.param([{}], set(), id="92-single-empty-term"),
        pytest.param([], set(), id="no-terms"),
        pytest.param([{**_named("In", "five"), **_expression("In", "x")}], set(), id="name-and-label"),
    ],
)
def test_terms(terms: list[dict[str, Any]], fitting: set[str]) -> None:
    nodes = [node("five", labels={"size": "5"}), node("none"), node("word", labels={"size": "x"})]
    assert {"five", "none", "word"} - set(refusals(cluster(*nodes), pod(**_required(*terms)))) == fitting


def test_107_outside_the_list_of_names_there_is_no_reason() -> None:
    snapshot = cluster(node("a"), node("b"))
    assert refusals(snapshot, pod(**_required(_named("In", "a")))) == {"b": "NodeAffinity: "}


def test_91_two_names_pass_the_list_and_fail_the_filter() -> None:
    snapshot = cluster(node("a"), node("b"), node("c"))
    found = refusals(snapshot, pod(**_required(_named("In", "a", "b"))))
    assert found == {"a": REASON, "b": REASON, "c": "NodeAffinity: "}


def test_contradictory_names_conflict_everywhere() -> None:
    names = [*_named("In", "a")["matchFields"], *_named("In", "b")["matchFields"]]
    found = refusals(cluster(node("a"), node("c")), pod(**_required({"matchFields": names})))
    assert found == dict.fromkeys(("a", "c"), "NodeAffinity: pod affinity terms conflict")


def test_node_selector_and_terms_hold_together() -> None:
    nodes = [node("a", zone="z", labels={"size": "5"}), node("b", labels={"size": "5"}), node("c", zone="z")]
    spec = {"nodeSelector": {"topology.kubernetes.io/zone": "z"}, **_required(_expression("In", "5", "6"))}
    assert refusals(cluster(*nodes), pod(**spec)) == {"b": REASON, "c": REASON}


def test_an_empty_node_selector_matches_all() -> None:
    assert refusals(cluster(node("a")), pod(nodeSelector={})) == {}


def test_hostile_requirements_neither_raise_nor_match() -> None:
    huge = _expression("Gt", "9" * 100_000)
    many = _expression("In", *(f"v{i}" for i in range(10_000)))
    snapshot = cluster(node("a", labels={"size": "1" + "0" * 5000}))
    assert set(refusals(snapshot, pod(**_required(huge, many)))) == {"a"}


@given(worlds("node_selector", "affinity"))
@SETTINGS
def test_mask_agrees_with_explanation(world: tuple[Snapshot, list[PodClass]]) -> None:
    snapshot, classes = world
    for pod_class in classes:
        assert_agreement(PREDICATE, snapshot, pod_class)
