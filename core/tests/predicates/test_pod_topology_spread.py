"""PodTopologySpread: docs/behaviour/scheduling.md#podtopologyspread, cases 101-104."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from core.tests.predicates.manifests import assert_agreement, cluster, node, pod, refusals
from core.tests.predicates.reference import explain_spread
from core.tests.predicates.strategies import SETTINGS, worlds
from hypothesis import given

from nodewright.predicates.pod_topology_spread import PREDICATE
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

ZONE = "topology.kubernetes.io/zone"
SKEW = "PodTopologySpread: node(s) didn't match pod topology spread constraints"
WEB = {"app": "web"}


def _spread(selector: Any = "own", **more: Any) -> dict[str, Any]:
    stated = {"matchLabels": WEB} if selector == "own" else selector
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": stated}
    return {"topologySpreadConstraints": [{**constraint, **more}]}


def _zones(in_a: int, in_b: int, **b: Any) -> Snapshot:
    """Nodes a and b, each a zone, with so many web pods."""
    web = pod("w", WEB)
    return cluster(node("a", "a"), node("b", "b", **b), placed=[(web, "a")] * in_a + [(web, "b")] * in_b)


@pytest.mark.parametrize(
    ("in_a", "in_b", "spec", "refused"),
    [
        pytest.param(1, 0, _spread(), {"a"}, id="one-more-than-the-least"),
        pytest.param(1, 1, _spread(), set(), id="even"),
        pytest.param(2, 1, _spread(maxSkew=2), set(), id="wide-skew"),
        pytest.param(5, 0, _spread({}), set(), id="101-empty-selector"),
        pytest.param(5, 0, _spread(None), set(), id="101-no-selector"),
        pytest.param(1, 1, _spread(minDomains=3), {"a", "b"}, id="102-fewer-domains-than-asked"),
        pytest.param(1, 1, _spread(minDomains=2), set(), id="102-as-many-domains-as-asked"),
        pytest.param(2, 0, {**_spread(), "nodeSelector": {ZONE: "a"}}, {"b"}, id="103-other-zones-do-not-count"),
        pytest.param(
            2, 0, {**_spread(nodeAffinityPolicy="Ignore"), "nodeSelector": {ZONE: "a"}}, {"a", "b"}, id="103-ignored"
        ),
        pytest.param(5, 0, _spread(whenUnsatisfiable="ScheduleAnyway"), set(), id="soft"),
        pytest.param(1, 0, _spread({"matchLabels": {"app": "db"}}), set(), id="others-are-spread-already"),
        pytest.param(1, 0, _spread(matchLabelKeys=["version"]), {"a"}, id="absent-keys-are-ignored"),
        pytest.param(1, 0, _spread(None, matchLabelKeys=["app"]), {"a"}, id="keys-without-a-selector"),
    ],
)
def test_two_zones(in_a: int, in_b: int, spec: dict[str, Any], refused: set[str]) -> None:
    assert set(refusals(_zones(in_a, in_b), pod("w2", WEB, **spec))) == refused


def test_104_a_tainted_zone_is_an_empty_domain_unless_taints_are_honored() -> None:
    snapshot = _zones(1, 0, taints=[{"key": "k", "effect": "NoSchedule"}])
    assert refusals(snapshot, pod("w2", WEB, **_spread()))["a"] == SKEW
    assert "a" not in refusals(snapshot, pod("w2", WEB, **_spread(nodeTaintsPolicy="Honor")))


def test_a_node_without_the_key_says_so() -> None:
    found = refusals(cluster(node("n")), pod("w", WEB, **_spread()))
    assert found == {"n": f"{SKEW} (missing required label)"}


def test_only_pods_of_the_namespace_that_stay_are_counted() -> None:
    leaving = msgspec.structs.replace(pod("w", WEB).metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    placed = [(msgspec.structs.replace(pod(), metadata=leaving), "a"), (pod("w", WEB, "other"), "a")]
    assert refusals(cluster(node("a", "a"), node("b", "b"), placed=placed), pod("w2", WEB, **_spread())) == {}


def test_a_node_takes_part_only_with_the_keys_of_all_constraints() -> None:
    two = [*_spread()["topologySpreadConstraints"], *_spread(topologyKey="rack")["topologySpreadConstraints"]]
    nodes = [node("a", "a", labels={"rack": "1"}), node("b", "b")]
    snapshot = cluster(*nodes, placed=[(pod("w", WEB), "a")])
    # Zone b has no node with a rack, so that zone a is the only domain.
    assert set(refusals(snapshot, pod("w2", WEB, topologySpreadConstraints=two))) == {"b"}


def test_a_new_domain_counts_as_soon_as_its_node_is_there() -> None:
    snapshot, asked = _zones(1, 1), pod("w2", WEB, **_spread())
    assert refusals(snapshot, asked) == {}
    row = snapshot.add_node(node("c", "c"))
    assert set(refusals(snapshot, asked)) == {"a", "b"}
    snapshot.remove_node(row)
    assert refusals(snapshot, asked) == {}


def test_an_unusable_selector_turns_the_pod_away() -> None:
    broken = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}
    assert set(refusals(_zones(0, 0), pod("w", WEB, **_spread(broken)))) == {"a", "b"}


@given(worlds("topology_spread_constraints", "node_selector", "tolerations"))
@SETTINGS
def test_mask_agrees_with_explanation(world: tuple[Snapshot, list[PodClass]]) -> None:
    snapshot, classes = world
    for pod_class in classes:
        assert_agreement(PREDICATE, snapshot, pod_class, explain_spread)
