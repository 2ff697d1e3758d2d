"""A second look at removals that runs out of time; whole loops are in tests/scenario/test_time_budgets.py."""

from collections.abc import Sequence

from core.tests.planner.scale_down.loops import context_of
from msgspec.structs import replace as changed

from nodewright.clusterstate.state import ClusterState
from nodewright.estimator.new_nodes import never
from nodewright.model.group import GroupOptions
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.planner.scale_down.node_removal import SimulatedRemovals, simulate_removals
from nodewright.planner.scale_down.selection import ConfirmedRemovals, confirm_removals
from nodewright.snapshot.node_pods import PodDestinations
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import World

LATE = Unremovable(code=UnremovableCode.NOT_EXAMINED, message="time was up")
STUCK = Unremovable(code=UnremovableCode.NO_PLACE, message="no place")


def world(*, whole: bool = False) -> ClusterState:
    """Nodes with a pod each, and one that takes them all."""
    world = World()
    world.add_group("a", 3, options=changed(GroupOptions(), zero_or_max_node_scaling=whole))
    world.add_group("b", 3)
    world.running = [build_pod(f"on-{node.name}", "100m", node_name=node.name) for node in world.nodes]
    return world.state()


def look_again(
    state: ClusterState, *names: str, stuck: str = "", batch: int = 1
) -> tuple[ConfirmedRemovals, list[list[str]]]:
    """What is confirmed of these nodes where every look has time for one only; and the names of each look."""
    snapshot, looks = state.observation.snapshot, list[list[str]]()
    found = simulate_removals(context_of(state), list(snapshot.names)[:-1], PodDestinations(), never)

    def look(asked: Sequence[str]) -> SimulatedRemovals:
        looks.append(list(asked))
        first, *others = asked
        late = dict.fromkeys(others, LATE)
        if first == stuck:
            return SimulatedRemovals(unremovable={first: STUCK}, skipped=late)
        return SimulatedRemovals(removable=[node for node in found.removable if node.name == first], skipped=late)

    batches = dict.fromkeys(names, batch)
    return confirm_removals(state, batches, {node.name: node for node in found.removable}, look), looks


def test_those_that_were_found_in_time_go_and_nobody_looks_a_third_time() -> None:
    found, looks = look_again(world(), "b-0", "b-1", "a-0")
    assert list(found.batches) == ["b-0"]
    assert found.late == {"b-1": LATE, "a-0": LATE}
    assert found.partial == "time was up: 2 nodes were not looked at once more"
    assert len(looks) == 1


def test_one_that_stays_does_not_keep_the_others_from_being_looked_at_in_every_loop() -> None:
    found, looks = look_again(world(), "b-0", "b-1", "a-0", stuck="b-0")
    assert looks == [["b-0", "b-1", "a-0"], ["b-1", "a-0"]]
    assert list(found.batches) == ["b-1"]
    assert str(found.stay["b-0"]) == "no place, as long as other removable nodes stay"
    assert found.late == {"a-0": LATE}


def test_a_whole_group_waits_for_the_last_of_its_nodes() -> None:
    found, looks = look_again(world(whole=True), "a-0", "a-1", "a-2", batch=3)
    assert (found.batches, len(looks)) == ({}, 1)
    assert found.stay["a-0"].code == UnremovableCode.ATOMIC_FAILED
    assert found.late == {"a-1": LATE, "a-2": LATE}


def test_with_time_enough_nothing_is_partial() -> None:
    found, _ = look_again(world(), "b-0")
    assert (list(found.batches), found.partial) == (["b-0"], "")
