"""What machines cost, and the bound that no machines of the same groups undercut."""

from dataclasses import replace
from typing import Any

import pytest

from nodewright.model.price_book import ReservedInstances
from nodewright.model.settings import Settings
from nodewright.planner.cost import cluster_bound, machines_now
from nodewright.snapshot.observation import hourly_cost
from nodewright.testkit import build_pod
from nodewright.testkit.world import World, ref, settings_with


def run_pods(world: World, name: str, count: int, cpu: str, node: str, **extras: Any) -> None:
    world.running += [build_pod(f"{name}-{n}", cpu, "1Gi", node_name=node, **extras) for n in range(count)]


def bound_of(world: World, settings: Settings | None = None) -> float | None:
    settings = settings or Settings()
    return cluster_bound(world.state(settings), settings)


def two_groups() -> World:
    """Return a world with four dear nodes, where half of a cheap one would do for each of their pods."""
    world = World()
    world.add_group("dear", 4, cpu="4", memory="16Gi", hourly_price=1.0)
    world.add_group("cheap", cpu="8", memory="32Gi", hourly_price=0.8)
    for node in range(4):
        run_pods(world, f"p{node}", 1, "4", f"dear-{node}")
    return world


def test_machines_cost_their_price_and_a_group_without_one_is_named() -> None:
    world = two_groups()
    world.add_group("free", 3)
    found = hourly_cost(world.groups.values(), machines_now(world.groups.values()))
    assert found.by_group == {ref("dear"): 4.0, ref("cheap"): 0.0}
    assert found.unpriced == (ref("free"),)
    assert found.total == 4.0


def test_paid_machines_cost_nothing_up_to_the_count_that_groups_share() -> None:
    world, paid = World(), ReservedInstances("m5@", 3)
    world.add_group("a", 2, hourly_price=1.0, reserved=paid)
    world.add_group("b", 2, hourly_price=1.5, reserved=paid)
    found = hourly_cost(world.groups.values(), machines_now(world.groups.values()))
    assert found.by_group == {ref("a"): 0.0, ref("b"): 1.5}


def test_the_bound_takes_the_cheapest_groups_for_pods_that_run() -> None:
    assert bound_of(two_groups()) == pytest.approx(4 * 4 / 8 * 0.8)


def test_the_bound_counts_pods_that_wait() -> None:
    world = two_groups()
    world.pending += [build_pod(f"w{n}", "2", "1Gi") for n in range(4)]
    assert bound_of(world) == pytest.approx((16 + 8) / 8 * 0.8)


def test_pods_that_come_with_nodes_or_leave_or_belong_to_no_group_do_not_count() -> None:
    world, plain = two_groups(), bound_of(two_groups())
    run_pods(world, "daemon", 3, "100m", "dear-0", owner=("DaemonSet", "logs"), labels={"app": "logs"})
    run_pods(
        world,
        "mirror",
        1,
        "200m",
        "dear-1",
        owner=("Node", "dear-1"),
        labels={"app": "proxy"},
        annotations={"kubernetes.io/config.mirror": "x"},
    )
    run_pods(world, "going", 1, "300m", "dear-1", deleted_at=1.0, labels={"app": "going"})
    run_pods(world, "cheap", 1, "400m", "dear-1", priority=-20)
    assert bound_of(world) == pytest.approx(plain)


def test_a_group_without_a_price_that_takes_a_pod_leaves_no_bound() -> None:
    world = two_groups()
    world.add_group("tiny", cpu="1")
    assert bound_of(world) is not None
    world.groups[ref("cheap")] = replace(world.groups[ref("cheap")], price=None)
    assert bound_of(world) is None


def test_paid_machines_lower_the_bound_by_their_count() -> None:
    world = two_groups()
    world.groups[ref("cheap")] = replace(world.groups[ref("cheap")], reserved=ReservedInstances("c@", 1))
    assert bound_of(world) == pytest.approx(0.8)


def test_pods_that_fit_no_group_are_left_out_and_no_pods_cost_nothing() -> None:
    world = two_groups()
    world.pending.append(build_pod("huge", "64"))
    assert bound_of(world) == pytest.approx(1.6)
    world.running.clear()
    world.pending.clear()
    assert bound_of(world) == 0.0


@pytest.mark.parametrize("expander", ["least-cost", "least-waste", "most-pods"])
def test_no_plan_is_cheaper_than_the_bound_of_its_pods(expander: str) -> None:
    world = World()
    for number, (cpu, memory, price) in enumerate([("4", "8Gi", 0.2), ("8", "64Gi", 0.5), ("16", "32Gi", 0.6)]):
        world.add_group(f"g{number}", cpu=cpu, memory=memory, hourly_price=price, max_size=50)
    for number, (cpu, memory) in enumerate([("700m", "2Gi"), ("3", "5Gi"), ("500m", "9Gi")]):
        world.pending += [
            build_pod(f"p{number}-{n}", cpu, memory, owner=("ReplicaSet", f"r{number}")) for n in range(25)
        ]
    bound = bound_of(world)
    settings = settings_with(expander=expander)
    report = world.plan(expander=expander).scale_up
    price = sum(one.added * (world.groups[one.group].hourly_price or 0) for one in report.expansions)
    assert bound is not None
    assert bound == bound_of(world, settings)
    assert 0 < bound <= price
    if expander == "least-cost":
        assert price <= 1.2 * bound
        assert report.cost is not None
        assert bound == pytest.approx(report.cost.bound)
