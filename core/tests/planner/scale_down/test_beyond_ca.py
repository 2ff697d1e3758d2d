"""What CA does not do: balance at removal, and patience with groups and pods that go back and forth."""

from collections import Counter
from dataclasses import replace

import pytest
from core.tests.planner.scale_down.loops import MINUTE, Loops, codes, gone
from msgspec.structs import replace as replace_struct

from nodewright.clusterstate.memory import Flapping, MovedPods, ScaleDownMemory
from nodewright.clusterstate.scale_down_activity import with_activity
from nodewright.model.action import DeleteInstances, Done, IncreaseSize
from nodewright.model.group import GroupOptions
from nodewright.model.node import NodeCondition
from nodewright.model.removal import NodeRemoval, RemovalEnded, RemovalReason, RemovalResult
from nodewright.model.settings import Settings
from nodewright.testkit.builders import build_controller, build_pod
from nodewright.testkit.world import NOW, World, ref, settings_with

AT_ONCE = GroupOptions(scale_down_unneeded_seconds=0.0)
OWNER = "uid-ReplicaSet-rs"


def balanced(**sizes: int) -> Loops:
    loops = Loops(settings={"balance_scale_down": True})
    for number, (name, size) in enumerate(sizes.items()):
        loops.world.add_group(name, size, max_size=50, zone=f"z{number}", options=AT_ONCE)
    return loops


def in_order(loops: Loops, count: int) -> dict[str, int]:
    """How many of each group are among the first so many that go."""
    return dict(Counter(removal.node.rpartition("-")[0] for removal in loops.run().removals[:count]))


def test_the_larger_of_similar_groups_loses_nodes_until_they_are_even() -> None:
    assert in_order(balanced(a=3, b=9, c=6), 9) == {"b": 6, "c": 3}


def test_evenly_sized_groups_take_turns() -> None:
    assert in_order(balanced(a=8, b=8), 10) == {"a": 5, "b": 5}


@pytest.mark.parametrize("settings", [{"balance_scale_down": False}, {"balance_scale_down": True, "profile": "ca"}])
def test_unless_asked_for_groups_are_emptied_as_ca_does(settings: dict[str, object]) -> None:
    loops = balanced(a=3, b=9)
    loops.settings = settings
    assert in_order(loops, 10) == {"a": 3, "b": 7}


def test_other_groups_keep_their_turn() -> None:
    loops = balanced(a=4)
    loops.world.add_group("gpu", 4, cpu="32", options=AT_ONCE)
    loops.world.add_group("b", 8, zone="z9", options=AT_ONCE)
    assert in_order(loops, 10) == {"a": 1, "gpu": 4, "b": 5}


def test_of_two_nodes_of_which_one_can_go_it_is_that_of_the_larger_group() -> None:
    loops = balanced(a=1, b=2)
    loops.world.running = [build_pod(f"on-{name}", cpu="1800m", node_name=name) for name in ("a-0", "b-0", "b-1")]
    report = loops.run()
    assert next(iter(report.unneeded)) == "b-0"


def in_memory(loops: Loops, memory: ScaleDownMemory) -> None:
    loops.world.memory = replace(loops.world.memory, scale_down=replace(memory, engine_started=1.0))


def test_a_flapping_group_keeps_its_nodes_and_says_since_when() -> None:
    loops = Loops()
    loops.world.add_group("g", 1, options=AT_ONCE)
    flapping = Flapping(turns=3, last=NOW - 100, until=NOW + 60)
    in_memory(loops, ScaleDownMemory(flapping={ref("g"): flapping}))
    report = loops.run()
    assert codes(report) == {"g-0": "Flapping"}
    assert "3 times running, the last time 100 s ago" in str(report.unremovable["g-0"])
    assert report.next_change < NOW + 60
    assert report.next_change == pytest.approx(NOW + 60, abs=1e-6)
    assert gone(loops.run(60)) == ["g-0"]


def test_a_quarantined_group_keeps_its_nodes() -> None:
    loops = Loops()
    loops.world.add_group("g", 1, options=AT_ONCE)
    in_memory(loops, ScaleDownMemory(quarantined_until={ref("g"): NOW + 60}))
    assert codes(loops.run()) == {"g-0": "Quarantined"}
    assert gone(loops.run(60)) == ["g-0"]


def moving_pods(*, moved: int, profile: str = "nodewright", most: int = 6) -> Loops:
    loops = Loops(settings={"profile": profile, "max_pod_moves_per_hour": most, "scale_down_delay_after_add": 0.0})
    loops.world.add_group("g", 1, options=AT_ONCE)
    loops.world.add_group("room", 1, min_size=1)
    loops.world.controllers = [build_controller("ReplicaSet", "rs", replicas=2)]
    loops.world.running = [build_pod("p", node_name="g-0")]
    in_memory(loops, ScaleDownMemory(moved_pods={OWNER: (MovedPods(NOW - 50 * MINUTE, moved),)}))
    return loops


def test_pods_moved_too_often_within_an_hour_are_left_alone() -> None:
    loops = moving_pods(moved=12)
    report = loops.run()
    assert codes(report)["g-0"] == "Flapping"
    assert report.unremovable["g-0"].pod == "default/p"
    assert gone(loops.run(10 * MINUTE)) == ["g-0"]


@pytest.mark.parametrize(("moved", "profile", "most"), [(11, "nodewright", 6), (12, "ca", 6), (99, "nodewright", 0)])
def test_they_may_be_moved_as_often_as_that(moved: int, profile: str, most: int) -> None:
    assert gone(moving_pods(moved=moved, profile=profile, most=most).run()) == ["g-0"]


def seen(world: World) -> World:
    world.add_group("g", 1, options=GroupOptions(scale_down_unneeded_seconds=300.0))
    return world


def grows(memory: ScaleDownMemory, at: float, settings: Settings | None = None, *, move: str = "") -> ScaleDownMemory:
    action = IncreaseSize(group=ref("g"), expected_target=1, target=2, pod_count=1, move=move)
    world = seen(World(now=at))
    outcomes = [Done(action=action, started=at, accepted=1)]
    given = settings or Settings()
    return with_activity(memory, world.state().observation, outcomes, (), given.scale_down, given.policy)


def shrinks(memory: ScaleDownMemory, at: float, evicted: tuple[str, ...] = ()) -> ScaleDownMemory:
    removal = NodeRemoval(
        node="n",
        group=ref("g"),
        instance_id="i",
        reason=RemovalReason.EMPTY,
        pods=("default/a", "default/b", "default/c"),
        owners=("one", "one", ""),
    )
    end = RemovalEnded(removal=removal, at=at, started=at, result=RemovalResult.OK, evicted=evicted)
    observation, given = seen(World(now=at)).state().observation, Settings()
    return with_activity(memory, observation, (), [end], given.scale_down, given.policy)


def test_a_group_that_grows_right_after_it_shrank_waits_longer_each_time() -> None:
    memory, waits = ScaleDownMemory(engine_started=1.0), []
    at = NOW
    for _ in range(3):
        memory = shrinks(memory, at)
        memory = grows(memory, at + 100)
        waits.append(memory.flapping[ref("g")].until - (at + 100))
        at += 1000
    assert waits == [300.0, 600.0, 1200.0]
    assert memory.flapping[ref("g")].turns == 3


def test_growing_long_after_shrinking_is_no_turn_nor_is_growing_on() -> None:
    memory = shrinks(ScaleDownMemory(engine_started=1.0), NOW)
    assert grows(memory, NOW + 3600).flapping
    assert not grows(memory, NOW + 3601).flapping
    memory = grows(memory, NOW + 100)
    assert grows(memory, NOW + 200).flapping[ref("g")].turns == 1


def test_growing_for_a_move_is_no_turn() -> None:
    memory = shrinks(ScaleDownMemory(engine_started=1.0), NOW)
    assert not grows(memory, NOW + 60, move="replaced-g-0-1").flapping


def test_turns_are_forgotten_after_three_quiet_hours() -> None:
    memory = grows(shrinks(ScaleDownMemory(engine_started=1.0), NOW), NOW + 100)
    later = NOW + 100 + 3 * 3600
    assert not grows(memory, later).flapping


def test_ca_counts_no_turns() -> None:
    memory = shrinks(ScaleDownMemory(engine_started=1.0), NOW)
    assert not grows(memory, NOW + 100, settings_with(profile="ca")).flapping


def test_what_was_evicted_counts_as_moved_for_an_hour() -> None:
    memory = shrinks(ScaleDownMemory(engine_started=1.0), NOW, evicted=("default/a", "default/b", "default/c"))
    assert memory.moved_pods == {"one": (MovedPods(NOW, 2),)}
    memory = shrinks(memory, NOW + 10, evicted=("default/b",))
    assert memory.moved_pods == {"one": (MovedPods(NOW, 2), MovedPods(NOW + 10, 1))}
    assert not grows(memory, NOW + 3610).moved_pods


def test_a_node_is_not_marked_as_moved_from_before_its_pods_left() -> None:
    assert not shrinks(ScaleDownMemory(engine_started=1.0), NOW).moved_pods


@pytest.mark.parametrize(("age", "deleted", "removed"), [(1500, 0, 1), (30_000, 1, 0)])
def test_a_machine_that_is_deleted_as_never_ready_is_not_removed_as_well(age: int, deleted: int, removed: int) -> None:
    loops = Loops(settings={"scale_down_delay_after_add": 0.0})
    loops.world.add_group("g", 4, options=GroupOptions(scale_down_unready_seconds=0.0), created_at=NOW - age)
    node = loops.node("g-3")
    said = NodeCondition(type="Ready", status="Unknown", reason="NodeStatusNeverUpdated")
    loops.change(replace_struct(node, status=replace_struct(node.status, conditions=(said,))))
    plan = loops.world.plan(**loops.settings)
    deletions = [action.instance_ids for action in plan.actions if isinstance(action, DeleteInstances)]
    assert deletions == [("cloud:///g/3",)] * deleted
    assert gone(plan.scale_down) == ["g-3"] * removed
