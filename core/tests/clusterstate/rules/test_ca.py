"""Today's CA as measured (docs/behaviour/cluster-state.md#measured): what it does after increases that do not come, traps included."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from nodewright.clusterstate.backoff import is_active
from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.action import DecreaseTargetSize, DeleteInstances, Done, Failed, IncreaseSize, Outcome
from nodewright.model.capability import Capability
from nodewright.model.group import (
    ErrorClass,
    FailedInstance,
    FailureScope,
    GroupOptions,
    Instance,
    InstanceState,
)
from nodewright.model.plan import Plan
from nodewright.planner import make_plan
from nodewright.planner.rules.ca import SIZES_NOT_FIXED
from nodewright.planner.rules.corrections import SIZES_FIXED
from nodewright.testkit.builders import build_node
from nodewright.testkit.world import World, ref, settings_with

G = ref("g")


SETTINGS = settings_with(profile="ca")


SLOW = tuple(Instance(id=f"slow-{n}") for n in range(2))


def loop(world: World, after: float, *outcomes: Outcome, **changes: object) -> tuple[GroupState, Plan]:
    """One loop so many seconds later; the world remembers it."""
    world.now += after
    settings = settings_with(profile="ca", **changes) if changes else SETTINGS
    state: ClusterState = fold(world.memory, world.state(settings).observation, outcomes, settings)
    world.memory = state.memory
    return state.groups[G], make_plan(state, settings, Random(1))[0]


def increase(world: World, by: int) -> Done:
    """The group's target grows by so many, and nothing comes."""
    target = world.groups[G].target or 0
    world.groups[G] = replace(world.groups[G], target=target + by)
    action = IncreaseSize(group=G, expected_target=target, target=target + by)
    return Done(action=action, started=world.now, accepted=by)


def decreases(plan: Plan) -> list[int]:
    return [a.target - a.expected_target for a in plan.actions if isinstance(a, DecreaseTargetSize)]


def world_of(size: int, **extras: Any) -> World:
    world = World()
    world.add_group("g", size, max_size=20, **extras)
    return world


def backed_off(group: GroupState, world: World) -> bool:
    return is_active(group.backoff, world.now)


@pytest.mark.parametrize("target", [3, 5])
def test_an_empty_group_is_stuck_after_a_start(target: int) -> None:
    world = world_of(0, target=target)
    for after in (0, 960):
        group, plan = loop(world, after)
        assert (group.upcoming, group.size_gap, group.healthy, group.requests) == (0, None, False, ())
        assert plan.actions == ()


@pytest.mark.parametrize(("target", "healthy"), [(3, True), (6, False)])
def test_missing_machines_are_withdrawn_a_provision_time_after_a_start(target: int, healthy: bool) -> None:
    world = world_of(1, target=target)
    group, plan = loop(world, 0)
    assert (group.healthy, group.upcoming, decreases(plan)) == (healthy, 0, [])
    assert decreases(loop(world, 900)[1]) == [], "the time must have passed"
    group, plan = loop(world, 1)
    assert decreases(plan) == [1 - target]
    assert plan.cut_short == SIZES_FIXED


def test_what_times_out_is_withdrawn_twice() -> None:
    """Trap 10.2-a: a loop every 7 s sees both clocks run out at once."""
    world = world_of(1)
    outcome = increase(world, 2)
    group, plan = loop(world, 0, outcome)
    assert (group.upcoming, group.healthy) == (2, True)
    while not plan.actions:
        group, plan = loop(world, 7)
    assert world.now - outcome.started == 903
    assert (group.timed_out, group.upcoming, backed_off(group, world)) == (2, 0, True)
    assert decreases(plan) == [-2, -2]
    assert [a.expected_target for a in plan.actions] == [3, 1]
    assert plan.cut_short == SIZES_NOT_FIXED


def test_a_record_that_is_a_moment_younger_is_left_for_the_next_loop() -> None:
    world = world_of(1)
    outcome = increase(world, 2)
    loop(world, 1, outcome)
    _, plan = loop(world, 899.5)
    assert decreases(plan) == [-2]


def test_an_arrival_does_not_lower_what_is_withdrawn() -> None:
    """Trap 10.2-b."""
    world = world_of(0)
    outcome = increase(world, 3)
    loop(world, 1, outcome)
    target = world.groups[G].target
    world.groups.clear()
    world.add_group("g", 2, target=target)
    group, plan = loop(world, 900)
    assert (group.timed_out, decreases(plan)) == (3, [-3])


@pytest.mark.parametrize(
    ("late_by", "timed_out", "removed"), [(5.0, False, ["slow-0", "slow-1"]), (0.5, True, [])], ids=["late", "early"]
)
def test_machines_that_boot_and_never_join_escape_the_backoff(
    late_by: float, timed_out: bool, removed: list[str]
) -> None:
    """Trap 10.2-n: once the machines themselves are overdue, the request counts as finished."""
    world = world_of(0)
    outcome = increase(world, 2)
    world.groups[G] = replace(world.groups[G], instances=SLOW)
    loop(world, 1, outcome)
    group, plan = loop(world, 899 + late_by)
    assert (bool(group.timed_out), backed_off(group, world)) == (timed_out, timed_out)
    assert group.requests == ()
    deleted = [a.instance_ids for a in plan.actions if isinstance(a, DeleteInstances)]
    assert [list(ids) for ids in deleted] == ([removed] if removed else [])


def test_an_empty_group_is_well_a_loop_after_its_revert() -> None:
    world = world_of(0)
    outcome = increase(world, 2)
    assert loop(world, 1, outcome)[0].healthy
    group, plan = loop(world, 900)
    assert (group.healthy, decreases(plan)) == (False, [-2])
    world.groups[G] = replace(world.groups[G], target=0)
    assert loop(world, 10)[0].healthy


def test_an_increase_restarts_the_clock_of_all() -> None:
    """Seed 001, scenario 2."""
    world = world_of(0)
    loop(world, 1, increase(world, 2))
    world.now += 600
    loop(world, 1, increase(world, 1))
    group, plan = loop(world, 400)
    assert (plan.actions, group.upcoming) == ((), 3)
    (request,) = group.requests
    assert (request.increase, request.deadline - request.started) == (3, 900)


@pytest.mark.parametrize("asked", [True, False])
def test_failures_count_while_the_group_is_scaling_up(asked: bool) -> None:
    world = world_of(0, target=0)
    failures = tuple(
        FailedInstance(
            failure_id=f"f{n}",
            instance_id=f"f{n}",
            error_class=ErrorClass.QUOTA,
            scope=FailureScope.ACCOUNT,
            code=f"c{n % 2}",
        )
        for n in range(3)
    )
    creating = tuple(Instance(id=f.failure_id, state=InstanceState.CREATING) for f in failures)
    outcomes = [increase(world, 4)] if asked else []
    world.groups[G] = replace(world.groups[G], target=4, instances=creating, failed=failures)
    world.add_group("other")
    group, plan = loop(world, 1, *outcomes)
    assert len(group.new_failures) == (3 if asked else 0)
    assert backed_off(group, world) is asked
    assert [r.increase for r in group.requests] == ([1] if asked else [])
    assert not world.memory.backoffs.get(ref("other")), "CA knows no scope but the group"
    (deletion,) = plan.actions
    assert isinstance(deletion, DeleteInstances)
    assert len(deletion.instance_ids) == 3, "all are deleted, counted or not"
    assert loop(world, 10)[0].new_failures == ()


def test_a_refused_increase_backs_off_from_the_moment_of_the_call() -> None:
    world = world_of(0)
    action = IncreaseSize(group=G, expected_target=0, target=1)
    refusal = Failed(action=action, started=world.now, code="no", message="no", scope=FailureScope.ACCOUNT)
    world.add_group("other")
    group, _ = loop(world, 60, refusal)
    assert group.backoff is not None
    assert group.backoff.until == refusal.started + 300
    assert not world.memory.backoffs.get(ref("other"))


def test_a_group_that_cannot_be_imagined_is_never_backed_off() -> None:
    """Trap 10.2-d."""
    world = world_of(0, template=None)
    action = IncreaseSize(group=G, expected_target=0, target=1)
    group, _ = loop(world, 1, Failed(action=action, started=world.now, code="no", message="no"))
    assert not backed_off(group, world)


def test_unregistered_machines_go_down_to_the_minimum() -> None:
    world = world_of(0, min_size=1, target=2, instances=SLOW)
    loop(world, 0)
    _, plan = loop(world, 901)
    assert [a.instance_ids for a in plan.actions if isinstance(a, DeleteInstances)] == [("slow-0",)]
    world.groups[G] = replace(world.groups[G], capabilities=frozenset({Capability.FORCE_DELETE}))
    _, plan = loop(world, 1, force_delete_unregistered_nodes=True)
    (deletion,) = (a for a in plan.actions if isinstance(a, DeleteInstances))
    assert (deletion.instance_ids, deletion.force) == (("slow-0", "slow-1"), True)


@pytest.mark.parametrize(
    ("failed", "keeps", "deleted"),
    [
        (("slow-0",), False, [("slow-0", "slow-1")]),
        (("slow-0",), True, []),
        (("slow-0", "slow-1"), True, [("slow-0", "slow-1")]),
    ],
)
def test_one_failure_takes_a_group_that_is_all_or_nothing_with_it(
    failed: tuple[str, ...], keeps: bool, deleted: list[tuple[str, ...]]
) -> None:
    failures = tuple(FailedInstance(failure_id=name, instance_id=name) for name in failed)
    options = GroupOptions(zero_or_max_node_scaling=True, allow_non_atomic_scale_up_to_max=keeps)
    world = world_of(0, target=2, instances=SLOW, failed=failures, options=options)
    _, plan = loop(world, 0)
    assert [a.instance_ids for a in plan.actions if isinstance(a, DeleteInstances)] == deleted


@pytest.mark.parametrize(("registered", "keeps", "deleted"), [(1, False, 1), (1, True, 0), (0, True, 1), (0, False, 1)])
def test_late_machines_of_a_group_that_may_keep_what_came(registered: int, keeps: bool, deleted: int) -> None:
    options = GroupOptions(zero_or_max_node_scaling=True, allow_non_atomic_scale_up_to_max=keeps)
    joined = tuple(Instance(id=f"cloud:///g/{n}") for n in range(registered))
    world = world_of(registered, target=2 + registered, instances=(*joined, *SLOW), options=options)
    loop(world, 0)
    _, plan = loop(world, 901)
    assert sum(isinstance(action, DeleteInstances) for action in plan.actions) == deleted


def test_an_unhealthy_cluster_reverts_and_removes_but_deletes_no_failures() -> None:
    failure = FailedInstance(failure_id="f", instance_id="f")
    world = world_of(0, target=3, instances=(*SLOW, Instance(id="f")), failed=(failure,))
    world.nodes = [build_node(f"n{n}", ready=False) for n in range(4)]
    loop(world, 0)
    _, plan = loop(world, 901)
    assert plan.halted
    assert [a.instance_ids for a in plan.actions if isinstance(a, DeleteInstances)] == [("slow-0", "slow-1")]
