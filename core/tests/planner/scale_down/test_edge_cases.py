"""Rows 13, 22, 38 and 40 of the edge cases (docs/behaviour/edge-cases.md), and the order of candidates, as whole loops."""

from dataclasses import replace

import pytest
from core.tests.planner.scale_down.loops import MINUTE, Loops, codes, gone
from msgspec.structs import replace as changed

from nodewright.model.action import DecreaseTargetSize
from nodewright.model.group import GroupOptions, NodeGroup
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import ref, settings_with
from nodewright.validate import check_removals

AT_ONCE = GroupOptions(scale_down_unneeded_seconds=0.0, scale_down_utilization_threshold=0.9)
WAIT_FOR_ME = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "on-completion"}


def loops_of(options: GroupOptions = AT_ONCE, **sizes: int) -> Loops:
    """Groups of nodes with one core each."""
    loops = Loops()
    for name, size in sizes.items():
        loops.world.add_group(name, size, cpu="1", options=options)
    return loops


def keep(loops: Loops, name: str) -> None:
    """A group keeps its nodes."""
    seen = loops.world.groups[ref(name)]
    loops.world.groups[ref(name)] = replace(seen, group=changed(seen.group, min_size=len(seen.instances or ())))


def test_row_13_a_node_without_a_ready_condition_waits_as_long_as_an_unready_one() -> None:
    loops = loops_of(GroupOptions(), g=1)
    node = loops.node("g-0")
    loops.change(changed(node, status=changed(node.status, conditions=())))
    loops.run()
    assert codes(loops.run(20 * MINUTE)) == {"g-0": "NotUnreadyLongEnough"}
    report = loops.run(1)
    assert [(removal.node, str(removal.reason)) for removal in report.removals] == [("g-0", "unready")]


def test_row_22_timers_are_kept_where_a_size_is_fixed() -> None:
    """CA ends such a loop before scale-down."""
    loops = loops_of(GroupOptions(scale_down_unneeded_seconds=60 * MINUTE), g=1, gap=1)
    loops.settings = {"profile": "ca"}
    seen = loops.world.groups[ref("gap")]
    loops.world.groups[ref("gap")] = replace(seen, target=2, group=NodeGroup(id="gap", min_size=1, max_size=9))
    before = loops.run().unneeded
    plan = loops.plan(16 * MINUTE)
    assert [action.target for action in plan.actions if isinstance(action, DecreaseTargetSize)] == [1]
    assert plan.cut_short
    loops.world.groups[ref("gap")] = replace(seen, group=NodeGroup(id="gap", min_size=1, max_size=9))
    assert loops.run(10).unneeded["g-0"] == before["g-0"]


@pytest.mark.parametrize("labels", [{}, {"app": "other"}], ids=["alike", "differ"])
def test_row_38_a_pod_without_a_place_settles_it_for_those_after_it(labels: dict[str, str]) -> None:
    """Whether the next pod of its controller is like it or not: of one priority, the first failure ends the search."""
    loops = loops_of(a=1, x=1)
    keep(loops, "x")
    loops.world.running = [
        build_pod("first", "400m", node_name="a-0"),
        build_pod("second", "400m" if not labels else "100m", node_name="a-0", labels=labels),
        build_pod("full", "700m", node_name="x-0"),
    ]
    report = loops.run()
    assert (codes(report)["a-0"], report.unremovable["a-0"].pod) == ("NoPlaceToMovePods", "default/first")
    assert "uid-default-second" not in loops.world.memory.scale_down.hints


def test_row_40_no_room_is_kept_for_pods_that_were_evicted() -> None:
    """They are on their way out of one node, and their successors do not wait yet."""
    loops = loops_of(a=1, b=1)
    loops.world.running = [build_pod("on-a", "700m", node_name="a-0")]
    assert "b-0" in gone(loops.run())
    loops.begin("a-0", pods=("default/on-a",))
    loops.world.running = []
    assert gone(loops.run(10)) == ["b-0"]


def test_empty_nodes_come_first_and_of_these_those_that_need_not_be_waited_for() -> None:
    loops = loops_of(a=4)
    loops.world.running = [
        build_pod("moves", node_name="a-0"),
        build_pod("ends", node_name="a-1", annotations=WAIT_FOR_ME),
        build_pod("bare", node_name="a-3", owner=None),
    ]
    assert list(loops.run().unneeded) == ["a-2", "a-1", "a-0"]


def test_a_node_that_is_tried_in_vain_does_not_change_where_the_plan_has_pods() -> None:
    """The pod of a-0 goes to n-0. That node is tried next: the pod would go on to x-0, but another one has no place."""
    loops = loops_of(a=1)
    for name, cpu, least in (("n", "2", 0), ("x", "1", 0), ("y", "1", 1)):
        loops.world.add_group(name, 1, cpu=cpu, min_size=least, options=AT_ONCE)
    loops.world.running = [
        build_pod("p", "200m", node_name="a-0", priority=10),
        build_pod("q", "1500m", node_name="n-0"),
        build_pod("r", "100m", node_name="x-0"),
        build_pod("s", "500m", node_name="y-0"),
    ]
    loops.settings = {"max_drain_parallelism": 5}
    report = loops.run()
    assert gone(report) == ["a-0", "x-0"]
    assert codes(report)["n-0"] == "NoPlaceToMovePods"
    hints = loops.world.memory.scale_down.hints
    assert hints["uid-default-p"] == "n-0"
    seen = loops.world.state().observation
    assert check_removals(seen, report.removals, hints, settings_with(**loops.settings)) == ()
