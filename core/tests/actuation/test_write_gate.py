"""What the write gate holds back: deletions beyond the budget, all writes in a pause, ages known from memory alone."""

from dataclasses import replace
from typing import Any

import pytest

from nodewright.actuation import WriteGate
from nodewright.actuation.write_gate import SECOND_LOOK, ChargedDeletions
from nodewright.clusterstate.memory import Memory, MostNodes, ScaleDownMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import DeleteInstances, IncreaseSize
from nodewright.model.group import FailedInstance
from nodewright.model.plan import HeldBack, Plan, PlannedAction, ScaleDownReport
from nodewright.model.reason import ScaleDownResult
from nodewright.model.removal import NodeRemoval, RemovalReason
from nodewright.model.settings import SafetySettings
from nodewright.testkit.world import NOW, World, ref

A, B = ref("a"), ref("b")


def state_of(*, a: int = 0, b: int = 0, **memory: Any) -> ClusterState:
    world = World()
    world.add_group("a", a, max_size=5000)
    world.add_group("b", b, max_size=5000)
    return replace(world.state(), memory=Memory(**memory))


def deletion(count: int, group: Any = A, start: int = 0) -> DeleteInstances:
    ids = tuple(f"cloud:///{group.group_id}/{n}" for n in range(start, start + count))
    return DeleteInstances(group=group, expected_target=count, instance_ids=ids, reason="r")


def restrain(state: ClusterState, *actions: PlannedAction, **settings: Any) -> tuple[Plan, dict[Any, float]]:
    gate = WriteGate(settings=SafetySettings(**settings))
    plan, charged = gate.apply(Plan(actions=actions), state)
    return plan, dict(charged.deletions)


def deleted(plan: Plan) -> list[int]:
    return [len(action.instance_ids) for action in plan.actions if isinstance(action, DeleteInstances)]


def test_ten_machines_in_a_small_cluster() -> None:
    plan, charged = restrain(state_of(a=30), deletion(12))
    assert deleted(plan) == [10]
    assert charged == {(A, f"cloud:///a/{n}"): NOW for n in range(10)}
    (held,) = plan.held_back
    assert held == HeldBack(
        action=DeleteInstances(
            group=A, expected_target=12, instance_ids=("cloud:///a/10", "cloud:///a/11"), reason="r"
        ),
        reason="the deletion budget of group cloud/a is used up: 10 machines within 10m",
        until=NOW + 600,
        event="DeletionBudgetExhausted",
    )


def test_five_percent_of_a_large_one_of_each_group_and_of_all() -> None:
    state = state_of(a=400, b=400)
    plan, _ = restrain(state, deletion(30, A), deletion(30, B))
    assert deleted(plan) == [20, 20]
    assert [held.reason for held in plan.held_back] == [
        "the deletion budget of group cloud/a is used up: 20 machines within 10m",
        "the deletion budget of group cloud/b is used up: 20 machines within 10m",
    ]


def test_the_cluster_has_a_budget_of_its_own() -> None:
    plan, _ = restrain(state_of(a=50, b=50), deletion(8, A), deletion(8, B))
    assert deleted(plan) == [8, 2]
    assert plan.held_back[0].reason == "the deletion budget of the cluster is used up: 10 machines within 10m"


def test_a_number_that_somebody_chose() -> None:
    plan, _ = restrain(state_of(a=400), deletion(30), max_deletions_per_window=3, deletion_window=90)
    assert deleted(plan) == [3]
    assert plan.held_back[0].until == NOW + 90
    assert plan.held_back[0].reason.endswith("3 machines within 1m30s")


def test_no_window_no_limit() -> None:
    plan, _ = restrain(state_of(a=400), deletion(300), deletion_window=0)
    assert deleted(plan) == [300]
    assert plan.held_back == ()


def test_earlier_deletions_count_until_they_leave_the_window() -> None:
    earlier = {(A, f"gone-{n}"): NOW - 100 - n for n in range(7)}
    plan, charged = restrain(state_of(a=30, deletions=earlier), deletion(9))
    assert deleted(plan) == [3]
    assert plan.held_back[0].until == NOW - 106 + 600
    assert len(charged) == 10


def test_a_machine_is_charged_once() -> None:
    first, charged = restrain(state_of(a=30), deletion(10))
    earlier = dict.fromkeys(charged, NOW - 300)
    again, after = restrain(state_of(a=30, deletions=earlier), deletion(11))
    assert deleted(first) == deleted(again) == [10]
    assert after == charged


def test_what_never_ran_is_free() -> None:
    never = frozenset((A, f"cloud:///a/{n}") for n in range(40))
    plan, charged = restrain(state_of(never_ran=never), deletion(40))
    assert deleted(plan) == [40]
    assert charged == {}


def failures(count: int) -> tuple[FailedInstance, ...]:
    return tuple(FailedInstance(failure_id=f"f-{n}", instance_id=f"cloud:///a/{n}") for n in range(count))


def clean_up(count: int) -> DeleteInstances:
    return DeleteInstances(
        group=A,
        expected_target=count,
        reason="failed",
        instance_ids=tuple(failure.instance_id or "" for failure in failures(count)),
        failure_ids=tuple(failure.failure_id for failure in failures(count)),
    )


def test_a_failed_creation_is_free_and_a_node_called_failed_is_not() -> None:
    world = World()
    world.add_group("a", 0, max_size=100, target=40, failed=failures(40))
    plan, charged = restrain(world.state(), clean_up(40))
    assert (deleted(plan), charged) == ([40], {})

    world = World()
    world.add_group("a", 40, max_size=100, failed=failures(40))
    plan, charged = restrain(world.state(), clean_up(40))
    assert deleted(plan) == [10]
    (action,) = plan.actions
    assert isinstance(action, DeleteInstances)
    assert action.failure_ids == tuple(f"f-{n}" for n in range(10))
    assert len(charged) == 10


def test_nothing_else_stops() -> None:
    used = {(A, f"gone-{n}"): NOW for n in range(10)}
    growth = IncreaseSize(group=B, expected_target=0, target=5)
    plan, _ = restrain(state_of(a=30, deletions=used), deletion(1), growth)
    assert plan.actions == (growth,)
    assert [held.action for held in plan.held_back] == [deletion(1)]


def test_a_pause_holds_everything() -> None:
    growth = IncreaseSize(group=B, expected_target=0, target=5)
    gate = WriteGate(paused="paused until noon", paused_until=NOW + 60)
    plan, charged = gate.apply(Plan(actions=(deletion(2), growth)), state_of(a=30))
    assert plan.actions == ()
    assert plan.paused == "paused until noon"
    assert [(held.action, held.reason, held.until) for held in plan.held_back] == [
        (deletion(2), "paused until noon", NOW + 60),
        (growth, "paused until noon", NOW + 60),
    ]
    assert charged == ChargedDeletions(deletions={}, empty={})


@pytest.mark.parametrize("has_looked", [True, False])
def test_a_new_engine_deletes_nothing_for_its_age_at_first_sight(has_looked: bool) -> None:
    world = World()
    world.add_group("a", 0, max_size=100, target=3, failed=failures(3))
    state = world.state()
    growth = IncreaseSize(group=B, expected_target=0, target=5)
    plan, _ = WriteGate(has_looked=has_looked).apply(Plan(actions=(deletion(2), clean_up(3), growth)), state)
    assert plan.actions[-2:] == (clean_up(3), growth)
    assert (deletion(2) in plan.actions) == has_looked
    assert [(held.reason, held.event) for held in plan.held_back] == ([] if has_looked else [(SECOND_LOOK, "")])


# Removals


def removal(number: int, batch: int = 1, reason: RemovalReason = RemovalReason.UNDERUTILIZED) -> NodeRemoval:
    name = f"cloud:///a/{number}"
    return NodeRemoval(node=f"n{number}", group=A, instance_id=name, reason=reason, batch=batch)


def removing(*removals: NodeRemoval, state: ClusterState, gate: WriteGate) -> tuple[Plan, int]:
    """The plan that is left, and how many machines are charged."""
    report = ScaleDownReport(result=ScaleDownResult.STARTED, removals=removals)
    plan, charged = gate.apply(Plan(scale_down=report), state)
    return plan, len(charged.deletions)


def allowed_removals(
    state: ClusterState, *removals: NodeRemoval, **settings: Any
) -> tuple[list[str], Plan, ChargedDeletions]:
    report = ScaleDownReport(result=ScaleDownResult.STARTED, removals=removals)
    plan, charged = WriteGate(settings=SafetySettings(**settings)).apply(Plan(scale_down=report), state)
    return [one.node for one in plan.scale_down.removals], plan, charged


def empty_nodes(count: int, start: int = 0) -> list[NodeRemoval]:
    return [removal(number, reason=RemovalReason.EMPTY) for number in range(start, start + count)]


def test_empty_nodes_have_a_budget_of_their_own() -> None:
    used = {(A, f"gone-{n}"): NOW for n in range(10)}
    nodes, _, charged = allowed_removals(state_of(a=60, deletions=used), *empty_nodes(50), removal(55))
    assert nodes == [f"n{number}" for number in range(50)]
    assert charged.deletions == used
    assert charged.empty.keys() == {(A, f"cloud:///a/{number}") for number in range(50)}


def test_an_unready_node_without_pods_is_no_empty_node() -> None:
    used = {(A, f"gone-{n}"): NOW for n in range(10)}
    nodes, _, _ = allowed_removals(state_of(a=60, deletions=used), removal(0, reason=RemovalReason.UNREADY))
    assert nodes == []


def test_a_quarter_of_the_nodes_of_late_goes_within_a_minute() -> None:
    """Of those of late: the share does not shrink with each deletion."""
    nodes, plan, charged = allowed_removals(state_of(a=400), *empty_nodes(150))
    assert (len(nodes), len(charged.empty)) == (100, 100)
    (held,) = plan.held_back
    assert held.reason == "the deletion budget for empty nodes of the cluster is used up: 100 machines within 1m"
    assert (held.until, held.event) == (NOW + 60, "")
    memory = ScaleDownMemory(most_nodes=MostNodes(nodes=600, at=NOW - 300))
    assert len(allowed_removals(state_of(a=400, scale_down=memory), *empty_nodes(200))[0]) == 150


def test_the_budget_of_empty_nodes_is_a_setting() -> None:
    nodes, plan, _ = allowed_removals(
        state_of(a=400), *empty_nodes(5), max_empty_deletions_per_window=3, empty_deletion_window=90
    )
    assert (len(nodes), plan.held_back[0].until) == (3, NOW + 90)
    nodes, plan, charged = allowed_removals(state_of(a=400), *empty_nodes(300), empty_deletion_window=0)
    assert (len(nodes), plan.held_back, charged.empty) == (300, (), {})


def test_removals_are_charged_like_deletions() -> None:
    gate = WriteGate(settings=SafetySettings(max_deletions_per_window=2))
    plan, charged = removing(*map(removal, range(3)), state=state_of(a=5), gate=gate)
    assert [one.node for one in plan.scale_down.removals] == ["n0", "n1"]
    assert charged == 2
    (held,) = plan.held_back
    assert held.action == DeleteInstances(
        group=A, expected_target=5, instance_ids=("cloud:///a/2",), reason="scale-down: underutilized"
    )


def test_a_whole_group_is_charged_at_once() -> None:
    gate = WriteGate(settings=SafetySettings(max_deletions_per_window=3))
    whole = [removal(n, batch=3) for n in range(3)]
    used = state_of(a=5, deletions={(A, "cloud:///a/4"): NOW})
    plan, charged = removing(*whole, state=used, gate=gate)
    assert (plan.scale_down.removals, charged) == ((), 1)
    assert plan.scale_down.result == ScaleDownResult.NO_NODE_DELETED
    plan, charged = removing(*whole, state=state_of(a=5), gate=gate)
    assert (len(plan.scale_down.removals), charged) == (3, 3)


def test_a_whole_group_beyond_the_budget_goes_when_nothing_else_went() -> None:
    gate = WriteGate(settings=SafetySettings(max_deletions_per_window=2))
    whole = [removal(n, batch=3) for n in range(3)]
    plan, charged = removing(*whole, state=state_of(a=5), gate=gate)
    assert (len(plan.scale_down.removals), charged) == (3, 3)


def test_in_a_pause_no_removal_begins() -> None:
    gate = WriteGate(paused="paused until noon", paused_until=NOW + 60)
    plan, charged = removing(removal(0), state=state_of(a=5), gate=gate)
    assert (plan.scale_down.removals, charged) == ((), 0)
    assert plan.scale_down.result == ScaleDownResult.NO_NODE_DELETED
    assert [held.until for held in plan.held_back] == [NOW + 60]
