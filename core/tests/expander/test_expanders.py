"""Each expander's rule, and chains of them."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from nodewright.cli.settings.load import EXPANDERS
from nodewright.expander import ExpanderContext, Option, UnitPrices, choose, find_unit_prices, parse_priorities
from nodewright.model.errors import ConfigError
from nodewright.testkit.builders import build_node, build_pod
from nodewright.testkit.world import World, grown, ref

GIB = 2**30


def option(group_id: str, nodes: int, pods: int, cpu: int = 4, memory: int = 16, **extras: Any) -> Option:
    return Option(
        group=ref(group_id),
        node=build_node(group_id, cpu=cpu, memory=f"{memory}Gi"),
        node_count=nodes,
        pods=tuple(build_pod(f"{group_id}-{k}") for k in range(pods)),
        requested={"cpu": 1000 * pods, "memory": GIB * pods},
        **extras,
    )


def pick(options: list[Option], *expanders: str, nodes: int = 10, priorities: str | None = None) -> str:
    prices = find_unit_prices((1.0, 4000, 16 * GIB) for _ in "x")
    context = ExpanderContext(unit_prices=prices, cluster_nodes=nodes, priorities=priorities)
    chosen = choose(options, expanders, context, Random(7))
    return chosen.group.group_id if chosen else ""


def test_most_pods() -> None:
    assert pick([option("a", 1, 3), option("b", 9, 5), option("c", 1, 4)], "most-pods") == "b"


def test_an_unknown_expander_is_an_error() -> None:
    with pytest.raises(ConfigError, match="--expander: there is no expander 'priorty'"):
        pick([option("a", 1, 3), option("b", 9, 5)], "priorty")


@pytest.mark.parametrize("name", EXPANDERS)
def test_each_expander_that_the_settings_take_exists(name: str) -> None:
    assert pick([option("a", 1, 3), option("b", 9, 5)], name) in {"a", "b"}


def test_least_nodes() -> None:
    assert pick([option("a", 3, 3), option("b", 1, 1), option("c", 2, 9)], "least-nodes") == "b"


def test_least_waste_prefers_the_fuller_nodes() -> None:
    assert pick([option("big", 1, 3, cpu=32, memory=128), option("small", 1, 3)], "least-waste") == "small"


def test_price_takes_the_cheaper_of_equals() -> None:
    dear, cheap = option("dear", 1, 3, hourly_price=2.0), option("cheap", 1, 3, hourly_price=1.0)
    assert pick([dear, cheap], "price") == "cheap"


def test_price_counts_nothing_for_machines_that_are_paid() -> None:
    cheap, paid = option("cheap", 3, 9, hourly_price=1.0), option("paid", 3, 9, hourly_price=2.0, paid_nodes=2)
    assert pick([cheap, paid], "price") == "paid"
    assert pick([cheap, option("paid", 3, 9, hourly_price=4.0, paid_nodes=2)], "price") == "cheap"


def test_least_cost_counts_nothing_for_machines_that_are_paid() -> None:
    cheap, paid = option("cheap", 3, 9, hourly_price=1.0), option("paid", 3, 9, hourly_price=2.0, paid_nodes=2)
    assert pick([cheap, paid], "least-cost") == "paid"


def test_price_counts_work_not_nodes() -> None:
    # Twice the price for four times the work.
    assert pick([option("a", 1, 1, hourly_price=1.0), option("b", 1, 4, hourly_price=2.0)], "price") == "b"


def test_price_leaves_out_what_has_no_price() -> None:
    assert pick([option("unknown", 1, 9), option("known", 1, 1, hourly_price=9.0)], "price") == "known"


def test_price_without_any_price_passes_all() -> None:
    assert pick([option("a", 1, 9), option("b", 1, 1)], "price", "most-pods") == "a"


def test_price_shuns_gpu_nodes_for_other_pods() -> None:
    gpu = option("gpu", 1, 3, hourly_price=0.5, has_gpu=True)
    assert pick([gpu, option("plain", 1, 3, hourly_price=2.0)], "price") == "plain"


def test_price_prefers_bigger_nodes_in_bigger_clusters() -> None:
    options = [option("c4", 8, 8, cpu=4, hourly_price=1.0), option("c32", 1, 8, cpu=32, memory=128, hourly_price=8.0)]
    assert pick(options, "price", nodes=3) == "c4"
    assert pick(options, "price", nodes=500) == "c32"


def test_unit_prices_are_those_of_the_cheapest() -> None:
    assert find_unit_prices([(4.0, 4000, 8), (1.0, 1000, 4)]) == UnitPrices(0.0005, 0.125)


PRIORITIES = "10:\n  - spot-.*\n20:\n  - ^reserved$\n-5:\n  - never"


def test_priority_takes_the_highest_match_unanchored() -> None:
    options = [option("my-spot-1", 1, 1), option("reserved", 1, 1), option("other", 1, 1)]
    assert pick(options, "priority", priorities=PRIORITIES) == "reserved"
    assert pick(options[:1] + options[2:], "priority", priorities=PRIORITIES) == "my-spot-1"


@pytest.mark.parametrize("text", [None, "", "10: ['(']", "ten: [a]", "[1, 2]"])
def test_priority_without_a_usable_list_passes_all(text: str | None) -> None:
    context = ExpanderContext(unit_prices=UnitPrices(0, 0), cluster_nodes=1, priorities=text)
    options = [option("a", 1, 1), option("b", 1, 1)]
    chosen = {choose(options, ["priority"], context, Random(seed)) for seed in range(20)}
    assert chosen == set(options)


def test_a_hostile_expression_ends() -> None:
    text = "1:\n  - (a+)+$"
    assert pick([option("a" * 200 + "!", 1, 1), option("b", 1, 1)], "priority", "most-pods", priorities=text)


def test_a_broken_expression_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'\(' is not a valid regular expression"):
        parse_priorities("1: ['(']")


def test_chains_narrow_step_by_step() -> None:
    options = [option("a", 2, 5), option("b", 1, 5), option("c", 1, 4)]
    assert pick(options, "most-pods", "least-nodes") == "b"


def test_random_spreads_over_what_is_left() -> None:
    options = [option("a", 1, 5), option("b", 1, 5), option("c", 1, 1)]
    context = ExpanderContext(unit_prices=UnitPrices(0, 0), cluster_nodes=1)
    random = Random(3)
    picks = Counter(choose(options, ["most-pods", "random"], context, random) for _ in range(400))
    assert set(picks) == set(options[:2])
    assert min(picks.values()) > 140


@pytest.mark.parametrize(
    ("expander", "expected"),
    [("least-nodes", "large"), ("least-waste", "fit"), ("price", "cheap"), ("priority", "loved")],
)
def test_the_setting_decides_in_a_whole_plan(expander: str, expected: str) -> None:
    pods = [build_pod(f"p-{k}", cpu="1", memory="1Gi") for k in range(8)]
    world = World(pending=pods, priorities="5: [loved]")
    world.add_group("fit", cpu="4", memory="4Gi", hourly_price=4.0)
    world.add_group("loved", cpu="4", memory="64Gi", hourly_price=9.0)
    world.add_group("cheap", cpu="4", memory="32Gi", hourly_price=0.01)
    world.add_group("large", cpu="8", memory="64Gi", hourly_price=20.0)
    assert list(grown(world.plan(expander=expander))) == [expected]


def test_a_priority_list_that_cannot_be_used_is_a_warning_of_the_plan() -> None:
    world = World(pending=[build_pod("p")], priorities="10: ['(']")
    world.add_group("g")
    plan = world.plan(expander="priority,least-waste")
    assert grown(plan) == {"g": (0, 1)}
    assert "'(' is not a valid regular expression" in plan.scale_up.warnings[0]
    assert world.plan(expander="least-waste").scale_up.warnings == ()
    world.priorities = None
    assert "there is no ConfigMap" in world.plan(expander="priority").scale_up.warnings[0]


def test_price_damps_unfit_sizes_the_more_nodes_are_bought() -> None:
    """Many small nodes are as welcome as a few large ones; one node of the wrong size is not."""
    one = [option("c4", 1, 4, cpu=4, hourly_price=1.0), option("c32", 1, 4, cpu=32, memory=128, hourly_price=1.1)]
    assert pick(one, "price", nodes=500) == "c32"
    many = [option("c4", 60, 240, cpu=4, hourly_price=1.0), option("c32", 60, 240, cpu=32, hourly_price=1.1)]
    assert pick(many, "price", nodes=500) == "c4"
