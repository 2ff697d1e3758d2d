"""Which pending pods go on nodes that run, where these do not take all (--expander=least-cost)."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from nodewright.clusterstate.memory import Memory
from nodewright.model.plan import Plan
from nodewright.testkit import build_pod
from nodewright.testkit.world import World, grown, ref


def add_pods(world: World, name: str, count: int, cpu: str, memory: str, **extras: Any) -> None:
    world.pending += [build_pod(f"{name}-{n}", cpu, memory, owner=("ReplicaSet", name), **extras) for n in range(count)]


def one_dear_pod(**extras: Any) -> World:
    """Return a world with eight small pods, and one that is dear on new nodes; one node runs, with room for either.

    ``extras`` are those of the small pods.
    """
    world = World()
    world.add_group("full", 1, max_size=1, cpu="8", memory="10Gi", hourly_price=0.3)
    world.add_group("cpu", cpu="8", memory="8Gi", hourly_price=0.3)
    world.add_group("memory", cpu="2", memory="64Gi", hourly_price=1.0)
    add_pods(world, "small", 8, "1", "1Gi", **extras)
    add_pods(world, "dear", 1, "1", "9Gi")
    return world


def fitting(plan: Plan) -> dict[str, int]:
    """Return how many pods of each name go on the node that runs."""
    return dict(Counter(pod.name.split("-")[0] for pod in plan.fitting))


def test_the_pods_that_cost_most_on_new_nodes_go_on_nodes_that_run() -> None:
    plan = one_dear_pod().plan()
    assert fitting(plan) == {"dear": 1, "small": 1}
    assert grown(plan) == {"cpu": (0, 1)}


@pytest.mark.parametrize("changes", [{"profile": "ca"}, {"expander": "least-waste"}])
def test_where_one_group_is_chosen_pods_go_on_nodes_that_run_in_their_order(changes: dict[str, Any]) -> None:
    assert fitting(one_dear_pod().plan(**changes)) == {"small": 8}


def test_a_group_without_a_price_leaves_the_order_as_it_is() -> None:
    world = one_dear_pod()
    world.groups[ref("memory")] = replace(world.groups[ref("memory")], price=None)
    assert fitting(world.plan()) == {"small": 8}


def test_pods_that_no_group_may_grow_for_go_first() -> None:
    world = one_dear_pod()
    world.groups.pop(ref("memory"))
    plan = world.plan()
    assert fitting(plan) == {"dear": 1, "small": 1}
    assert not plan.scale_up.unhelped


def test_pods_of_higher_priority_go_first_however_cheap_they_are() -> None:
    assert fitting(one_dear_pod(priority=10).plan()) == {"small": 8}


def test_where_all_pods_fit_they_go_in_their_order() -> None:
    world = one_dear_pod()
    world.pending = world.pending[:8]
    add_pods(world, "tiny", 1, "0", "1Gi")
    assert fitting(world.plan()) == {"small": 8, "tiny": 1}


@pytest.mark.parametrize("enabled", [True, False])
def test_the_choice_is_kept_in_the_next_loop(enabled: bool) -> None:
    """Else pods that arrive meanwhile would take the room, and more machines would be bought."""
    world = one_dear_pod()
    plan, after = world.plan_and_memory(scale_down_enabled=enabled)
    chosen = {pod.name for pod in plan.fitting}
    world.memory = replace(Memory(), scale_down=after.scale_down)
    world.pending = [pod for pod in world.pending if pod.name in chosen]
    add_pods(world, "later", 1, "1", "9Gi")
    again = world.plan(scale_down_enabled=enabled)
    assert {pod.name for pod in again.fitting} == chosen
    assert grown(again) == {"memory": (0, 1)}
