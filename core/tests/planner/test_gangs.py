"""Gangs of pods: nodes for all that must start together, or none, and what is missing."""

import dataclasses
from typing import TYPE_CHECKING

from msgspec.structs import replace

from nodewright.model.action import IncreaseSize
from nodewright.model.gang import (
    COSCHEDULING_LABEL,
    KUEUE_COUNT_ANNOTATION,
    KUEUE_LABEL,
    VOLCANO_ANNOTATION,
    GangConvention,
    GangPolicy,
    GangRef,
    MinMemberPodGroup,
    MinMemberSpec,
    PodGroups,
    PodGroupSpec,
    RunningGang,
    SchedulingConstraints,
    SchedulingPodGroup,
    SchedulingPolicy,
    TopologyConstraint,
)
from nodewright.model.meta import ObjectMeta
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL
from nodewright.model.plan import Plan
from nodewright.model.pod import Pod, PodCondition, PodStatus, SchedulingGate, SchedulingGroup
from nodewright.model.price_book import ReservedInstances
from nodewright.model.reason import BlockingCode
from nodewright.planner.gangs.find_gangs import FoundGangs, find_gangs
from nodewright.planner.scale_down.drainability import DrainabilityRules, evaluate_pods
from nodewright.planner.scale_down.pdb import DisruptionBudgets
from nodewright.snapshot.context import Workloads
from nodewright.snapshot.observation import Observation
from nodewright.snapshot.running_gangs import find_running
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import World, grown, ref, settings_with

if TYPE_CHECKING:
    from collections.abc import Callable


def pod_group(name: str, least: int, *, topology: str = "") -> SchedulingPodGroup:
    return SchedulingPodGroup(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodGroupSpec(
            scheduling_policy=SchedulingPolicy(gang=GangPolicy(min_count=least)),
            scheduling_constraints=SchedulingConstraints(
                topology=(TopologyConstraint(key=topology),) if topology else ()
            ),
        ),
    )


def member(number: int, group: str = "g", cpu: str = "1", node: str = "", **extras: object) -> Pod:
    pod = build_pod(f"{group}-{number}", cpu, node_name=node, **extras)  # type: ignore[arg-type]
    return replace(pod, spec=replace(pod.spec, scheduling_group=SchedulingGroup(pod_group_name=group)))


def make_world(count: int, least: int, *, topology: str = "") -> World:
    """A gang of so many pods, each of which takes a machine of its own."""
    world = World()
    world.pod_groups = [pod_group("g", least, topology=topology)]
    world.pending = [member(number) for number in range(count)]
    return world


def said(plan: Plan) -> str:
    """Return the reasons for the pods that get nothing."""
    reports = (plan.scale_up, *plan.salvo)
    found = (str(reason) for report in reports for one in report.unhelped for reason in one.reasons.values())
    return "; ".join(dict.fromkeys(found))


def test_a_gang_of_six_with_four_machines_left_gets_none_and_is_told_so() -> None:
    world = make_world(6, 6)
    world.add_group("a", cpu="1", max_size=4)
    plan = world.plan()
    assert grown(plan) == {}
    assert "gang default/g needs 6 pods to start together: 4 of 6 pods would have room" in said(plan)


def test_two_groups_serve_one_gang() -> None:
    world = make_world(6, 6)
    world.add_group("a", cpu="1", max_size=4, zone="a", hourly_price=1)
    world.add_group("b", cpu="1", max_size=4, zone="b", hourly_price=2)
    plan = world.plan()
    assert grown(plan) == {"a": (0, 4), "b": (0, 2)}
    requests = {action.request for action in plan.actions}  # type: ignore[union-attr]
    assert [(one.key, one.nodes, one.is_gang) for one in requests if one] == [("default/g", 6, True)]


def test_pods_of_a_higher_priority_get_nodes_before_a_gang_and_those_of_a_lower_one_after_it() -> None:
    world = make_world(4, 4)
    world.add_group("a", cpu="1", max_size=4)
    world.pending.append(build_pod("lower", "1", priority=-1))
    assert grown(world.plan()) == {"a": (0, 4)}
    assert {pod.name for pod in world.plan().scale_up.triggered} == set()
    world.pending.append(build_pod("higher", "1", priority=1))
    plan = world.plan()
    assert {pod.name for pod in plan.scale_up.triggered} == {"higher"}
    assert "3 of 4 pods would have room" in said(plan)


def test_pods_take_the_room_that_is_left_on_nodes_for_a_gang() -> None:
    world = make_world(3, 3)
    world.add_group("a", cpu="2", max_size=9)
    world.pending.append(build_pod("lower", "1", priority=-1))
    plan = world.plan()
    assert grown(plan) == {"a": (0, 2)}
    assert [pod.name for pod in plan.fitting] == ["lower"]
    world.pending.append(build_pod("lowest", "1", priority=-2))
    assert sum(target for _, target in grown(world.plan()).values()) == 3


def test_pods_take_the_room_that_is_left_on_nodes_for_pods_that_go_before_a_gang() -> None:
    """The gang needs three nodes and the group may have one more."""
    world = make_world(3, 3)
    world.add_group("a", cpu="2", max_size=2)
    world.pending = [member(number, cpu="2") for number in range(3)]
    world.pending += [build_pod("higher", "1", priority=1), build_pod("lower", "1", priority=-1)]
    plan = world.plan()
    assert grown(plan) == {"a": (0, 1)}
    assert [pod.name for pod in plan.fitting] == ["lower"]


def test_pods_do_not_wait_for_a_gang_that_gets_nothing_anyway() -> None:
    """Two groups would help the urgent pods, and only one grows in a loop. The gang has too few pods to start."""
    for gang in (False, True):
        world = make_world(2, 99) if gang else World()
        for name in ("a", "b"):
            world.add_group(name, cpu="1", max_size=9, labels={"pool": name})
            world.pending.append(build_pod(f"urgent-{name}", "1", priority=5, node_selector={"pool": name}))
            world.pending += [
                build_pod(f"low-{name}-{number}", "1", priority=-1, node_selector={"pool": name}) for number in range(2)
            ]
        plan = world.plan(expander="least-waste")
        assert sorted(target for _, target in grown(plan).values()) == [3]
        assert ("2 of 99 pods exist" in said(plan)) == gang


def test_pods_of_a_higher_priority_get_the_room_that_is_there_before_a_gang() -> None:
    world = make_world(2, 2)
    world.add_group("a", 2, cpu="1", max_size=2)
    assert {pod.name for pod in world.plan().fitting} == {"g-0", "g-1"}
    world.pending.append(build_pod("higher", "1", priority=1))
    assert {pod.name for pod in world.plan().fitting} == {"higher"}
    world.pending[-1] = build_pod("equal", "1")
    assert {pod.name for pod in world.plan().fitting} == {"g-0", "g-1"}


def test_a_gang_that_asks_for_one_domain_gets_it_in_one() -> None:
    world = make_world(6, 6, topology=ZONE_LABEL)
    world.add_group("a", cpu="1", max_size=4, zone="a", hourly_price=1)
    world.add_group("b", cpu="1", max_size=4, zone="b", hourly_price=2)
    assert grown(world.plan()) == {}
    world.add_group("c", cpu="1", max_size=6, zone="c", hourly_price=9)
    assert grown(world.plan()) == {"c": (0, 6)}
    world.add_group("d", cpu="2", max_size=2, zone="b", hourly_price=1)
    assert grown(world.plan()).keys() == {"b", "d"}


def test_machines_that_are_paid_already_cost_a_gang_nothing() -> None:
    paid = ReservedInstances("a@", 2)
    for count, bought in ((2, {"free": (0, 2)}), (3, {"free": (0, 3)}), (5, {"cheap": (0, 5)})):
        world = make_world(count, count, topology=ZONE_LABEL)
        world.add_group("free", cpu="1", zone="a", hourly_price=1, reserved=paid)
        world.add_group("cheap", cpu="1", zone="b", hourly_price=0.5)
        assert grown(world.plan()) == bought, count
        world.add_group("user", 2, max_size=2, cpu="100m", zone="c", hourly_price=1, reserved=paid)
        assert grown(world.plan()) == {"cheap": (0, count)}, count


def test_a_zone_without_a_price_is_not_taken_for_a_free_one() -> None:
    world = make_world(2, 2, topology=ZONE_LABEL)
    world.add_group("unknown", cpu="1", zone="a")
    assert grown(world.plan()) == {"unknown": (0, 2)}
    world.add_group("dear", cpu="1", zone="b", hourly_price=9)
    assert grown(world.plan()) == {"dear": (0, 2)}


def test_a_gang_for_one_host() -> None:
    world = make_world(4, 4, topology=HOSTNAME_LABEL)
    world.add_group("small", cpu="3", hourly_price=1)
    assert grown(world.plan()) == {}
    world.add_group("large", cpu="4", hourly_price=9)
    assert grown(world.plan()) == {"large": (0, 1)}


def test_pods_that_run_decide_the_domain() -> None:
    world = make_world(0, 2, topology=ZONE_LABEL)
    world.add_group("a", 1, cpu="1", zone="a")
    world.add_group("b", cpu="1", zone="b", hourly_price=1)
    world.running = [member(0, node="a-0")]
    world.pending = [member(1)]
    assert grown(world.plan()) == {"a": (1, 2)}


def test_pods_that_run_count() -> None:
    world = make_world(4, 6)
    world.add_group("a", 2, cpu="1", max_size=6)
    world.running = [member(10, node="a-0"), member(11, node="a-1")]
    assert grown(world.plan()) == {"a": (2, 6)}


def test_existing_room_is_used_and_not_shared_with_others() -> None:
    world = make_world(2, 2)
    world.add_group("a", 2, cpu="1", max_size=6)
    world.pending = [build_pod("other", "1"), *world.pending]
    plan = world.plan()
    assert [pod.name for pod in plan.fitting] == ["g-0", "g-1"]
    assert grown(plan) == {"a": (2, 3)}


def test_what_cannot_start_gets_nothing() -> None:
    changes: list[tuple[Callable[[World], object], str]] = [
        (lambda world: world.pending.pop(), "5 of 6 pods exist"),
        (lambda world: world.pod_groups.clear(), "PodGroup default/g does not exist"),
        (lambda world: world.pending.append(gated(member(7))), "held by scheduling gates"),
        (lambda world: world.pending.append(member(8, priority=7)), "different priorities"),
    ]
    for change, text in changes:
        world = make_world(6, 6)
        world.add_group("a", cpu="1")
        change(world)
        plan = world.plan()
        assert grown(plan) == {}
        assert text in said(plan)


def test_cluster_autoscaler_knows_no_gangs() -> None:
    world = make_world(6, 6)
    world.add_group("a", cpu="1", max_size=4)
    assert grown(world.plan(profile="ca")) == {"a": (0, 4)}


def gated(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, scheduling_gates=(SchedulingGate(name="example.com/wait"),)))


def test_pods_without_a_condition_and_with_scheduler_errors_wait() -> None:
    error = PodCondition(type="PodScheduled", status="False", reason="SchedulerError")
    for conditions in ((), (error,)):
        world = make_world(2, 2)
        world.pending = [replace(pod, status=PodStatus(conditions=conditions)) for pod in world.pending]
        world.add_group("a", cpu="1")
        assert grown(world.plan()) == {"a": (0, 2)}


def test_the_older_conventions() -> None:
    held = MinMemberPodGroup(metadata=ObjectMeta(name="g", namespace="default"), spec=MinMemberSpec(min_member=3))
    groups = PodGroups(coscheduling={held.key: held}, volcano={held.key: held})
    named = (
        {"labels": {COSCHEDULING_LABEL: "g"}},
        {"annotations": {VOLCANO_ANNOTATION: "g"}},
        {"labels": {KUEUE_LABEL: "g"}, "annotations": {KUEUE_COUNT_ANNOTATION: "3"}},
    )
    for extras in named:
        world = World()
        world.pending = [build_pod(f"p-{number}", "1", **extras) for number in range(3)]  # type: ignore[arg-type]
        seen = replace_groups(world, groups)
        (gang,) = find(seen).gangs
        assert (gang.need, gang.problem) == (3, "")
        if "annotations" not in extras or "labels" not in extras:
            assert find(replace_groups(world, PodGroups())).gangs == ()


def find(seen: Observation) -> FoundGangs:
    settings = settings_with()
    return find_gangs(seen, settings.pods, settings.policy)


def replace_groups(world: World, groups: PodGroups) -> Observation:
    return dataclasses.replace(world.state().observation, pod_groups=groups)


def test_more_pods_than_the_minimum_get_room_as_far_as_limits_allow() -> None:
    world = make_world(6, 3)
    world.add_group("a", cpu="1", max_size=4)
    plan = world.plan()
    assert grown(plan) == {"a": (0, 4)}
    assert "the gang starts without it" in said(plan)


def test_others_are_helped_although_a_gang_cannot_be() -> None:
    world = make_world(6, 6)
    world.pending.append(build_pod("other", "1"))
    world.add_group("a", cpu="1", max_size=4)
    assert grown(world.plan()) == {"a": (0, 1)}


def test_limits_of_the_cluster_hold_for_the_whole_gang() -> None:
    world = make_world(6, 6)
    world.add_group("a", cpu="1", max_size=9)
    assert grown(world.plan(max_nodes_total=5)) == {}
    assert grown(world.plan(max_nodes_total=6)) == {"a": (0, 6)}
    assert ref("a") in world.groups


def test_a_gang_that_runs_keeps_its_minimum_or_goes_as_a_whole() -> None:
    pods = [member(number, node="n") for number in range(6)]
    gang = GangRef(GangConvention.KUBERNETES, "default", "g")
    budgets = DisruptionBudgets((), gangs={gang: RunningGang(6, 4)})
    assert budgets.broken_gang(pods[:2]) is None
    assert budgets.broken_gang(pods) is None
    broken = budgets.broken_gang(pods[:3])
    assert broken is not None
    assert (broken.left, broken.min_count) == (3, 4)
    budgets.remove(pods[:1])
    assert budgets.broken_gang(pods[1:2]) is None
    assert budgets.broken_gang(pods[1:3]) is not None
    assert budgets.broken_gang([build_pod("other", node_name="n")]) is None


def test_the_drain_of_a_node_is_blocked_by_its_gang() -> None:
    world = make_world(0, 3)
    world.running = [member(number, node=f"n-{number}") for number in range(3)]
    gang = GangRef(GangConvention.KUBERNETES, "default", "g")
    workloads = Workloads(gangs={gang: RunningGang(3, 3)})
    settings = settings_with()
    for profile, blocked in (("nodewright", True), ("ca", False)):
        policy = settings_with(profile=profile).policy
        rules = DrainabilityRules(workloads, DisruptionBudgets.of(workloads, policy), settings.drain, 0.0)
        verdict = evaluate_pods(world.running[:1], rules)
        assert (verdict.blocking is not None) == blocked
        if verdict.blocking is not None:
            assert verdict.blocking.code == BlockingCode.GANG_MINIMUM
            assert "needs 3 pods that run together, and would keep 2" in verdict.blocking.message


def test_pods_of_nodes_that_are_drained_do_not_count_as_running() -> None:
    world = make_world(0, 2)
    world.add_group("a", 3, cpu="1")
    world.running = [member(number, node=f"a-{number}") for number in range(3)]
    groups = PodGroups(kubernetes={one.key: one for one in world.pod_groups})
    (gang,) = find_running(world.state().observation.snapshot, groups, (), {"a-0"}).values()
    assert gang == RunningGang(2, 2)


def test_a_gang_below_its_minimum_holds_its_nodes_only_while_others_of_it_wait() -> None:
    """Else two pods that are left of six would keep their nodes without end."""
    world = make_world(0, 6)
    world.add_group("a", 3, cpu="1")
    world.running = [member(number, node=f"a-{number}") for number in range(2)]
    (gang,) = world.state().observation.workloads.gangs.values()
    assert gang == RunningGang(2, 0)
    world.pending = [member(2)]
    (gang,) = world.state().observation.workloads.gangs.values()
    assert gang == RunningGang(2, 2)


def test_pods_for_which_a_request_stands_are_no_gang() -> None:
    world = make_world(2, 2)
    annotations = {"autoscaling.x-k8s.io/consume-provisioning-request": "r"}
    world.pending = [member(number, annotations=annotations) for number in range(2)]
    found = find(world.state().observation)
    assert (found.gangs, len(found.others)) == ((), 2)


def test_of_many_gangs_that_cannot_be_met_each_is_told_so() -> None:
    world = make_world(0, 6)
    world.pod_groups = [pod_group(name, 6) for name in ("g", "h")]
    world.pending = [member(number, name) for name in ("g", "h") for number in range(6)]
    world.add_group("a", cpu="1", max_size=5)
    plan = world.plan()
    assert grown(plan) == {}
    for name in ("g", "h"):
        assert f"gang default/{name} needs 6 pods to start together: 5 of 6 pods would have room" in said(plan)


def test_a_gang_may_be_followed_by_another_one_in_one_loop() -> None:
    world = make_world(0, 3)
    world.pod_groups = [pod_group(name, 3) for name in ("g", "h", "i")]
    world.pending = [member(number, name) for name in ("g", "h", "i") for number in range(3)]
    world.add_group("a", cpu="1", max_size=7)
    plan = world.plan()
    targets = [action.target for action in plan.actions if isinstance(action, IncreaseSize)]
    assert targets == [3, 6]
    assert "gang default/i needs 3 pods to start together: 1 of 3 pods would have room" in said(plan)
