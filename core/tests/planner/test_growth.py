"""When a loop grows at all, and growth to minimum sizes."""

from typing import Any

from nodewright.model.group import GroupRef
from nodewright.model.plan import ScaleUpReport
from nodewright.model.reason import Rejection, ScaleUpResult, SkipCode, SkipReason, Unhelped
from nodewright.planner.growth import await_purchase
from nodewright.snapshot.observation import ProviderSeen
from nodewright.testkit.builders import build_node, build_pod
from nodewright.testkit.world import PROVIDER, World, grown, ref


def world_with(*ages: float, **extras: str) -> World:
    """A world with a group of GPU nodes and a pending pod of each age, in seconds."""
    world = World()
    world.provider = ProviderSeen(name=PROVIDER, gpu_label="gpu-type", gpu_resources=("vendor/gpu",))
    world.add_group("g", extended={"vendor/gpu": 4}, labels={"gpu-type": "t"})
    world.pending = [
        build_pod(f"p{n}", unschedulable=True, created_at=world.now - age, extended=extras)
        for n, age in enumerate(ages)
    ]
    return world


def test_ca_waits_for_more_while_all_pods_are_new() -> None:
    assert world_with(1.0, 0.5).plan(profile="ca").scale_up.result == ScaleUpResult.IN_COOLDOWN
    assert grown(world_with(2.0, 0.5).plan(profile="ca")) == {"g": (0, 1)}
    assert grown(world_with(0.0).plan()) == {"g": (0, 1)}, "nodewright does not wait"


def test_ca_does_not_wait_beside_a_bypassed_scheduler() -> None:
    plan = world_with(0.0).plan(profile="ca", bypassed_scheduler_names=("other",))
    assert grown(plan) == {"g": (0, 1)}


def test_ca_waits_longer_for_pods_with_accelerators() -> None:
    gpu = {"vendor/gpu": "1"}
    assert world_with(29.0, **gpu).plan(profile="ca").scale_up.result == ScaleUpResult.IN_COOLDOWN
    assert grown(world_with(30.0, **gpu).plan(profile="ca")) == {"g": (0, 1)}


def test_nodes_on_their_way_fill_the_cluster_but_for_ca() -> None:
    world = world_with(60.0)
    world.add_group("coming", target=2, instances=(), max_size=2, cpu="1m")
    full = world.plan(max_nodes_total=2).scale_up
    assert (full.result, len(full.unhelped)) == (ScaleUpResult.NODE_LIMIT, 1)
    world.nodes = [build_node("ready-1"), build_node("ready-2", unschedulable=True)]
    world.groups.clear()
    assert world.plan(max_nodes_total=2).scale_up.result == ScaleUpResult.NOT_NEEDED
    world.nodes = [build_node("ready-1", cpu="1m"), build_node("ready-2", cpu="1m", unschedulable=True)]
    assert world.plan(max_nodes_total=2, profile="ca").scale_up.result == ScaleUpResult.NO_OPTIONS
    assert world.plan(max_nodes_total=1, profile="ca").scale_up.result == ScaleUpResult.NODE_LIMIT


def test_a_cluster_of_foreign_nodes_is_no_empty_cluster() -> None:
    world = world_with(60.0)
    assert world.plan(scale_up_from_zero=False).halted
    world.nodes = [build_node("foreign", cpu="1m")]
    assert grown(world.plan(scale_up_from_zero=False)) == {"g": (0, 1)}


def test_a_salvo_helps_pods_of_two_shapes_in_one_loop() -> None:
    world = World()
    for group in ("a", "b"):
        world.add_group(group, labels={"kind": group})
    world.pending = [
        build_pod(f"{group}{n}", cpu="3", unschedulable=True, created_at=0.0, node_selector={"kind": group})
        for group, count in (("a", 1), ("b", 2))
        for n in range(count)
    ]
    single = grown(world.plan())
    assert len(single) == 1
    salvo = world.plan(salvo_scale_up=True)
    assert grown(salvo) == {"a": (0, 1), "b": (0, 2)}
    assert [len(report.triggered) for report in (salvo.scale_up, *salvo.salvo)] in ([1, 2], [2, 1])


def test_the_rounds_of_a_salvo_share_one_limit() -> None:
    world = World()
    for group in ("a", "b"):
        world.add_group(group, labels={"kind": group})
    world.pending = [
        build_pod(group, cpu="3", unschedulable=True, created_at=0.0, node_selector={"kind": group})
        for group in ("a", "b")
    ]
    assert len(grown(world.plan(salvo_scale_up=True, cores_total="0:4"))) == 1
    assert len(grown(world.plan(salvo_scale_up=True, max_nodes_total=1))) == 1


def test_a_group_that_grows_for_pods_is_filled_up_at_once() -> None:
    world = World()
    world.add_group("g", min_size=3)
    world.pending = [build_pod("p", cpu="1", unschedulable=True, created_at=0.0)]
    plan = world.plan(enforce_node_group_min_size=True)
    assert [(a.expected_target, getattr(a, "target", None)) for a in plan.actions] == [(0, 1), (1, 3)]


def test_the_most_nodes_are_counted_over_the_cluster_but_for_ca() -> None:
    world = World()
    world.add_group("full", size=2)
    world.add_group("g", min_size=3)
    limited = {"enforce_node_group_min_size": True, "max_nodes_total": 3}
    (action,) = world.plan(**limited).actions
    assert (action.group, getattr(action, "target", None)) == (ref("g"), 1)
    (action,) = world.plan(profile="ca", **limited).actions
    assert getattr(action, "target", None) == 3, "CA holds the limit against the group's own size"


def test_nodes_for_pods_count_towards_the_most_nodes_before_minimum_sizes() -> None:
    world = World()
    world.add_group("pods", max_size=2, labels={"for": "pods"})
    world.add_group("g", min_size=3)
    world.pending = [
        build_pod(f"p{n}", cpu="3", unschedulable=True, created_at=0.0, node_selector={"for": "pods"}) for n in range(2)
    ]
    limited = {"enforce_node_group_min_size": True}
    assert grown(world.plan(max_nodes_total=3, **limited)) == {"pods": (0, 2), "g": (0, 1)}
    assert grown(world.plan(max_nodes_total=2, **limited)) == {"pods": (0, 2)}
    assert grown(world.plan(max_nodes_total=9, **limited)) == {"pods": (0, 2), "g": (0, 3)}


class _Counted(dict[GroupRef, Rejection | SkipReason]):
    """Reasons that count how often they are looked through."""

    looks = 0

    def values(self) -> Any:
        self.looks += 1
        return super().values()


def test_the_reasons_that_pods_share_are_looked_through_once() -> None:
    """Ten thousand pods of one class may wait for ever, with a reason for each of a hundred groups."""
    pods = [build_pod(f"p{n}") for n in range(50)]
    reasons = _Counted({ref("full"): SkipReason(code=SkipCode.MAX_SIZE, message="full")})
    report = ScaleUpReport(unhelped=tuple(Unhelped(pod=pod, reasons=reasons) for pod in pods))
    assert not await_purchase(pods, [report])
    assert reasons.looks == 1
    assert await_purchase([*pods, build_pod("of no report")], [report])
    soon = Unhelped(pod=build_pod("soon"), reasons={ref("busy"): SkipReason(code=SkipCode.DEFERRED, message="busy")})
    assert await_purchase([*pods, soon.pod], [report, ScaleUpReport(unhelped=(soon,))])
