"""Groups made on demand: what pods require of one, and which groups are offered to scale-up."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from nodewright.model.action import CreateNodeGroup
from nodewright.model.group import MachineType, NewNodeGroup, Price
from nodewright.model.meta import Requirement
from nodewright.model.node import Taint
from nodewright.model.pod import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodSpec,
    Toleration,
)
from nodewright.planner import make_plan
from nodewright.planner.autoprovisioning import GroupRequirements, find_requirements
from nodewright.snapshot.observation import ProviderSeen
from nodewright.testkit.builders import build_pod, build_template
from nodewright.testkit.world import PROVIDER, World, settings_with

BIG = MachineType(
    name="Big_4", template=build_template(cpu="4", labels={"disk": "ssd"}), price=Price(per_hour=1.0, source="a list")
)
ON = {"node_autoprovisioning_enabled": True}


def spec_with(*terms: NodeSelectorTerm, **rest: Any) -> PodSpec:
    required = NodeSelector(node_selector_terms=terms)
    return PodSpec(affinity=Affinity(node_affinity=NodeAffinity(required=required)), **rest)


def term(*wanted: tuple[str, str, tuple[str, ...]]) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=tuple(Requirement(key=k, operator=o, values=v) for k, o, v in wanted))


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        (PodSpec(), [()]),
        (PodSpec(node_selector={"b": "2", "a": "1"}), [(("a", "1"), ("b", "2"))]),
        (spec_with(term(("a", "In", ("1", "2")), ("b", "NotIn", ("x",)))), [(("a", "1"),)]),
        (spec_with(term(("a", "In", ("1",))), term(("b", "In", ("2",)))), [(("a", "1"),), (("b", "2"),)]),
        (spec_with(term(("a", "In", ("1", "2"))), node_selector={"a": "2"}), [(("a", "2"),)]),
        (spec_with(term(("a", "Exists", ()))), [()]),
        (
            PodSpec(node_selector={"kubernetes.io/arch": "arm64", "x.k8s.io/y": "1", "my-k8s.io/z": "1"}),
            [(("my-k8s.io/z", "1"),)],
        ),
    ],
    ids=["nothing", "selector", "affinity", "either term", "both", "any value", "reserved"],
)
def test_labels_that_pods_select(spec: PodSpec, labels: list[tuple[tuple[str, str], ...]]) -> None:
    assert [one.labels for one in find_requirements([spec], ())] == labels


@pytest.mark.parametrize(
    ("toleration", "taint"),
    [
        (
            Toleration(key="a", operator="Equal", value="1", effect="NoExecute"),
            Taint(key="a", value="1", effect="NoExecute"),
        ),
        (Toleration(key="a", value="1"), Taint(key="a", value="1", effect="NoSchedule")),
        (Toleration(key="a", value="2"), None),
        (Toleration(key="b", value="1"), None),
        (Toleration(key="a", operator="Exists"), None),
        (Toleration(operator="Exists"), None),
        (Toleration(key="a", value="1", effect="PreferNoSchedule"), None),
    ],
)
def test_a_taint_is_what_is_both_selected_and_tolerated(toleration: Toleration, taint: Taint | None) -> None:
    spec = PodSpec(node_selector={"a": "1"}, tolerations=(toleration,))
    assert find_requirements([spec], ()) == [GroupRequirements((("a", "1"),), (taint,) if taint is not None else ())]


def test_equal_requirements_are_returned_once() -> None:
    specs = [PodSpec(node_selector={"a": "1"}), PodSpec(node_selector={"a": "1"}), PodSpec()]
    assert len(find_requirements(specs, ())) == 2


def specs_made(*pods: Any, kinds: tuple[MachineType, ...] = (BIG,), **settings: Any) -> list[NewNodeGroup]:
    world = World(pending=list(pods))
    chosen = settings_with(**{**ON, **settings})
    state = world.state(chosen)
    provider = ProviderSeen(name=PROVIDER, machine_types=kinds)
    state = replace(state, observation=replace(state.observation, providers={PROVIDER: provider}))
    plan, _ = make_plan(state, chosen, Random(1))
    return [action.spec for action in plan.actions if isinstance(action, CreateNodeGroup)]


def test_a_groups_name_is_that_of_its_spec() -> None:
    [plain] = specs_made(build_pod("p"))
    [again] = specs_made(build_pod("q"))
    [other] = specs_made(build_pod("p", node_selector={"team": "a"}))
    assert plain == again
    assert plain.group_id.startswith("nap-big-4-")
    assert other.group_id != plain.group_id
    assert (plain.machine_type, plain.max_size, other.labels) == ("Big_4", 1000, {"team": "a"})


def test_a_label_that_the_machines_have_is_not_given() -> None:
    [spec] = specs_made(build_pod("p", node_selector={"disk": "ssd"}))
    assert spec.labels == {}
    assert specs_made(build_pod("p", node_selector={"disk": "hdd"})) == []


def test_machines_that_take_no_labels() -> None:
    kinds = (MachineType(name="bare", template=build_template(), takes_labels=False),)
    assert specs_made(build_pod("p", node_selector={"team": "a"}), kinds=kinds) == []
    assert len(specs_made(build_pod("p"), kinds=kinds)) == 1


def test_many_kinds_of_pods_all_get_their_turn() -> None:
    """More requirements than one loop looks at: a random sample is taken."""
    pods = [build_pod(f"p{n}", node_selector={"team": str(n)}) for n in range(60)]
    assert len(specs_made(*pods, salvo_scale_up=True, max_autoprovisioned_node_group_count=60)) == 20


def test_as_ca_nothing_is_made_unless_asked_for() -> None:
    assert specs_made(build_pod("p"), node_autoprovisioning_enabled=False, profile="ca") == []
