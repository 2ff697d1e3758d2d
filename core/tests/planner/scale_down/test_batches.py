"""What remains, and how many go at a time: rows 62 to 68, 83 and 111 to 113 of the edge cases, as whole loops."""

from collections import Counter
from dataclasses import replace
from math import inf

import pytest
from core.tests.planner.scale_down.loops import Loops, codes, gone
from msgspec.structs import replace as changed

from nodewright.model.group import GroupOptions, Instance
from nodewright.model.node import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT, Taint
from nodewright.model.reason import ScaleDownResult
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import ref

AT_ONCE = GroupOptions(scale_down_unneeded_seconds=0.0)
ATOMIC = GroupOptions(scale_down_unneeded_seconds=0.0, zero_or_max_node_scaling=True)


def empty_groups(options: GroupOptions = AT_ONCE, **sizes: int) -> Loops:
    loops = Loops()
    for name, size in sizes.items():
        loops.world.add_group(name, size, max_size=50, options=options)
    return loops


def drained(loops: Loops, *names: str) -> Loops:
    """These nodes have a pod to move, for which there is room elsewhere."""
    loops.world.running += [build_pod(f"on-{name}", node_name=name) for name in names]
    loops.world.add_group("room", 1, cpu="64", min_size=1)
    return loops


def per_group(loops: Loops) -> dict[str, int]:
    return dict(Counter(name.rpartition("-")[0] for name in gone(loops.run())))


def test_row_62_nodes_under_deletion_count_twice_against_the_least_size() -> None:
    loops = empty_groups(g=5)
    seen = loops.world.groups[ref("g")]
    # The cloud has taken the one that goes off the target already.
    group = changed(seen.group, min_size=3)
    loops.world.groups[ref("g")] = replace(seen, group=group, target=4)
    loops.begin("g-0")
    report = loops.run()
    assert gone(report) == []
    assert codes(report)["g-1"] == "NodeGroupMinSizeReached"


@pytest.mark.parametrize(("least", "count"), [(10, 0), (8, 1), (0, 3)])
def test_row_63_the_cluster_keeps_its_least_cores(least: int, count: int) -> None:
    loops = empty_groups(g=3)
    loops.settings = {"cores_total": f"{least}:1000"}
    report = loops.run()
    assert len(report.removals) == count
    assert list(codes(report).values()).count("MinimalResourceLimitExceeded") == 3 - count


@pytest.mark.parametrize(("least", "count"), [(40, 0), (32, 1), (31, 1), (16, 2)])
def test_the_cluster_keeps_its_least_memory(least: int, count: int) -> None:
    loops = empty_groups(g=3)
    loops.settings = {"memory_total": f"{least}:1000"}
    assert len(loops.run().removals) == count


def test_the_cluster_keeps_its_least_gpus() -> None:
    loops = Loops()
    label, resource = "cloud/gpu", "vendor.example/gpu"
    loops.world.provider = replace(loops.world.provider, gpu_label=label, gpu_resources=(resource,))
    loops.world.add_group("g", 3, options=AT_ONCE, labels={label: "k80"}, extended={resource: 4})
    loops.settings = {"gpu_total": ("k80:5:100",)}
    assert len(loops.run().removals) == 1


def test_row_64_ca_counts_nodes_on_their_way_out_as_if_they_stayed() -> None:
    loops = empty_groups(g=3)
    loops.begin("g-0")
    loops.settings = {"cores_total": "8:1000", "profile": "ca"}
    assert gone(loops.run()) == ["g-1"]
    loops.settings = {"cores_total": "8:1000"}
    assert gone(loops.run()) == []


def test_row_65_a_whole_group_goes_whole_or_not_at_all() -> None:
    loops = empty_groups(ATOMIC, g=4)
    loops.world.running = [build_pod("p", cpu="4", node_name="g-3")]
    report = loops.run()
    assert gone(report) == []
    assert [code for name, code in codes(report).items() if name != "g-3"] == ["AtomicScaleDownFailed"] * 3


def never_registered(loops: Loops, name: str) -> None:
    """One machine of the group is no node."""
    seen = loops.world.groups[ref(name)]
    target = (seen.target or 0) + 1
    instances = (*(seen.instances or ()), Instance(id="cloud:///lost"))
    loops.world.groups[ref(name)] = replace(seen, target=target, instances=instances)


@pytest.mark.parametrize("profile", ["ca", "nodewright"])
def test_row_65_what_is_registered_counts_as_the_whole(profile: str) -> None:
    loops = empty_groups(ATOMIC, g=3)
    never_registered(loops, "g")
    loops.settings = {"profile": profile}
    assert [removal.batch for removal in loops.run().removals] == [3, 3, 3]


@pytest.mark.parametrize(("profile", "batch"), [("ca", 4), ("nodewright", 3)])
def test_row_111_a_mixed_whole_group_goes_in_a_batch_that_can_fill_up(profile: str, batch: int) -> None:
    loops = drained(empty_groups(ATOMIC, g=3), "g-2")
    never_registered(loops, "g")
    loops.settings = {"profile": profile}
    assert [removal.batch for removal in loops.run().removals] == [batch] * 3


@pytest.mark.parametrize(
    ("under_way", "profile", "count"),
    [(0, "ca", 12), (9, "ca", 12), (10, "ca", 0), (11, "ca", 12), (9, "nodewright", 12), (11, "nodewright", 12)],
)
def test_rows_66_and_112_a_whole_group_may_exceed_what_is_left_but_not_nothing(
    under_way: int, profile: str, count: int
) -> None:
    loops = empty_groups(ATOMIC, g=12)
    loops.world.add_group("busy", 11)
    for number in range(under_way):
        loops.begin(f"busy-{number}")
    loops.settings = {"profile": profile}
    assert len([name for name in gone(loops.run()) if name.startswith("g-")]) == count


def test_row_112_after_it_nothing_is_left_for_others() -> None:
    loops = empty_groups(ATOMIC, g=12)
    loops.world.add_group("single", 3, options=AT_ONCE)
    loops.settings = {"profile": "ca"}
    assert per_group(loops) == {"g": 12}


def test_only_one_whole_group_may_exceed_what_is_left() -> None:
    assert per_group(empty_groups(ATOMIC, a=12, b=12)) == {"a": 12}


def test_row_67_groups_are_emptied_one_after_the_other() -> None:
    loops = empty_groups(a=8, b=8)
    loops.settings = {"profile": "ca"}
    assert per_group(loops) == {"a": 8, "b": 2}


def test_empty_nodes_do_not_wait_for_one_another() -> None:
    """They have a deletion budget of their own; ten at a time would keep 500 idle machines for minutes."""
    loops = empty_groups(GroupOptions(), a=30, b=30)
    assert sum(per_group(loops).values()) == 0
    since = {f"{group}-{number}": loops.world.now - 700 for group in "ab" for number in range(30)}
    memory = loops.world.memory.scale_down
    loops.world.memory = replace(loops.world.memory, scale_down=replace(memory, unneeded_since=since))
    assert per_group(loops) == {"a": 30, "b": 30}


def test_where_nothing_may_be_removed_empty_nodes_stay_too() -> None:
    loops = empty_groups(a=3)
    loops.settings = {"max_scale_down_parallelism": 0}
    assert per_group(loops) == {}


def test_row_68_while_one_drain_is_under_way_only_empty_nodes_go() -> None:
    loops = drained(empty_groups(g=4), "g-0", "g-1")
    loops.begin("g-0", pods=("default/on-g-0",))
    report = loops.run()
    assert gone(report) == ["g-2", "g-3"]
    assert codes(report)["g-1"] == "AwaitsItsTurn"
    assert report.next_change == loops.world.now


@pytest.mark.parametrize(
    ("drains", "profile", "expected"), [(1, "ca", 1), (5, "ca", 2), (1, "nodewright", 1), (5, "nodewright", 5)]
)
def test_row_113_drains_share_the_parallelism_of_all(drains: int, profile: str, expected: int) -> None:
    """Under profile ca with empty nodes, too."""
    loops = drained(empty_groups(e=8, d=8), *(f"d-{n}" for n in range(8)))
    loops.settings = {"max_drain_parallelism": drains, "profile": profile}
    assert per_group(loops) == {"e": 8, "d": expected}


def with_taint(loops: Loops, name: str, key: str) -> None:
    node = loops.node(name)
    loops.change(changed(node, spec=changed(node.spec, taints=(*node.spec.taints, Taint(key=key, value="1")))))


def test_row_83_no_more_than_ten_nodes_are_marked_at_a_time() -> None:
    loops = empty_groups(GroupOptions(), g=15)
    report = loops.run()
    assert (len(report.soft_taint), report.soft_untaint) == (10, ())
    assert report.next_change == loops.world.now


def test_marks_are_taken_off_before_others_are_put_on() -> None:
    loops = empty_groups(GroupOptions(), g=5)
    loops.settings = {"max_bulk_soft_taint_count": 3}
    loops.world.running = [build_pod(f"p{n}", cpu="4", node_name=f"g-{n}") for n in range(2)]
    for name in ("g-0", "g-1", "g-2"):
        with_taint(loops, name, DELETION_CANDIDATE_TAINT)
    with_taint(loops, "g-4", TO_BE_DELETED_TAINT)
    report = loops.run()
    assert report.soft_untaint == ("g-0", "g-1")
    assert report.soft_taint == ("g-3",)


def test_without_a_budget_nothing_is_marked() -> None:
    loops = empty_groups(GroupOptions(), g=2)
    loops.settings = {"max_bulk_soft_taint_count": 0}
    report = loops.run()
    assert (report.soft_taint, report.soft_untaint) == ((), ())


def test_parallelism_zero_removes_nothing() -> None:
    loops = empty_groups(g=2)
    loops.settings = {"max_scale_down_parallelism": 0}
    report = loops.run()
    assert report.result == ScaleDownResult.NO_NODE_DELETED
    assert codes(report) == {"g-0": "SwitchedOff", "g-1": "SwitchedOff"}
    assert "--max-scale-down-parallelism is 0" in str(report.passed_over["g-0"])
    assert report.next_change == inf


def test_drain_parallelism_zero_removes_nothing_with_pods() -> None:
    loops = empty_groups(g=2)
    loops.world.running = [build_pod("p", cpu="100m", node_name="g-0")]
    loops.world.add_group("room", 1, min_size=1)
    loops.settings = {"max_drain_parallelism": 0}
    report = loops.run()
    assert gone(report) == ["g-1"]
    assert codes(report)["g-0"] == "SwitchedOff"
    assert "--max-drain-parallelism is 0" in str(report.passed_over["g-0"])
    loops.world.nodes = [node for node in loops.world.nodes if node.name != "g-1"]
    assert loops.run(10).next_change == inf
