"""Values kept from an earlier loop never change the result of a loop."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from msgspec.structs import replace as changed

from nodewright.clusterstate.state import ClusterState
from nodewright.model.group import FailedInstance, Instance, InstanceState
from nodewright.model.node import NodeCondition, NodeStatus
from nodewright.model.settings import Settings
from nodewright.testkit.world import World, ref

GROUPS = ("a", "b")
CHANGES = ("time", "node", "gone", "deleting", "failed", "joined", "removed", "ready", "stranger", "copy")


def a_world() -> World:
    world = World()
    for group in GROUPS:
        world.add_group(group, size=3, max_size=9)
    return world


def change(world: World, what: str, group: str, number: int) -> None:
    """One thing that may happen between two loops."""
    seen = world.groups[ref(group)]
    instances = list(seen.instances or ())
    if what == "time":
        world.now += 600.0 * number
    elif what == "node" and world.nodes:
        node = world.nodes[number % len(world.nodes)]
        conditions = (NodeCondition(type="Ready", status="False"),)
        world.nodes[number % len(world.nodes)] = changed(node, status=NodeStatus(conditions=conditions))
    elif what == "ready" and world.nodes:
        node = world.nodes[number % len(world.nodes)]
        conditions = (NodeCondition(type="Ready", status="True"),)
        world.nodes[number % len(world.nodes)] = changed(node, status=changed(node.status, conditions=conditions))
    elif what == "removed" and world.nodes:
        world.nodes.pop(number % len(world.nodes))
    elif what == "gone" and instances:
        instances.pop(number % len(instances))
    elif what == "deleting" and instances:
        instances[number % len(instances)] = changed(instances[number % len(instances)], state=InstanceState.DELETING)
    elif what == "joined":
        instances.append(Instance(id=f"cloud:///{group}/new{len(instances)}"))
    elif what == "failed":
        failure = FailedInstance(failure_id=f"f{number}", instance_id=instances[0].id if instances else None)
        seen = replace(seen, failed=(failure,))
    elif what == "copy":
        world.nodes = [changed(node) for node in world.nodes]
    world.groups[ref(group)] = replace(seen, instances=tuple(instances))


@given(st.data())
def test_a_loop_with_what_was_kept_equals_one_without(data: DataObject) -> None:
    world, settings = a_world(), Settings()
    for _ in range(data.draw(st.integers(1, 8))):
        for _ in range(data.draw(st.integers(0, 2))):
            change(
                world,
                data.draw(st.sampled_from(CHANGES)),
                data.draw(st.sampled_from(GROUPS)),
                data.draw(st.integers(0, 4)),
            )
        warm = world.state(settings)
        kept, world.memory = world.memory, replace(world.memory, members=None)
        cold = world.state(settings)
        assert told(warm) == told(cold)
        assert kept.members is None or warm.memory.members is not None
        world.memory = warm.memory


def told(state: ClusterState) -> object:
    return state.groups, state.group_of_node, state.healthy, state.memory


def test_nothing_is_worked_out_again_while_nothing_changes() -> None:
    world = a_world()
    world.memory = world.state().memory
    world.now += 10
    again = world.state().memory
    assert again.members is world.memory.members
    world.nodes.pop()
    assert world.state().memory.members is not again.members


def test_a_machine_belongs_to_the_group_that_is_read_not_to_one_of_another_name_that_is_remembered() -> None:
    world = World()
    world.add_group("a", size=2, max_size=9)
    read = world.groups[ref("a")]
    # It went by that name when the state was saved.
    renamed = replace(read, ref=ref("b"), group=changed(read.group, id="b"))
    world.memory = replace(world.memory, last_known={ref("b"): renamed})
    world.groups[ref("b")] = replace(renamed, target=None, instances=None, problem="not listed")
    state = world.state()
    assert set(state.group_of_node.values()) == {ref("a")}
    assert state.groups[ref("a")].upcoming == 0
