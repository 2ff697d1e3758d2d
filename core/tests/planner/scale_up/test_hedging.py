"""Plans with machines that are bought twice: against whom, how many, and when the surplus is withdrawn."""

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from nodewright.clusterstate.memory import ArrivalHistory, Bin, Memory, PlannedPods, ScaleUpRequest
from nodewright.model.action import DecreaseTargetSize, IncreaseSize
from nodewright.model.gang import GangPolicy, PodGroupSpec, SchedulingPodGroup, SchedulingPolicy
from nodewright.model.group import GroupOptions, NodeGroup
from nodewright.model.meta import ObjectMeta
from nodewright.model.plan import Plan
from nodewright.model.pod import Pod, SchedulingGroup
from nodewright.planner.late_machines import silence_deadlines
from nodewright.planner.scale_up.hedging import HEDGE_IS_OVER
from nodewright.snapshot.pod_class import kind_of
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import NOW, World, grown, ref, settings_with
from nodewright.validate import check_actions

ON = {"hedging": "on", "expander": "price"}


HEDGE = ScaleUpRequest(
    increase=3, started=NOW - 60, deadline=NOW + 840, accepted=True, hedged=2, hedge_for=(ref("cheap"),)
)


def pods(count: int, name: str = "web", **extras: Any) -> list[Pod]:
    return [
        build_pod(f"{name}-{n}", cpu="4", owner=("ReplicaSet", name), created_at=NOW - 400, **extras)
        for n in range(count)
    ]


def request(machines: int, ago: float = 301, **extras: Any) -> ScaleUpRequest:
    return ScaleUpRequest(increase=machines, started=NOW - ago, deadline=NOW - ago + 900, **extras)


def silent(machines: int = 2, waiting: int = 2, ago: float = 301, memory: Memory | None = None, **cheap: Any) -> World:
    """One cheap group that owes machines and one dear one, both without nodes."""
    memory = memory or Memory(requests={ref("cheap"): (request(machines, ago),)})
    world = World(pending=pods(waiting), memory=memory)
    world.add_group("cheap", cpu="4", hourly_price=0.1, max_size=100, target=machines, instances=(), **cheap)
    world.add_group("dear", cpu="4", hourly_price=1.0, max_size=100)
    return world


def plan(world: World, **changes: object) -> Plan:
    """The plan, which the independent check accepts."""
    changes = {**ON, **changes}
    found = world.plan(**changes)
    assert check_actions(world.state().observation, found.actions, settings_with(**changes)) == ()
    return found


def hedges(found: Plan) -> dict[str, int]:
    increases = (action for action in found.actions if isinstance(action, IncreaseSize))
    return {action.group.group_id: action.hedged for action in increases if action.hedged}


def test_a_group_is_silent_beyond_the_delay_and_not_before() -> None:
    assert grown(plan(silent(ago=300))) == {}
    found = plan(silent(ago=301))
    assert grown(found) == {"dear": (0, 2)}
    (increase,) = found.actions
    assert isinstance(increase, IncreaseSize)
    assert (increase.hedged, increase.hedge_for) == (2, (ref("cheap"),))
    assert increase.reason == "hedged because group cloud/cheap has been silent for 5m1s"
    assert found.hedge is not None
    assert (len(found.hedge.triggered), found.hedge.unhelped, found.hedge.awaiting) == (2, (), ())
    assert len(found.fitting) == 2, "they fit on machines that are on their way"


@pytest.mark.parametrize(
    "changes", [{"hedging": "off"}, {"hedging": "auto"}, {"size_correction": "seed"}, {"profile": "ca"}]
)
def test_it_can_be_off(changes: dict[str, object]) -> None:
    assert hedges(silent().plan(**{**ON, **changes})) == {}


def test_in_mode_auto_the_percentile_of_the_group_counts_and_then_that_of_the_others() -> None:
    settings = settings_with(max_node_provision_time="auto")
    slow = ArrivalHistory(recent=(Bin(50, 98), Bin(60, 2)), held=600, held_at=NOW)
    fast = ArrivalHistory(recent=(Bin(10, 15),), before=(Bin(51, 15),), held=300, held_at=NOW)
    state = silent(ago=100).state(settings)
    few = ArrivalHistory(recent=(Bin(51, 29),))
    expected = [
        ({}, 300.0),
        ({"cheap": slow, "dear": fast}, 1.1**60),
        ({"cheap": fast, "dear": slow}, 1.1**51),
        ({"cheap": few, "dear": slow}, 1.1**60),
        ({"dear": few}, 300.0),
        ({"dear": ArrivalHistory(recent=(Bin(10, 100),))}, 120.0),
    ]
    for histories, seconds in expected:
        arrivals = {ref(group_id): history for group_id, history in histories.items()}
        known = dataclasses.replace(state, memory=dataclasses.replace(state.memory, arrivals=arrivals))
        assert list(silence_deadlines(known, settings.failures, settings.policy)) == [
            pytest.approx(NOW - 100 + seconds)
        ]
    without = settings_with()
    assert list(silence_deadlines(state, without.failures, without.policy)) == []


@pytest.mark.parametrize(("joined", "hedged"), [(NOW - 301, {"dear": 2}), (NOW - 300, {})])
def test_a_node_that_has_just_joined_ends_the_silence(joined: float, hedged: dict[str, int]) -> None:
    world = World(pending=pods(2), memory=Memory(requests={ref("cheap"): (request(2, 400),)}))
    world.add_group("cheap", size=1, hourly_price=0.1, max_size=9, target=3, created_at=joined)
    world.add_group("dear", hourly_price=1.0, max_size=9)
    world.running = [build_pod("busy", cpu="4", node_name="cheap-0")]
    assert hedges(plan(world)) == hedged


@pytest.mark.parametrize(("most", "hedged"), [("10%", 2), ("7", 7), ("50", 20), ("0", 0)])
def test_what_is_bought_twice_is_bounded(most: str, hedged: int) -> None:
    found = plan(silent(20, 20), max_hedged_nodes=most)
    assert sum(hedges(found).values()) == hedged


def test_a_share_counts_the_nodes_of_the_cluster() -> None:
    world = silent(20, 20)
    world.add_group("old", size=50, cpu="1", max_size=50)
    assert sum(hedges(plan(world)).values()) == 5


def test_machines_in_doubt_that_were_replaced_already_use_up_the_bound() -> None:
    """Of five, three pods have a place elsewhere by now: those machines are the surplus."""
    assert hedges(plan(silent(5, 2), max_hedged_nodes="4")) == {"dear": 1}


def test_the_machines_of_a_hedge_take_its_pods() -> None:
    hedge = replace(HEDGE, increase=2)
    world = World(pending=pods(2), memory=Memory(requests={ref("cheap"): (request(2),), ref("dear"): (hedge,)}))
    world.add_group("cheap", cpu="4", hourly_price=0.1, max_size=100, target=2, instances=())
    world.add_group("dear", cpu="4", hourly_price=1.0, max_size=100, target=2, instances=())
    assert plan(world).actions == ()


def test_new_pods_pass_a_silent_group_by_and_share_a_call_with_hedges() -> None:
    found = plan(silent(2, 5))
    assert grown(found) == {"dear": (0, 5)}
    assert hedges(found) == {"dear": 2}


def test_a_hedge_is_remembered_as_bought_for_its_pods() -> None:
    _, memory = silent().plan_and_memory(**ON)
    (purchase,) = memory.purchases[ref("dear")].values()
    assert purchase.asked == NOW


def test_a_hedge_counts_towards_the_minimum_size() -> None:
    world = silent()
    world.groups[ref("dear")] = dataclasses.replace(
        world.groups[ref("dear")], group=NodeGroup(id="dear", min_size=3, max_size=100)
    )
    found = plan(world, enforce_node_group_min_size=True)
    increases = [action for action in found.actions if isinstance(action, IncreaseSize)]
    assert [(action.group, action.expected_target, action.target) for action in increases] == [
        (ref("dear"), 0, 2),
        (ref("dear"), 2, 3),
    ]


def test_pods_with_no_other_place_get_what_they_need_of_the_silent_group() -> None:
    world = silent(2, 0, labels={"pool": "cheap"})
    world.pending = pods(3, node_selector={"pool": "cheap"})
    assert grown(plan(world)) == {"cheap": (2, 3)}


@pytest.mark.parametrize("options", [GroupOptions(zero_or_max_node_scaling=True)])
def test_groups_of_all_or_nothing_take_no_part(options: GroupOptions) -> None:
    assert plan(silent(options=options)).actions == ()
    world = World(pending=pods(2), memory=Memory(requests={ref("cheap"): (request(2),)}))
    world.add_group("cheap", cpu="4", hourly_price=0.1, max_size=100, target=2, instances=())
    world.add_group("dear", cpu="4", hourly_price=1.0, max_size=2, options=options)
    assert plan(world).actions == ()


def test_machines_of_a_request_of_all_or_nothing_are_not_in_doubt() -> None:
    assert plan(silent(memory=Memory(requests={ref("cheap"): (request(2, atomic=True),)}))).actions == ()


@pytest.mark.parametrize(
    ("changes", "hedged"), [({"max_nodes_total": 3}, 1), ({"max_nodes_total": 2}, 0), ({"cores_total": "0:12"}, 1)]
)
def test_limits_count_the_machines_in_doubt(changes: dict[str, object], hedged: int) -> None:
    assert sum(hedges(plan(silent(), **changes)).values()) == hedged


def test_a_hedge_that_no_pod_needs_is_withdrawn_as_far_as_it_has_no_machine() -> None:
    world = World(memory=Memory(requests={ref("dear"): (HEDGE,)}))
    world.add_group("cheap", size=2, cpu="4", hourly_price=0.1, max_size=100)
    world.add_group("dear", cpu="4", hourly_price=1.0, max_size=100, target=3, instances=())
    (action,) = plan(world).actions
    assert action == DecreaseTargetSize(group=ref("dear"), expected_target=3, target=1, reason=HEDGE_IS_OVER)
    world.memory = Memory(requests={ref("dear"): (HEDGE,)}, withdrawn_at={ref("dear"): NOW - 299})
    assert plan(world).actions == (), "it was tried a moment ago"


def test_nothing_of_a_hedge_is_withdrawn_while_the_first_group_only_begins_to_wake_up() -> None:
    requests = {ref("cheap"): (request(2),), ref("dear"): (replace(HEDGE, increase=2),)}
    world = World(pending=pods(2), memory=Memory(requests=requests))
    world.add_group("cheap", size=1, cpu="1", hourly_price=0.1, max_size=100, target=3)
    world.add_group("dear", cpu="4", hourly_price=1.0, max_size=100, target=2, instances=())
    assert plan(world, hedging="off").actions == ()


@pytest.mark.parametrize(
    ("changes", "settings", "rule"),
    [
        ({"target": 5, "hedged": 3}, {}, "3 hedged machines exceed --max-hedged-nodes=10%"),
        ({"hedged": 2}, {"max_hedged_nodes": "1"}, "2 hedged machines exceed --max-hedged-nodes=1"),
        ({"target": 1, "hedged": 2}, {}, "more hedged machines than the increase asks for"),
        ({"hedge_for": (ref("dear"),)}, {}, "the hedge names no other group"),
        ({"hedge_for": ()}, {}, "the hedge names no other group"),
        ({"atomic": True}, {}, "a hedge must not be an all-or-nothing increase"),
        ({}, {"size_correction": "seed"}, "size correction seed allows no hedge"),
    ],
)
def test_the_independent_check_knows_the_rules(changes: dict[str, Any], settings: dict[str, Any], rule: str) -> None:
    sound = IncreaseSize(group=ref("dear"), expected_target=0, target=2, hedged=2, hedge_for=(ref("cheap"),))
    seen = silent().state().observation
    assert check_actions(seen, [sound], settings_with(**ON)) == ()
    found = check_actions(seen, [replace(sound, **changes)], settings_with(**{**ON, **settings}))
    assert [violation.rule for violation in found] == [rule]


def test_all_pods_of_a_tight_mix_are_hedged() -> None:
    sizes = (("a", "6"), ("b", "5"), ("c", "3"), ("d", "2"), ("e", "2"), ("f", "2"))
    waiting = [
        build_pod(name, cpu=cpu, owner=("ReplicaSet", name), created_at=NOW - 400, node_selector={"app": "x"})
        for name, cpu in sizes
    ]
    kinds = [kind_of(Snapshot().class_of(pod)) for pod in waiting]
    planned = (
        PlannedPods(asked=NOW - 301, copies=1, pods={kinds[0]: 1, kinds[3]: 2}),
        PlannedPods(asked=NOW - 301, copies=1, pods={kinds[1]: 1, kinds[2]: 1, kinds[4]: 1}),
    )
    assert kinds[3] == kinds[4] == kinds[5]
    memory = Memory(requests={ref("cheap"): (request(2),)}, planned_pods={ref("cheap"): planned})
    world = World(pending=waiting, memory=memory)
    labels = {"app": "x"}
    world.add_group("cheap", cpu="10", labels=labels, hourly_price=0.1, max_size=100, target=2, instances=())
    world.add_group("dear", cpu="10", labels=labels, hourly_price=1.0, max_size=100)
    found = plan(world, expander="least-cost")
    assert len(found.fitting) == 6
    assert found.hedge is not None
    assert len(found.hedge.triggered) == 6
    assert grown(found) == {"dear": (0, 2)}


def test_pods_of_a_silent_group_are_hedged_beside_a_gang_of_a_lower_priority() -> None:
    """Also pods of a gang wait for the machines on their way: what it holds is not hedged."""
    world = silent(3, 2)
    gang = SchedulingPodGroup(
        metadata=ObjectMeta(name="g", namespace="default"),
        spec=PodGroupSpec(scheduling_policy=SchedulingPolicy(gang=GangPolicy(min_count=1))),
    )
    world.pod_groups = [gang]
    (low,) = pods(1, "g", priority=-1)
    world.pending.append(replace(low, spec=replace(low.spec, scheduling_group=SchedulingGroup(pod_group_name="g"))))
    found = plan(world)
    assert {pod.name for pod in found.fitting} == {"web-0", "web-1", "g-0"}
    assert hedges(found) == {"dear": 2}
