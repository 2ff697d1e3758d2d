"""Whole plans over a small world: which groups grow, by how much, and what is said of the rest."""

from typing import Any

import pytest

from nodewright.clusterstate.memory import Backoff, Memory
from nodewright.model.action import DeleteInstances
from nodewright.model.group import ErrorClass, FailedInstance, GroupOptions, Instance, NodeGroup
from nodewright.model.pod import Pod
from nodewright.model.reason import Rejection, ScaleUpResult, SkipCode, SkipReason
from nodewright.testkit.builders import build_pod, build_taint
from nodewright.testkit.world import World, grown, ref


def pods(count: int, cpu: str = "1", **extras: Any) -> list[Pod]:
    return [build_pod(f"web-{n}", cpu=cpu, **extras) for n in range(count)]


def test_grows_by_what_the_pods_need() -> None:
    world = World(pending=pods(10))
    world.add_group("small", cpu="4")
    plan = world.plan()
    assert grown(plan) == {"small": (0, 3)}
    assert plan.scale_up.result == ScaleUpResult.SUCCESSFUL
    assert len(plan.scale_up.triggered) == 10


def test_pods_that_fit_already_cause_nothing() -> None:
    world = World(pending=pods(4))
    world.add_group("small", size=1, cpu="4")
    plan = world.plan()
    assert grown(plan) == {}
    assert len(plan.fitting) == 4
    assert plan.scale_up.result == ScaleUpResult.NOT_NEEDED


def test_machines_on_their_way_are_not_bought_twice() -> None:
    world = World(pending=pods(10))
    world.add_group("small", cpu="4", target=2, instances=())
    assert grown(world.plan()) == {"small": (2, 3)}


def test_a_node_that_has_not_started_counts_once() -> None:
    world = World(pending=pods(4))
    world.add_group("small", size=1, cpu="4", ready=False, created_at=world.now - 30)
    assert grown(world.plan()) == {}
    assert world.state().groups[ref("small")].upcoming == 1


def test_seed_002_balances_similar_groups_in_a_whole_plan() -> None:
    world = World()
    for group_id, size in (("a", 1), ("b", 3), ("c", 6)):
        world.add_group(group_id, size=size, cpu="4", zone=group_id, max_size=20)
    world.running = [build_pod(f"busy-{node.name}", cpu="4", node_name=node.name) for node in world.nodes]
    world.pending = pods(16)
    assert grown(world.plan(balance_similar_node_groups=True)) == {"a": (1, 4), "b": (3, 4)}
    world.pending = pods(4)
    assert grown(world.plan(balance_similar_node_groups=True)) == {"a": (1, 2)}


def test_without_the_flag_one_group_takes_all() -> None:
    world = World(pending=pods(16))
    world.add_group("a", zone="a")
    world.add_group("b", zone="b")
    assert len(grown(world.plan())) == 1


def test_a_zone_bound_pod_is_not_balanced_away() -> None:
    bound = {"topology.kubernetes.io/zone": "b"}
    world = World(pending=pods(8, node_selector=bound))
    world.add_group("a", zone="a")
    world.add_group("b", zone="b")
    assert grown(world.plan(balance_similar_node_groups=True)) == {"b": (0, 2)}


def test_growth_stops_at_the_group_maximum_and_says_so() -> None:
    world = World(pending=pods(40))
    world.add_group("small", cpu="4", max_size=3)
    plan = world.plan()
    assert grown(plan) == {"small": (0, 3)}
    left = plan.scale_up.unhelped
    assert len(left) == 28
    assert left[0].reasons[ref("small")] == SkipReason(
        code=SkipCode.NO_ROOM, message="the group may not grow by enough for this pod"
    )


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({"max_nodes_total": 3}, (0, 2)),
        ({"cores_total": "0:13"}, (0, 2)),
        ({"memory_total": "0:48"}, (0, 2)),
        ({"max_nodes_per_scaleup": 1}, (0, 1)),
    ],
)
def test_cluster_limits_cap_growth(setting: dict[str, object], expected: tuple[int, int]) -> None:
    world = World(pending=pods(40))
    world.add_group("full", size=1, cpu="4", max_size=1)
    world.running = [build_pod("busy", cpu="4", node_name="full-0")]
    world.add_group("small", cpu="4", memory="16Gi")
    assert grown(world.plan(**setting)) == {"small": expected}


def test_a_used_up_limit_is_the_reason() -> None:
    world = World(pending=pods(1))
    world.add_group("small", cpu="4")
    plan = world.plan(cores_total="0:3")
    reason = plan.scale_up.unhelped[0].reasons[ref("small")]
    said = 'exceeded quota: "cluster-wide", resources: cpu'
    assert reason == SkipReason(code=SkipCode.RESOURCE_LIMIT, message=said, resources=("cpu",))


def test_every_pod_not_helped_has_a_reason_for_every_group() -> None:
    world = World(pending=pods(1, cpu="9"))
    world.add_group("small", cpu="4")
    world.add_group("tainted", cpu="16", taints=[build_taint("dedicated")])
    world.add_group("full", size=1, cpu="16", max_size=1)
    world.running = [build_pod("busy", cpu="16", node_name="full-0")]
    world.add_group("broken", cpu="16", target=None, problem="the cloud does not answer")
    plan = world.plan()
    assert plan.scale_up.result == ScaleUpResult.NO_OPTIONS
    reasons = plan.scale_up.unhelped[0].reasons
    assert reasons[ref("small")] == Rejection(predicate="NodeResourcesFit", reasons=("Insufficient cpu",))
    assert str(reasons[ref("tainted")]) == "node(s) had untolerated taint(s)"
    assert str(reasons[ref("full")]) == "max node group size reached"
    assert str(reasons[ref("broken")]) == "not ready for scale-up: the cloud does not answer"


def test_a_group_in_backoff_is_passed_over() -> None:
    world = World(pending=pods(1))
    world.add_group("bad", cpu="4")
    world.add_group("good", cpu="64")
    held = Backoff(until=world.now + 60, duration=300, last_failure=world.now - 240, code="STOCKOUT")
    world.memory = Memory(backoffs={ref("bad"): held})
    plan = world.plan()
    assert grown(plan) == {"good": (0, 1)}
    assert str(plan.scale_up.skipped[ref("bad")]) == "in backoff after failed scale-up (STOCKOUT)"


def test_a_zero_or_max_group_goes_to_its_maximum() -> None:
    world = World(pending=pods(1))
    world.add_group("slice", cpu="4", max_size=8, options=GroupOptions(zero_or_max_node_scaling=True))
    assert grown(world.plan()) == {"slice": (0, 8)}


def test_a_zero_or_max_group_that_cannot_be_whole_is_skipped() -> None:
    world = World(pending=pods(1))
    world.add_group("slice", cpu="4", max_size=8, options=GroupOptions(zero_or_max_node_scaling=True))
    plan = world.plan(max_nodes_total=5)
    assert grown(plan) == {}
    assert plan.scale_up.skipped[ref("slice")].code == SkipCode.NODE_LIMIT


def test_min_size_is_enforced_on_request_only() -> None:
    world = World()
    world.add_group("small", cpu="4", min_size=2)
    assert grown(world.plan()) == {}
    assert grown(world.plan(enforce_node_group_min_size=True)) == {"small": (0, 2)}


def test_a_pod_nothing_helps_does_not_stop_the_others() -> None:
    world = World(pending=[*pods(1, cpu="99", owner=None), build_pod("ok", cpu="1")])
    world.add_group("small", cpu="4")
    plan = world.plan()
    assert grown(plan) == {"small": (0, 1)}
    assert [left.pod.name for left in plan.scale_up.unhelped] == ["web-0"]


def test_pods_of_another_group_wait_for_the_next_loop() -> None:
    world = World(pending=[build_pod("x", node_selector={"k": "x"}), build_pod("y", node_selector={"k": "y"})])
    world.add_group("x", labels={"k": "x"})
    world.add_group("y", labels={"k": "y"})
    plan = world.plan()
    assert len(grown(plan)) == 1
    assert len(plan.scale_up.awaiting) == 1


def test_failed_machines_are_deleted_and_the_pods_planned_elsewhere_in_one_loop() -> None:
    failure = FailedInstance(failure_id="f", instance_id="cloud:///bad/9", error_class=ErrorClass.OUT_OF_RESOURCES)
    world = World(pending=pods(1))
    world.add_group("bad", target=1, instances=(Instance(id="cloud:///bad/9"),), failed=(failure,))
    world.add_group("good", cpu="64")
    plan = world.plan()
    deletions = [action for action in plan.actions if isinstance(action, DeleteInstances)]
    assert [(d.group, d.instance_ids) for d in deletions] == [(ref("bad"), ("cloud:///bad/9",))]
    assert grown(plan) == {"good": (0, 1)}


def test_an_unhealthy_cluster_is_left_alone() -> None:
    world = World(pending=pods(10))
    world.add_group("small", size=9, ready=False)
    plan = world.plan()
    assert plan.actions == ()
    assert "unhealthy" in plan.halted


def test_groups_beyond_the_maximum_never_shrink_by_planning() -> None:
    world = World(pending=pods(1, cpu="4"))
    world.add_group("over", size=3, cpu="2")
    seen = world.groups[ref("over")]
    world.groups[ref("over")] = type(seen)(
        ref=seen.ref,
        group=NodeGroup(id="over", min_size=0, max_size=2),
        target=seen.target,
        instances=seen.instances,
        template=seen.template,
    )
    assert world.plan().actions == ()


def test_a_full_cluster_is_the_reason_for_every_group() -> None:
    world = World(pending=pods(1))
    world.add_group("full", size=1, max_size=1)
    world.running = [build_pod("busy", cpu="4", node_name="full-0")]
    world.add_group("g")
    plan = world.plan(max_nodes_total=1)
    assert plan.scale_up.result == ScaleUpResult.NODE_LIMIT
    assert str(plan.scale_up.unhelped[0].reasons[ref("g")]) == "max total nodes in cluster reached"


def test_similar_groups_must_take_every_pod_that_the_chosen_one_takes() -> None:
    """A pod bound to one zone keeps the whole growth there (docs/behaviour/scale-up.md), though others could go elsewhere."""
    bound = build_pod("bound", node_selector={"topology.kubernetes.io/zone": "a"}, owner=("ReplicaSet", "bound"))
    world = World(pending=[*pods(15), bound])
    world.add_group("a", zone="a", hourly_price=1.0)
    world.add_group("b", zone="b", hourly_price=9.0)
    assert grown(world.plan(balance_similar_node_groups=True, expander="price")) == {"a": (0, 4)}
    world.pending = pods(16)
    assert grown(world.plan(balance_similar_node_groups=True, expander="price")) == {"a": (0, 2), "b": (0, 2)}


def test_a_zero_or_max_group_that_just_fits_the_limit_grows() -> None:
    world = World(pending=pods(1))
    world.add_group("slice", cpu="4", max_size=5, options=GroupOptions(zero_or_max_node_scaling=True))
    assert grown(world.plan(max_nodes_total=5)) == {"slice": (0, 5)}
    assert grown(world.plan(max_nodes_total=4)) == {}


def test_min_sizes_share_what_the_cluster_may_still_get() -> None:
    world = World()
    world.add_group("a", min_size=3)
    world.add_group("b", min_size=3)
    assert grown(world.plan(enforce_node_group_min_size=True, max_nodes_total=4)) == {"a": (0, 3), "b": (0, 1)}


def test_a_balanced_scale_up_stays_within_the_cores_of_the_cluster() -> None:
    world = World(pending=pods(32))
    world.add_group("a", zone="a")
    world.add_group("b", zone="b")
    growth = grown(world.plan(balance_similar_node_groups=True, cores_total="0:20"))
    assert sum(to - start for start, to in growth.values()) == 5
    assert {to for _, to in growth.values()} == {2, 3}


def test_one_scale_up_may_use_the_room_of_all_similar_groups() -> None:
    """Seed 002 names the limit to one group's maximum as a disadvantage of balancing after the choice."""
    world = World(pending=pods(16))
    for zone in "ab":
        world.add_group(zone, zone=zone, cpu="4", max_size=2)
    assert grown(world.plan(balance_similar_node_groups=True)) == {"a": (0, 2), "b": (0, 2)}
    assert len(grown(world.plan())) == 1
