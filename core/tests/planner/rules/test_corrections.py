"""What is done about machines that fail, never come or never join (docs/adr/0006-size-correction.md)."""

from dataclasses import replace

import pytest

from nodewright.clusterstate.memory import Memory, ScaleUpRequest
from nodewright.model.action import DecreaseTargetSize, DeleteInstances
from nodewright.model.group import FailedInstance, GroupOptions, Instance
from nodewright.model.plan import Plan
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import World, grown, ref

G = ref("g")


def overdue(world: World, machines: int) -> None:
    """A request of the group that has run out of time."""
    late = ScaleUpRequest(increase=machines, started=world.now - 901, deadline=world.now - 1)
    world.memory = Memory(requests={G: (late,)})


def corrections(plan: Plan) -> list[DecreaseTargetSize | DeleteInstances]:
    return [action for action in plan.actions if isinstance(action, DecreaseTargetSize | DeleteInstances)]


def test_what_never_came_is_withdrawn_and_planned_elsewhere_in_the_loop_of_the_timeout() -> None:
    world = World(pending=[build_pod(f"p{k}", cpu="4") for k in range(2)])
    world.add_group("g", cpu="4", target=2, instances=())
    world.add_group("other", cpu="64")
    overdue(world, 2)
    plan = world.plan()
    assert [(c.expected_target, c.target) for c in corrections(plan) if isinstance(c, DecreaseTargetSize)] == [(2, 0)]
    assert grown(plan) == {"other": (0, 1)}


def test_only_what_has_no_machine_is_withdrawn() -> None:
    world = World()
    world.add_group("g", size=1, target=4, instances=(Instance(id="cloud:///g/0"), Instance(id="cloud:///g/x")))
    overdue(world, 3)
    (found,) = corrections(world.plan())
    assert isinstance(found, DecreaseTargetSize)
    assert (found.expected_target, found.target) == (4, 2)


def test_machines_that_never_joined_are_deleted_by_id() -> None:
    world = World()
    world.add_group("g", size=1, target=2, instances=(Instance(id="cloud:///g/0"), Instance(id="cloud:///g/x")))
    world.memory = Memory(unregistered_since={(G, "cloud:///g/x"): world.now - 1800})
    assert corrections(world.plan()) == [], "it may be late, as an arrival may"
    world.now += 1
    (found,) = corrections(world.plan())
    assert isinstance(found, DeleteInstances)
    assert found.instance_ids == ("cloud:///g/x",)


def test_a_group_that_is_all_or_nothing_loses_all_machines_that_never_joined_at_once() -> None:
    world = World()
    ids = ("x", "y", "z")
    whole = GroupOptions(zero_or_max_node_scaling=True)
    world.add_group("g", target=3, max_size=3, instances=tuple(Instance(id=i) for i in ids), options=whole)
    world.memory = Memory(unregistered_since=dict.fromkeys(((G, i) for i in ids), world.now - 1801))
    (found,) = corrections(world.plan())
    assert isinstance(found, DeleteInstances)
    assert found.instance_ids == ids


@pytest.mark.parametrize(
    ("most", "waiting", "correction", "doomed"),
    [(2, 0, "prompt", 0), (2, 1, "prompt", 0), (3, 1, "prompt", 0), (3, 0, "seed", 1)],
)
def test_a_machine_that_is_late_is_left_while_its_group_is_backed_off(
    most: int, waiting: int, correction: str, doomed: int
) -> None:
    world = World(pending=[build_pod(f"p{k}", cpu="64") for k in range(waiting)])
    machines = (Instance(id="cloud:///g/0"), Instance(id="cloud:///g/x"))
    world.add_group("g", size=1, target=2, max_size=most, instances=machines)
    world.memory = Memory(unregistered_since={(G, "cloud:///g/x"): world.now - 901})
    assert len(corrections(world.plan(size_correction=correction))) == doomed


def test_a_withdrawal_is_not_repeated_every_loop() -> None:
    world = World()
    world.add_group("g", target=2, instances=())
    world.memory = Memory(given_up={G: 2}, withdrawn_at={G: world.now - 10})
    assert corrections(world.plan()) == []
    world.memory = replace(world.memory, withdrawn_at={G: world.now - 301})
    assert len(corrections(world.plan())) == 1


def test_an_unhealthy_cluster_loses_only_what_never_joined() -> None:
    world = World(pending=[build_pod("p", cpu="4")])
    world.add_group("sick", size=8, ready=False)
    world.add_group("g", target=1, instances=(Instance(id="x"),), failed=())
    world.add_group("bad", target=1, instances=(Instance(id="y"),), failed=(FailedInstance(failure_id="y"),))
    world.memory = Memory(unregistered_since={(G, "x"): world.now - 1801})
    plan = world.plan()
    assert plan.halted
    assert [action.group for action in plan.actions] == [G]


def test_a_group_that_cannot_be_read_is_not_written_to() -> None:
    world = World()
    world.add_group("g", target=2, instances=())
    world.memory = world.state().memory
    world.groups[G] = replace(world.groups[G], target=None, instances=None, problem="no answer")
    world.now += 10_000
    assert world.plan().actions == ()


def test_a_group_that_is_being_corrected_is_not_asked_in_the_same_loop() -> None:
    """Its increase would expect the target that the correction is about to change."""
    world = World(pending=[build_pod("p", cpu="4")])
    world.add_group("g", cpu="4", target=2, instances=())
    world.memory = Memory(given_up={G: 2})
    plan = world.plan()
    assert [type(action) for action in plan.actions] == [DecreaseTargetSize]
    assert str(plan.scale_up.skipped[G]) == "its size is being corrected in this loop"
    world.add_group("other", cpu="4")
    assert grown(world.plan()) == {"other": (0, 1)}
