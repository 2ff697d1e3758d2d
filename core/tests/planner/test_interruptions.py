"""The decisions about nodes whose machine a cloud is about to take, as pure functions of one state."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from nodewright.clusterstate.memory import HeldNotice
from nodewright.model.disruption import Budget, DisruptionConfig, DisruptionReason
from nodewright.model.errors import ConfigError
from nodewright.model.gang import GangPolicy, PodGroupSpec, SchedulingPodGroup, SchedulingPolicy
from nodewright.model.group import FailureScope
from nodewright.model.interruption import Interruption, InterruptionKind, parse_signals
from nodewright.model.meta import ObjectMeta
from nodewright.model.pod import SchedulingGroup
from nodewright.model.removal import NodeRemoval, RemovalReason
from nodewright.model.settings import DrainSettings
from nodewright.planner.interruptions import TURN_SECONDS, drain_at, find_interruptions, plan_drains
from nodewright.planner.scale_up.pending_pods import Hints, hint_key
from nodewright.testkit import build_pod
from nodewright.testkit.world import NOW, PROVIDER, World, grown, ref, settings_with
from nodewright.validate.removals import check_removals

ON = {"scale_down_enabled": False, "expander": "price"}


def notice(number: int, group: str = "spot", **fields: Any) -> Interruption:
    told = {"kind": InterruptionKind.RECLAIM, "deadline": NOW + 120, "scope": FailureScope.GROUP, **fields}
    return Interruption(id=f"{group}-{number}", instance_id=f"cloud:///{group}/{number}", **told)


def world(*notices: Interruption, size: int = 3, **group: Any) -> World:
    """A pod on each node of spot takes the whole node; the group other is dearer."""
    made = World()
    made.add_group("spot", size, hourly_price=0.1, **group)
    made.add_group("other", 0, hourly_price=0.2)
    made.running += [build_pod(f"p{n}", "3", node_name=f"spot-{n}") for n in range(size)]
    made.provider = replace(made.provider, interruptions=notices)
    return made


def removals(made: World, **settings: Any) -> Sequence[NodeRemoval]:
    return made.plan(**{**ON, **settings}).scale_down.removals


def test_one_plan_buys_for_all_notices_outside_their_scope() -> None:
    made = world(notice(0), notice(1))
    assert grown(made.plan(**ON)) == {"other": (0, 2)}
    assert removals(made) == ()


def test_a_notice_about_one_machine_alone_leaves_its_group_open() -> None:
    assert grown(world(notice(0, scope=None)).plan(**ON)) == {"spot": (3, 4)}


def test_a_recommendation_bars_the_pool_for_its_own_pods_alone() -> None:
    made = world(notice(0, kind=InterruptionKind.REBALANCE, deadline=None))
    made.groups.pop(ref("other"))
    follows = {**ON, "replace_on_rebalance": True}
    assert grown(made.plan(**follows)) == {}
    made.pending.append(build_pod("waits", "2"))
    assert grown(made.plan(**follows)) == {"spot": (3, 4)}


def test_a_short_notice_drains_at_once() -> None:
    (removal,) = removals(world(notice(0, deadline=NOW + 59)))
    assert (removal.node, removal.reason, removal.deadline) == ("spot-0", RemovalReason.INTERRUPTED, NOW + 59)
    assert removal.deletes


def test_at_its_minimum_a_group_loses_no_machine_by_us() -> None:
    (removal,) = removals(world(notice(0, deadline=NOW + 30), min_size=3))
    assert not removal.deletes
    # Without a deadline the cloud may leave the machine alone.
    broken = notice(0, kind=InterruptionKind.UNHEALTHY, deadline=None)
    made = world(broken, min_size=3)
    made.add_group("room", 1)
    assert removals(made) == ()


@pytest.mark.parametrize(("taken", "deletes"), [((), True), (("spot-2",), False)])
def test_removals_of_the_same_plan_count_for_the_minimum_of_the_group(taken: tuple[str, ...], *, deletes: bool) -> None:
    state = world(notice(0, deadline=NOW + 30), size=3, min_size=2).state()
    found = find_interruptions(state, settings_with().pods)
    (removal,), _ = plan_drains(state, found, Hints(), set(taken), DrainSettings())
    assert removal.deletes == deletes


def test_pods_that_no_controller_creates_again_run_until_the_last_moment() -> None:
    made = world(notice(0), size=1)
    made.running[0] = build_pod("bare", "1", node_name="spot-0", owner=None)
    assert removals(made) == ()
    made.provider = replace(made.provider, interruptions=(notice(0, deadline=NOW + 30),))
    assert [removal.node for removal in removals(made)] == ["spot-0"]


def held_by_budget(made: World, nodes: int, now: float = 3 * TURN_SECONDS) -> frozenset[str]:
    made.now = now
    state = made.state()
    budgets = DisruptionConfig(disruption=(Budget(nodes=nodes, reasons=(DisruptionReason.INTERRUPTED,)),))
    state = replace(state, observation=replace(state.observation, disruption=budgets))
    return find_interruptions(state, settings_with().pods).held


def test_a_node_whose_pods_never_get_room_does_not_keep_its_place_of_a_budget() -> None:
    broken = [notice(n, kind=InterruptionKind.UNHEALTHY, deadline=None) for n in range(3)]
    made, names = world(*broken), {f"spot-{n}" for n in range(3)}
    turns = [names - held_by_budget(made, 1, (3 + turn) * TURN_SECONDS) for turn in range(4)]
    assert turns == [{"spot-0"}, {"spot-1"}, {"spot-2"}, {"spot-0"}]


def test_only_nodes_that_can_be_drained_take_a_place_of_a_budget() -> None:
    broken = [notice(n, kind=InterruptionKind.UNHEALTHY, deadline=None) for n in range(3)]
    assert held_by_budget(world(*broken), nodes=1) == {"spot-1", "spot-2"}
    # After spot-0 the group is at its minimum.
    assert held_by_budget(world(*broken, min_size=2), nodes=2) == frozenset()
    made = world(*broken)
    made.running[0] = build_pod("bare", "1", node_name="spot-0", owner=None)
    assert held_by_budget(made, nodes=1) == {"spot-2"}


@pytest.mark.parametrize(
    ("least", "deadline", "kept"), [(2, None, {0, 2}), (2, NOW + 120, {1, 2}), (3, None, {0, 1, 2})]
)
def test_a_gang_keeps_its_nodes_from_drains_that_together_leave_it_too_few_pods(
    least: int, deadline: float | None, kept: set[int]
) -> None:
    """At this time it is the turn of the second node, unless the cloud takes the first in any case."""
    deadlines = (deadline, None, None)
    made = world(*(notice(n, kind=InterruptionKind.UNHEALTHY, deadline=at) for n, at in enumerate(deadlines)))
    policy = SchedulingPolicy(gang=GangPolicy(min_count=least))
    meta = ObjectMeta(name="gang", namespace="default")
    made.pod_groups = [SchedulingPodGroup(metadata=meta, spec=PodGroupSpec(scheduling_policy=policy))]
    gang = SchedulingGroup(pod_group_name="gang")
    made.running = [structs.replace(pod, spec=structs.replace(pod.spec, scheduling_group=gang)) for pod in made.running]
    assert find_interruptions(made.state(), settings_with().pods).held == {f"spot-{n}" for n in kept}


@pytest.mark.parametrize(
    ("left", "grace", "expected"),
    [(120, 30, 120 - 35), (120, 200, 120 - 205), (59, 10, 0), (60, 10, 45), (None, 30, float("inf"))],
)
def test_the_drain_begins_when_only_the_grace_period_is_left(left: float | None, grace: int, expected: float) -> None:
    deadline = NOW + left if left is not None else None
    told = HeldNotice(instance_id="i", id="n", kind=InterruptionKind.RECLAIM, since=NOW, deadline=deadline)
    pods = [build_pod("a", grace_seconds=grace), build_pod("b", grace_seconds=1)]
    assert drain_at(told, pods, DrainSettings()) - NOW == expected


def test_no_drain_is_forced_that_nothing_tells_of() -> None:
    made, settings = world(notice(0)), settings_with()
    forced = {
        n: NodeRemoval(
            node=f"spot-{n}",
            group=ref("spot"),
            instance_id=f"cloud:///spot/{n}",
            reason=RemovalReason.INTERRUPTED,
            deadline=NOW + 120,
        )
        for n in (0, 1)
    }
    seen = made.state(settings).observation
    assert check_removals(seen, [forced[0]], {}, settings) == ()
    (violation,) = check_removals(seen, [forced[1]], {}, settings)
    assert "announces an interruption" in violation.rule


def test_notices_are_kept_while_their_provider_cannot_be_read() -> None:
    made = world(notice(0))
    made.memory = made.state().memory
    made.provider = replace(made.provider, interruptions=(), problem="unavailable")
    assert [one.instance_id for one in made.state().memory.notices[ref("spot")]] == ["cloud:///spot/0"]
    made.provider = replace(made.provider, problem="")
    assert made.state().memory.notices == {}
    assert made.provider.name == PROVIDER


def test_a_deadline_does_not_move_on_when_a_notice_is_told_again() -> None:
    made = world(notice(0))
    made.memory = made.state().memory
    made.now += 30
    made.provider = replace(made.provider, interruptions=(notice(0, deadline=NOW + 500),))
    (held,) = made.state().memory.notices[ref("spot")]
    assert (held.since, held.deadline) == (NOW, NOW + 120)


@pytest.mark.parametrize("text", ["", "taint", "taint:=reclaim", "taint:a=b", "label:a=reclaim", "taint:a=reclaim:x"])
def test_what_is_no_signal_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_signals([text])


def test_no_pod_goes_to_a_node_that_leaves() -> None:
    made = world(notice(0), notice(1), size=2)
    made.running = [build_pod("small", "1", node_name="spot-0")]
    made.pending = [build_pod("waits", "1")]
    assert grown(made.plan(**ON)) == {"other": (0, 1)}


@pytest.mark.parametrize(("taken", "drained"), [((), ["spot-0"]), (("spot-2",), ["spot-0"]), (("spot-1",), [])])
def test_no_drain_relies_on_a_node_that_the_same_plan_removes(taken: tuple[str, ...], drained: list[str]) -> None:
    state = world(notice(0, kind=InterruptionKind.UNHEALTHY, deadline=None)).state()
    found = find_interruptions(state, settings_with().pods)
    hints = Hints(fresh={hint_key(pod): "spot-1" for pod in found.demand})
    removals, (leaving,) = plan_drains(state, found, hints, set(taken), DrainSettings())
    assert [removal.node for removal in removals] == drained
    assert leaving.has_room == bool(drained)
