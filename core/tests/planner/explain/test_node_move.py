"""What ``explain node`` says of a node that no move gives up: savings, disruption, score, and the rule that keeps it."""

from dataclasses import replace
from random import Random
from typing import Any

from nodewright.clusterstate.memory import MoveMemory
from nodewright.model.move import MovePause
from nodewright.model.node import INSTANCE_TYPE_LABEL
from nodewright.planner import find_growth_context, make_plan
from nodewright.planner.explain import explain_node
from nodewright.testkit.builders import build_node, build_pod
from nodewright.testkit.world import NOW, World, ref, settings_with

KEPT = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
SAVES = "giving it up alone would save $2.8000 an hour (new nodes: 1 of group cloud/small), disruption 2.00, score "


def build_world(*, pods: int = 1, cpu: str = "500m", price: float = 3.0, **pod: Any) -> World:
    """A large node with pods, and a group of small nodes that take them for 0.2 USD an hour each."""
    world = World()
    world.add_group("large", 1, cpu="32", memory="64Gi", hourly_price=price)
    world.add_group("small", 0, cpu="2", memory="4Gi", hourly_price=0.2)
    world.running += [build_pod(f"web-{n}", cpu, node_name="large-0", **pod) for n in range(pods)]
    return world


def explain(world: World, **changed: Any) -> str:
    """Return what is said of the large node if the plan begins no move."""
    settings = settings_with(scale_down_utilization_threshold=0.0, **changed)
    state = world.state(settings)
    plan, _ = make_plan(state, settings, Random(1))
    growing = find_growth_context(state, settings, Random(0))
    found = explain_node(state, replace(plan, moves=()), settings, "large-0", growing)
    assert found is not None
    return found.move


def test_a_node_that_pays_says_what_it_saves_and_when_moves_are_searched() -> None:
    said = explain(build_world(), consolidate_after=0.0)
    assert said.startswith(f"{SAVES}0.93; this pays; the next search is at 1970-01-02T")


def test_a_node_that_a_rule_keeps_for_now_says_what_it_would_save_and_the_rule() -> None:
    young = build_world(created_at=NOW - 60)
    assert explain(young) == f"{SAVES}0.93; it stays: a pod came to it less than --consolidate-after ago"
    paused = build_world()
    pause = MovePause(until=NOW + 60, why="it replaced other nodes")
    paused.memory = replace(paused.memory, moves=MoveMemory(pauses={"large-0": pause}))
    why = "none gives it up before 1970-01-02T03:47:40Z: it replaced other nodes"
    assert explain(paused, consolidate_after=0.0) == f"{SAVES}0.93; it stays: {why}"


def test_a_node_of_another_machine_type_than_its_groups_next_one_says_no_savings() -> None:
    world = build_world()
    large = world.groups[ref("large")]
    new = build_node("template", labels={INSTANCE_TYPE_LABEL: "m5.8xlarge"})
    world.groups[ref("large")] = replace(large, template=new)
    world.nodes = [
        build_node("large-0", "32", "64Gi", provider_id="cloud:///large/0", labels={INSTANCE_TYPE_LABEL: "m5.large"})
    ]
    why = "the price of a m5.large is not known: that of group cloud/large is of a m5.8xlarge"
    assert explain(world, consolidate_after=0.0) == f"none gives it up for cheaper nodes: {why}"


def test_a_node_that_saves_too_little_for_its_pods_says_its_score() -> None:
    world = build_world(pods=9, cpu="1700m", price=2.0)
    said = explain(world, consolidate_after=0.0)
    assert "would save $0.2000 an hour (new nodes: 9 of group cloud/small), disruption 10.00, score 0.10" in said
    assert said.endswith("it stays: its score is below 0.5")
    assert "this pays" in explain(world, consolidate_after=0.0, consolidation_policy="when-cheaper")


def test_a_node_whose_pods_cost_as_much_elsewhere_or_must_stay_says_so() -> None:
    dear = explain(build_world(price=0.1), consolidate_after=0.0)
    assert dear == "none gives it up for cheaper nodes: no other or new nodes would take its pods for less"
    kept = explain(build_world(annotations=KEPT), consolidate_after=0.0)
    assert kept.startswith("none gives it up for cheaper nodes: pod default/web-0: ")
    assert explain(build_world(), consolidate_after=0.0, consolidation_policy="off") == ""
