"""InterPodAffinity: docs/behaviour/scheduling.md#interpodaffinity, cases 96-100."""

from typing import Any

from core.tests.predicates.manifests import assert_agreement, cluster, node, pod, refusals
from core.tests.predicates.reference import explain_affinity
from core.tests.predicates.strategies import SETTINGS, worlds
from hypothesis import given

from nodewright.model.pod import Pod
from nodewright.predicates.inter_pod_affinity import PREDICATE, is_guarded_against
from nodewright.snapshot.context import Context
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

ZONE = "topology.kubernetes.io/zone"
WEB = {"app": "web"}
AFFINITY = "InterPodAffinity: node(s) didn't match pod affinity rules"
ANTI = "InterPodAffinity: node(s) didn't match pod anti-affinity rules"
EXISTING = "InterPodAffinity: node(s) didn't satisfy existing pods anti-affinity rules"


def _term(selector: Any = "web", key: str = ZONE, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": WEB} if selector == "web" else selector, **more}


def _affinity(*terms: dict[str, Any], kind: str = "podAffinity") -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def _anti(*terms: dict[str, Any]) -> dict[str, Any]:
    return _affinity(*terms, kind="podAntiAffinity")


def _zones(*placed: tuple[Pod, str], context: Context | None = None) -> Snapshot:
    """Nodes a and b, each a zone, and one outside of any zone."""
    return cluster(node("a", "a"), node("b", "b"), node("out"), placed=placed, context=context)


def _teams() -> Context:
    return Context(namespaces={"default": {}, "red": {"team": "red"}, "blue": {"team": "blue"}})


def test_affinity_wants_company_in_the_domain() -> None:
    snapshot = _zones((pod("w", WEB), "a"))
    assert refusals(snapshot, pod(**_affinity(_term()))) == {"b": AFFINITY, "out": AFFINITY}


def test_96_the_first_of_a_self_affine_company_may_start_anywhere_with_the_key() -> None:
    assert refusals(_zones(), pod("w", WEB, **_affinity(_term()))) == {"out": AFFINITY}


def test_96_a_pod_outside_the_company_may_not_start_it() -> None:
    assert set(refusals(_zones(), pod(**_affinity(_term())))) == {"a", "b", "out"}


def test_97_company_on_a_node_without_the_key_counts_for_nothing() -> None:
    snapshot = _zones((pod("w", WEB), "out"))
    assert refusals(snapshot, pod("w2", WEB, **_affinity(_term()))) == {"out": AFFINITY}


def test_company_must_match_all_terms_at_once() -> None:
    both = _affinity(_term(), _term({"matchLabels": {"tier": "front"}}))
    apart = _zones((pod("w", WEB), "a"), (pod("f", {"tier": "front"}), "a"))
    assert set(refusals(apart, pod(**both))) == {"a", "b", "out"}
    together = _zones((pod("w", {**WEB, "tier": "front"}), "a"))
    assert set(refusals(together, pod(**both))) == {"b", "out"}


def test_98_anti_affinity_passes_where_the_node_lacks_the_key() -> None:
    snapshot = _zones((pod("w", WEB), "a"), (pod("w", WEB), "out"))
    assert refusals(snapshot, pod(**_anti(_term()))) == {"a": ANTI}


def test_existing_anti_affinity_keeps_others_away() -> None:
    snapshot = _zones((pod("guard", **_anti(_term())), "a"))
    assert refusals(snapshot, pod("w", WEB)) == {"a": EXISTING}
    assert refusals(snapshot, pod("other")) == {}


def test_99_existing_anti_affinity_by_the_labels_of_the_namespace() -> None:
    term = _term(namespaceSelector={"matchLabels": {"team": "red"}})
    snapshot = _zones((pod("guard", **_anti(term)), "a"), context=_teams())
    assert refusals(snapshot, pod("w", WEB, "red")) == {"a": EXISTING}
    assert refusals(snapshot, pod("w", WEB, "blue")) == {}
    assert refusals(snapshot, pod("w", WEB, "unknown")) == {}


def test_100_a_negative_namespace_selector_of_the_incoming_pod_selects_every_namespace() -> None:
    term = _term(namespaceSelector={"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]})
    snapshot = _zones((pod("w", WEB, "red"), "a"), context=_teams())
    assert refusals(snapshot, pod(**_anti(term))) == {"a": ANTI}


def test_a_positive_namespace_selector_selects_by_name() -> None:
    term = _term(namespaceSelector={"matchLabels": {"team": "red"}})
    snapshot = _zones((pod("w", WEB, "red"), "a"), (pod("w", WEB, "blue"), "b"), context=_teams())
    assert refusals(snapshot, pod(**_anti(term))) == {"a": ANTI}


def test_namespaces_that_change_are_seen() -> None:
    term = _term(namespaceSelector={"matchLabels": {"team": "red"}})
    snapshot = _zones((pod("w", WEB, "blue"), "a"), context=_teams())
    assert refusals(snapshot, pod(**_anti(term))) == {}
    snapshot.context = Context(namespaces={"blue": {"team": "red"}})
    assert refusals(snapshot, pod(**_anti(term))) == {"a": ANTI}


def test_match_label_keys_are_the_api_servers_business() -> None:
    snapshot = _zones((pod("w", {**WEB, "version": "1"}), "a"))
    term = _term(matchLabelKeys=["version"])
    assert refusals(snapshot, pod("w2", {**WEB, "version": "2"}, **_anti(term))) == {"a": ANTI}


def test_terms_without_selector_are_about_nobody_and_empty_ones_about_everybody() -> None:
    snapshot = _zones((pod("w", WEB), "a"))
    assert refusals(snapshot, pod(**_anti(_term(None)))) == {}
    assert refusals(snapshot, pod(**_anti(_term({})))) == {"a": ANTI}


def test_an_unusable_selector_turns_the_pod_away_and_guards_nothing() -> None:
    broken = _anti(_term(), _term({"matchExpressions": [{"key": "app", "operator": "Near"}]}))
    assert set(refusals(_zones(), pod(**broken))) == {"a", "b", "out"}
    assert refusals(_zones((pod("guard", **broken), "a")), pod("w", WEB)) == {}


def test_who_is_guarded_against() -> None:
    snapshot = _zones((pod("guard", **_anti(_term())), "a"))
    web, other = snapshot.class_of(pod("w", WEB)), snapshot.class_of(pod("other"))
    assert is_guarded_against(snapshot, web)
    assert not is_guarded_against(snapshot, other)
    snapshot.unplace(snapshot.class_of(pod("guard", **_anti(_term()))), 0)
    assert not is_guarded_against(snapshot, web)


@given(worlds("affinity"))
@SETTINGS
def test_mask_agrees_with_explanation(world: tuple[Snapshot, list[PodClass]]) -> None:
    snapshot, classes = world
    for pod_class in classes:
        assert_agreement(PREDICATE, snapshot, pod_class, explain_affinity)
