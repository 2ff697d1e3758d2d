"""Where pods could go: rows 17, 32 to 40, 59, 60, 114, 115, 117 and 118 of the edge cases, as whole loops."""

import pytest
from core.tests.planner.scale_down.loops import MINUTE, Loops, codes, context_of, gone
from msgspec.structs import replace as changed

from nodewright.estimator.new_nodes import never
from nodewright.model.group import GroupOptions
from nodewright.model.meta import LabelSelector
from nodewright.model.node import ZONE_LABEL, Taint
from nodewright.model.plan import ScaleDownReport
from nodewright.model.pod import Affinity, Pod, PodAffinity, PodAffinityTerm, Toleration, TopologySpreadConstraint
from nodewright.model.settings import Settings
from nodewright.planner.scale_down.node_removal import simulate_removals
from nodewright.planner.scale_up.pending_pods import Hints
from nodewright.snapshot.node_pods import PodDestinations
from nodewright.testkit.builders import build_budget, build_controller, build_pod, build_taint
from nodewright.testkit.world import ref
from nodewright.validate import PlanViolation, check_removals

AT_ONCE = GroupOptions(scale_down_unneeded_seconds=0.0, scale_down_utilization_threshold=0.9)
CORDON = "node.kubernetes.io/unschedulable"


def loops_of(**sizes: int) -> Loops:
    """Groups of nodes with one core each."""
    loops = Loops()
    for name, size in sizes.items():
        loops.world.add_group(name, size, cpu="1", options=AT_ONCE)
    return loops


def run_on(node: str, cpu: str, **extras: object) -> Pod:
    name = str(extras.pop("name", f"on-{node}"))
    return build_pod(name, cpu=cpu, node_name=node, **extras)  # type: ignore[arg-type]  # extras of build_pod


def keep(loops: Loops, name: str) -> None:
    """A group keeps its nodes."""
    seen = loops.world.groups[ref(name)]
    group = changed(seen.group, min_size=len(seen.instances or ()))
    loops.world.groups[ref(name)] = type(seen)(**{**vars(seen), "group": group})


def test_row_17_a_node_that_left_the_picture_is_told() -> None:
    loops = loops_of(g=1)
    state = loops.world.state()
    found = simulate_removals(context_of(state), ["unknown"], PodDestinations(), never)
    assert str(found.unremovable["unknown"].code) == "NoNodeInfo"


def test_row_32_what_one_node_takes_another_cannot_have() -> None:
    loops = loops_of(a=1, b=1, x=1)
    keep(loops, "x")
    loops.world.running = [run_on("a-0", "400m"), run_on("b-0", "350m"), run_on("x-0", "550m")]
    report = loops.run()
    # b-0 has no room for what is on a-0 either: 350m and 400m fit, so it is full of what it takes.
    assert gone(report) == ["a-0"]
    assert codes(report)["b-0"] == "NoPlaceToMovePods"
    assert loops.world.memory.scale_down.rechecks["b-0"].at == loops.world.now + 5 * MINUTE


def test_seed_003_who_depended_on_the_room_waits_anew_and_others_go_at_once() -> None:
    """The example of the overview: a and b want the same room, c another. When a is gone c follows, and b begins to wait."""
    loops = Loops()
    for name, cpu in {"a": "400m", "b": "400m", "c": "400m", "x": "1", "y": "1"}.items():
        loops.world.add_group(name, 1, cpu=cpu, options=GroupOptions(scale_down_utilization_threshold=1.0))
    keep(loops, "x")
    keep(loops, "y")
    pods = {"a": "400m", "b": "350m", "c": "200m", "x": "550m", "y": "700m"}
    loops.world.running = [run_on(f"{name}-0", cpu) for name, cpu in pods.items()]
    assert set(loops.run().unneeded) == {"a-0", "c-0"}
    report = loops.run(10 * MINUTE + 1)
    assert gone(report) == ["a-0"]
    assert codes(report)["c-0"] == "AwaitsItsTurn"
    loops.world.nodes = [node for node in loops.world.nodes if node.name != "a-0"]
    loops.world.running[0] = run_on("x-0", "400m", name="on-a-0")
    report = loops.run(1)
    assert gone(report) == ["c-0"]
    assert "b-0" not in report.unneeded
    loops.world.running = [run_on(f"{name}-0", pods[name]) for name in "bcy"]
    assert codes(loops.run(5 * MINUTE))["b-0"] == "NotUnneededLongEnough"


def test_row_33_a_node_that_could_go_takes_no_pods() -> None:
    loops = loops_of(a=1, b=1)
    loops.world.running = [run_on("b-0", "100m")]
    report = loops.run()
    assert gone(report) == ["a-0"]
    assert codes(report)["b-0"] == "NoPlaceToMovePods"


def test_row_34_machines_on_their_way_take_no_pods() -> None:
    loops = loops_of(a=1)
    loops.world.add_group("big", 0, cpu="8", target=1)
    loops.world.running = [run_on("a-0", "100m")]
    assert codes(loops.run())["a-0"] == "NoPlaceToMovePods"


@pytest.mark.parametrize(("policy", "code"), [("Ignore", "NoPlaceToMovePods"), ("Honor", "")])
def test_row_35_a_zone_lives_on_in_its_only_node_unless_taints_count(policy: str, code: str) -> None:
    loops = Loops()
    for zone, cpu in (("a", "1"), ("b", "4"), ("c", "4")):
        loops.world.add_group(zone, 1, cpu=cpu, zone=zone, options=AT_ONCE, min_size=int(zone != "a"))
    spread = TopologySpreadConstraint(
        topology_key="topology.kubernetes.io/zone",
        label_selector=LabelSelector(match_labels={"app": "s"}),
        node_taints_policy=policy,
    )
    loops.world.running = [
        run_on(f"{zone}-0", "100m", labels={"app": "s"}, topology_spread_constraints=[spread]) for zone in "abc"
    ]
    report = loops.run()
    assert codes(report).get("a-0", "") == code
    assert gone(report) == ([] if code else ["a-0"])


def test_row_36_a_pod_that_waits_holds_the_room_that_it_is_to_have() -> None:
    loops = loops_of(a=1, b=1)
    loops.world.running = [run_on("a-0", "300m")]
    loops.world.pending = [build_pod("waits", cpu="800m")]
    loops.settings = {"scale_down_delay_after_add": 0.0}
    report = loops.run()
    assert gone(report) == []
    assert codes(report)["a-0"] == "NoPlaceToMovePods"
    assert codes(report)["b-0"] == "NoPlaceToMovePods"


def tolerant(node: str) -> Pod:
    return run_on(node, "100m", tolerations=[Toleration(key=CORDON, operator="Exists")])


def cordon(loops: Loops, name: str) -> None:
    node = loops.node(name)
    taint = Taint(key=CORDON, effect="NoSchedule")
    loops.change(changed(node, spec=changed(node.spec, unschedulable=True, taints=(taint,))))


def test_rows_37_and_115_a_cordoned_node_is_only_taken_where_it_was_taken_before() -> None:
    loops = loops_of(a=1, b=1)
    keep(loops, "b")
    loops.settings = {"scale_down_unneeded_time": 0.0, "max_drain_parallelism": 0}
    loops.world.running = [tolerant("a-0")]
    assert "a-0" in loops.run().unneeded
    cordon(loops, "b-0")
    assert "a-0" in loops.run(10).unneeded
    fresh = loops_of(a=1, b=1)
    keep(fresh, "b")
    cordon(fresh, "b-0")
    fresh.world.running = [tolerant("a-0")]
    assert codes(fresh.run())["a-0"] == "NoPlaceToMovePods"


def test_row_39_pods_of_high_priority_choose_first() -> None:
    loops = Loops()
    loops.world.add_group("a", 1, cpu="4", options=AT_ONCE)
    loops.world.add_group("x", 1, cpu="1", min_size=1)
    loops.world.running = [
        run_on("a-0", "600m", name="low", priority=1),
        run_on("a-0", "500m", name="high", priority=9),
    ]
    report = loops.run()
    assert report.unremovable["a-0"].pod == "default/low"


def covered(node: str) -> Pod:
    return run_on(node, "100m", labels={"app": "guarded"})


def test_row_59_a_budget_of_one_lets_one_node_go() -> None:
    loops = loops_of(a=1, b=1, x=1)
    keep(loops, "x")
    loops.world.running = [covered("a-0"), covered("b-0")]
    loops.world.budgets = [build_budget("pdb", allowed=1, labels={"app": "guarded"})]
    report = loops.run()
    assert gone(report) == ["a-0"]
    assert str(report.unremovable["b-0"].pod_code) == "NotEnoughPdb"


def test_who_used_a_budget_up_in_the_same_loop_is_said() -> None:
    loops = loops_of(a=1, b=1, x=1)
    keep(loops, "x")
    loops.world.running = [run_on(node, "100m", labels={"app": "x"}) for node in ("a-0", "b-0")]
    for allowed, said in ((1, "use up what"), (0, "allows no disruption now")):
        loops.world.budgets = [build_budget("x", allowed, {"app": "x"})]
        assert said in str(loops.run(10 * MINUTE).unremovable["b-0"])


def test_row_60_a_node_with_more_pods_than_its_budget_lets_go_comes_after_others() -> None:
    loops = loops_of(a=1, b=1, x=3)
    keep(loops, "x")
    pods = [run_on("a-0", "200m", name=name, labels={"app": "guarded"}) for name in ("one", "two")]
    loops.world.running = [*pods, run_on("b-0", "850m")]
    loops.world.budgets = [build_budget("pdb", allowed=1, labels={"app": "guarded"})]
    report = loops.run()
    assert list(report.unneeded) == ["a-0", "b-0"]
    assert gone(report) == ["b-0"]
    assert codes(report)["a-0"] == "AwaitsItsTurn"


def test_row_114_a_bare_pod_that_is_to_run_on_a_node_keeps_it() -> None:
    loops = loops_of(a=1)
    loops.world.pending = [build_pod("bare", cpu="100m", owner=None)]
    report = loops.run()
    assert str(report.unremovable["a-0"].pod_code) == "NotReplicated"


def test_row_117_a_node_with_nothing_but_expendable_pods_is_empty() -> None:
    loops = loops_of(a=1)
    loops.world.running = [run_on("a-0", "900m", priority=-11, owner=None)]
    report = loops.run()
    assert gone(report) == ["a-0"]
    assert report.removals[0].pods == ()


def test_row_54_a_node_waits_for_pods_that_are_to_complete() -> None:
    loops = loops_of(a=1)
    annotation = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "on-completion"}
    loops.world.running = [run_on("a-0", "100m", annotations=annotation)]
    report = loops.run()
    assert "a-0" in report.unneeded
    assert codes(report) == {"a-0": "BlockedByOnCompletionPod"}


def test_pods_of_a_node_that_is_drained_wait_for_room_from_now() -> None:
    loops = loops_of(a=1, b=1)
    loops.world.running = [run_on("a-0", "700m")]
    loops.begin("a-0", pods=("default/on-a-0",))
    node = loops.node("a-0")
    taint = Taint(key="ToBeDeletedByClusterAutoscaler", effect="NoSchedule", value=str(int(loops.world.now)))
    loops.change(changed(node, spec=changed(node.spec, taints=(taint,))))
    plan = loops.plan()
    assert [pod.key for pod in plan.fitting] == ["default/on-a-0"]
    # Its room is kept on b-0, which therefore could only go if the pod had another place.
    assert codes(plan.scale_down)["b-0"] == "NoPlaceToMovePods"


def test_a_pod_moved_in_the_simulation_moves_on_with_its_next_node() -> None:
    loops = Loops()
    loops.world.add_group("a", 1, cpu="1", options=AT_ONCE)
    loops.world.add_group("b", 1, cpu="2", options=AT_ONCE)
    loops.world.add_group("c", 1, cpu="1", options=AT_ONCE, min_size=1)
    loops.world.running = [run_on("a-0", "600m"), run_on("b-0", "600m"), run_on("c-0", "300m")]
    report = loops.run()
    # What was on a-0 is on b-0 by now, so that b-0 has 1200m to move, and c-0 takes 700m.
    assert gone(report) == ["a-0"]
    assert codes(report)["b-0"] == "NoPlaceToMovePods"


def test_orphans_are_told_with_the_controller_that_is_missing() -> None:
    loops = loops_of(a=1, b=1)
    loops.world.controllers = [build_controller("ReplicaSet", "other", replicas=1)]
    loops.world.running = [run_on("a-0", "100m")]
    report = loops.run()
    assert str(report.unremovable["a-0"].pod_code) == "ControllerNotFound"


@pytest.mark.parametrize(("profile", "looked_at"), [("nodewright", 500), ("ca", 505)])
def test_searches_that_fail_are_bounded_and_go_on_in_the_next_loop(profile: str, looked_at: int) -> None:
    loops = Loops(settings={"profile": profile})
    loops.world.add_group("g", 505, cpu="1", max_size=1000, options=AT_ONCE)
    loops.world.running = [
        run_on(node.name, "100m", node_selector={"kubernetes.io/hostname": node.name}) for node in loops.world.nodes
    ]
    report = loops.run()
    assert list(codes(report).values()).count("NoPlaceToMovePods") == looked_at
    assert list(codes(report).values()).count("NotExaminedYet") == 505 - looked_at
    assert (report.next_change == loops.world.now) is (looked_at < 505)
    assert list(codes(loops.run(10)).values()).count("NoPlaceToMovePods") == 505 - looked_at


@pytest.mark.parametrize(
    ("owner", "profile", "goes"),
    [
        ("ReplicaSet", "nodewright", True),
        ("ReplicationController", "nodewright", True),
        ("StatefulSet", "nodewright", False),
        ("Job", "nodewright", False),
        ("ReplicaSet", "ca", False),
    ],
)
def test_a_pod_that_is_ending_needs_no_place_if_another_was_made_for_it(owner: str, profile: str, goes: bool) -> None:
    loops = loops_of(a=1, x=1)
    keep(loops, "x")
    loops.settings = {"profile": profile}
    ending = run_on("a-0", "300m", owner=(owner, "o"), deleted_at=loops.world.now + 20)
    loops.world.running = [ending, run_on("x-0", "800m")]
    report = loops.run()
    assert gone(report) == (["a-0"] if goes else [])
    assert all(removal.drains for removal in report.removals), "it is waited for"
    assert violations(loops, report) == ()


def zones(*, patient: bool = True, also_c: bool = True, profile: str = "nodewright") -> Loops:
    """a-0 in zone a and b-0 in zone b with a pod each that wants its zone for itself. That of b-0 may go to zone c, that
    of a-0 to zone b and, maybe, ``also_c``.

    b-0 is looked at first. ``patient``: it has to be unneeded for an hour.
    """
    loops = Loops(settings={"max_drain_parallelism": 2, "profile": profile})
    slow = changed(AT_ONCE, scale_down_unneeded_seconds=3600.0) if patient else AT_ONCE
    for name, options in (("b", slow), ("a", AT_ONCE), ("rest-b", AT_ONCE), ("rest-c", AT_ONCE)):
        taints = [build_taint(name)] if name.startswith("rest") else []
        loops.world.add_group(name, 1, cpu="1", zone=name[-1], options=options, taints=taints)
    term = PodAffinityTerm(topology_key=ZONE_LABEL, label_selector=LabelSelector(match_labels={"app": "x"}))
    alone = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    for node, places in (("b-0", ["rest-c"]), ("a-0", ["rest-b", "rest-c"] if also_c else ["rest-b"])):
        tolerations = [Toleration(key=place, operator="Exists") for place in places]
        loops.world.running.append(run_on(node, "100m", labels={"app": "x"}, affinity=alone, tolerations=tolerations))
    keep(loops, "rest-b")
    keep(loops, "rest-c")
    return loops


def place_of(loops: Loops, name: str) -> str | None:
    pod = next(pod for pod in loops.world.running if pod.name == name)
    return Hints(before=loops.world.memory.scale_down.hints).get(pod)


def violations(loops: Loops, report: ScaleDownReport) -> tuple[PlanViolation, ...]:
    hints = loops.world.memory.scale_down.hints
    return check_removals(loops.world.state().observation, report.removals, hints, Settings())


@pytest.mark.parametrize("patient", [True, False])
def test_what_goes_now_is_looked_at_as_if_the_others_stayed(patient: bool) -> None:
    """In the chain the pod of b-0 leaves its zone to that of a-0. If b-0 stays it does not."""
    loops = zones(patient=patient)
    report = loops.run()
    assert list(report.unneeded) == ["b-0", "a-0"]
    assert gone(report) == (["a-0"] if patient else ["b-0", "a-0"])
    assert place_of(loops, "on-a-0") == ("rest-c-0" if patient else "rest-b-0")
    assert violations(loops, report) == ()


def test_it_stays_if_it_can_only_go_with_the_others() -> None:
    loops = zones(also_c=False)
    report = loops.run()
    assert list(report.unneeded) == ["b-0", "a-0"]
    assert gone(report) == []
    reason = report.unremovable["a-0"]
    assert (str(reason.code), reason.pod) == ("NoPlaceToMovePods", "default/on-a-0")
    assert "as long as other removable nodes stay" in reason.message


def test_ca_goes_by_the_chain() -> None:
    loops = zones(profile="ca")
    report = loops.run()
    assert gone(report) == ["a-0"]
    assert place_of(loops, "on-a-0") == "rest-b-0"
    assert [violation.rule for violation in violations(loops, report)] != []
