"""Probation after a backoff, and other failure domains after a timeout."""

from typing import Any

import pytest

from nodewright.clusterstate.memory import Backoff, Memory, ScaleUpRequest
from nodewright.model.action import IncreaseSize
from nodewright.model.group import GroupOptions, NodeGroup
from nodewright.model.meta import LabelSelector
from nodewright.model.node import ZONE_LABEL
from nodewright.model.plan import Plan
from nodewright.model.pod import Pod, TopologySpreadConstraint
from nodewright.model.reason import SkipCode, SkipReason
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import NOW, World, grown, ref, settings_with
from nodewright.validate import check_actions


def pods(count: int, cpu: str = "4", name: str = "web", **extras: Any) -> list[Pod]:
    extras = {"created_at": NOW - 60, **extras}
    return [build_pod(f"{name}-{n}", cpu=cpu, owner=("ReplicaSet", name), **extras) for n in range(count)]


def on_probation(*group_ids: str, delivered: int = 0, asked: int = 0) -> Memory:
    """Groups whose backoff has just ended, with so many machines still owed by each."""
    now = World().now
    backoff = Backoff(until=now - 1, duration=300, last_failure=now - 301, delivered=delivered)
    request = ScaleUpRequest(increase=asked, started=now - 0.5, deadline=now + 900)
    refs = [ref(group_id) for group_id in group_ids]
    return Memory(backoffs=dict.fromkeys(refs, backoff), requests=dict.fromkeys(refs, (request,)) if asked else {})


def two_pools(memory: Memory, waiting: list[Pod], **cheap: Any) -> World:
    """One cheap group and one dear one, of which the price expander chooses the cheap one."""
    world = World(pending=waiting, memory=memory)
    world.add_group("cheap", cpu="4", hourly_price=0.1, max_size=100, **cheap)
    world.add_group("dear", cpu="4", hourly_price=1.0, max_size=100)
    return world


def plan(world: World, **changes: object) -> Plan:
    """The plan, which the independent check accepts."""
    changes = {"expander": "price", **changes}
    found = world.plan(**changes)
    assert check_actions(world.state().observation, found.actions, settings_with(**changes)) == ()
    return found


def test_pods_that_have_waited_out_a_provision_time_are_no_probes() -> None:
    """Two dead groups would otherwise hand the last of them to each other for as long as they stay dead."""
    old, new = pods(3, created_at=NOW - 900), pods(3, name="new", created_at=NOW - 300)
    assert grown(plan(two_pools(on_probation("cheap"), old))) == {"dear": (0, 3)}
    mixed = plan(two_pools(on_probation("cheap"), [*old, *new]))
    assert grown(mixed) == {"cheap": (0, 1), "dear": (0, 2)}, "the old ones follow in the next loop"


def test_pods_that_waited_while_a_group_failed_go_back_to_it_only_where_no_other_may_grow() -> None:
    waited = pods(3, created_at=NOW - 302)
    assert grown(plan(two_pools(on_probation("cheap"), waited))) == {"dear": (0, 3)}
    full = two_pools(on_probation("cheap"), waited)
    full.add_group("dear", cpu="4", hourly_price=1.0, max_size=0)
    assert grown(plan(full)) == {"cheap": (0, 3)}


@pytest.mark.parametrize(("delivered", "most"), [(0, 1), (1, 2), (2, 4)])
def test_a_group_on_probation_gets_its_allowance_and_another_one_the_rest(delivered: int, most: int) -> None:
    found = plan(two_pools(on_probation("cheap", delivered=delivered), pods(10)), max_hedged_nodes="4")
    assert grown(found) == {"cheap": (0, most), "dear": (0, 10 - most)}
    report = found.scale_up
    assert len(report.triggered) == 10
    assert (report.awaiting, report.unhelped) == ((), ())
    assert [(o.group.group_id, o.nodes, o.pods, o.chosen) for o in report.options] == [
        ("cheap", most, most, True),
        ("dear", 10 - most, 10 - most, True),
    ]
    nodes = "1 node" if most == 1 else f"{most} nodes"
    assert str(report.probed[ref("cheap")]) == f"on probation after a failure: at most {nodes}"


@pytest.mark.parametrize(("most", "probed"), [("10%", 2), ("3", 3), ("0", 0)])
def test_no_more_is_probed_than_may_be_bought_twice(most: str, probed: int) -> None:
    found = plan(two_pools(on_probation("cheap", delivered=2), pods(10)), max_hedged_nodes=most)
    assert grown(found) == {**({"cheap": (0, probed)} if probed else {}), "dear": (0, 10 - probed)}


def test_every_pod_counts_in_one_increase_and_the_first_are_named() -> None:
    found = plan(two_pools(on_probation("cheap"), pods(5)))
    increases = [action for action in found.actions if isinstance(action, IncreaseSize)]
    assert [(action.pods, action.pod_count) for action in increases] == [
        (("default/web-0",), 1),
        (("default/web-1", "default/web-2", "default/web-3"), 4),
    ]


def test_a_group_that_has_proved_itself_gets_all() -> None:
    found = plan(two_pools(on_probation("cheap", delivered=3), pods(10)))
    assert grown(found) == {"cheap": (0, 10)}
    assert found.scale_up.probed == {}


def test_what_fits_the_allowance_is_no_news() -> None:
    found = plan(two_pools(on_probation("cheap", delivered=1), pods(2)))
    assert grown(found) == {"cheap": (0, 2)}


def test_while_a_trial_is_under_way_the_others_get_what_is_new() -> None:
    world = two_pools(on_probation("cheap", asked=1), [*pods(1, name="first"), *pods(4)], target=1, instances=())
    found = plan(world)
    assert grown(found) == {"dear": (0, 5)}, "and a place for the pod of the trial"
    (increase,) = [action for action in found.actions if isinstance(action, IncreaseSize)]
    assert (increase.hedged, increase.hedge_for) == (1, (ref("cheap"),))
    assert increase.reason == "hedged because group cloud/cheap is on probation after a failure"


def test_where_no_other_group_fits_nothing_is_probed() -> None:
    world = World(pending=pods(10), memory=on_probation("only"))
    world.add_group("only", cpu="4", max_size=100)
    world.add_group("small", cpu="2", max_size=100)
    assert grown(plan(world)) == {"only": (0, 10)}


def test_groups_that_are_all_on_probation_are_not_probed() -> None:
    assert grown(plan(two_pools(on_probation("cheap", "dear"), pods(10)))) == {"cheap": (0, 10)}


def test_a_full_group_is_no_other_place() -> None:
    world = World(pending=pods(10), memory=on_probation("cheap"))
    world.add_group("cheap", cpu="4", hourly_price=0.1, max_size=100)
    world.add_group("dear", size=1, cpu="4", hourly_price=1.0, max_size=1)
    world.running = [build_pod("busy", cpu="4", node_name="dear-0")]
    assert grown(plan(world)) == {"cheap": (0, 10)}


def test_what_the_other_group_has_no_room_for_is_said_and_planned_in_full_once_it_is_full() -> None:
    world = World(pending=pods(10), memory=on_probation("cheap"))
    world.add_group("cheap", cpu="4", hourly_price=0.1, max_size=100)
    world.add_group("dear", cpu="4", hourly_price=1.0, max_size=3)
    found = plan(world)
    assert grown(found) == {"cheap": (0, 1), "dear": (0, 3)}
    reasons = [unhelped.reasons[ref("cheap")] for unhelped in found.scale_up.unhelped]
    assert len(reasons) == 6
    assert all(isinstance(reason, SkipReason) and reason.code == SkipCode.PROBATION for reason in reasons)


def test_pods_with_no_other_place_get_all_and_the_others_what_room_that_leaves() -> None:
    bound = pods(3, cpu="3", name="bound", node_selector={"pool": "cheap"})
    world = two_pools(on_probation("cheap"), [*bound, *pods(10, cpu="1")], labels={"pool": "cheap"})
    found = plan(world)
    assert grown(found) == {"cheap": (0, 3), "dear": (0, 2)}, "three places beside the bound pods, seven elsewhere"
    assert len(found.scale_up.triggered) == 13


def test_pods_with_no_other_place_are_planned_in_full_while_a_trial_is_under_way() -> None:
    bound = pods(3, name="bound", node_selector={"pool": "cheap"})
    world = two_pools(
        on_probation("cheap", asked=1),
        [*pods(1, name="first"), *bound],
        labels={"pool": "cheap"},
        target=1,
        instances=(),
    )
    assert grown(plan(world)) == {"cheap": (1, 4), "dear": (0, 1)}, "no pod waits for the trial"


def test_a_group_that_grows_by_all_or_nothing_is_never_probed() -> None:
    world = two_pools(on_probation("cheap"), pods(5), options=GroupOptions(zero_or_max_node_scaling=True))
    assert grown(plan(world, expander="most-pods,price")) == {"cheap": (0, 100)}


@pytest.mark.parametrize(
    "changes",
    [{"probe_after_backoff": False}, {"size_correction": "ca"}, {"size_correction": "seed"}, {"profile": "ca"}],
)
def test_it_can_be_switched_off(changes: dict[str, object]) -> None:
    found = two_pools(on_probation("cheap"), pods(10)).plan(expander="price", **changes)
    assert grown(found) == {"cheap": (0, 10)}


def test_similar_groups_share_what_one_on_probation_does_not_get() -> None:
    world = World(pending=pods(10), memory=on_probation("a"))
    for zone in ("a", "b", "c"):
        world.add_group(zone, cpu="4", zone=zone, max_size=100)
    found = plan(world, balance_similar_node_groups=True)
    by = {group_id: after - before for group_id, (before, after) in grown(found).items()}
    assert by["a"] == 1
    assert sorted((by["b"], by["c"])) == [4, 5]
    assert len(found.scale_up.triggered) == 10


def test_similar_groups_on_probation_are_tried_together_and_a_third_takes_the_rest() -> None:
    world = World(pending=pods(10), memory=on_probation("a", "b"))
    for zone in ("a", "b"):
        world.add_group(zone, cpu="4", zone=zone, max_size=100, hourly_price=0.1)
    world.add_group("other", cpu="8", max_size=100, hourly_price=2.0)
    assert grown(plan(world, balance_similar_node_groups=True)) == {"a": (0, 1), "b": (0, 1), "other": (0, 4)}


def test_a_group_that_shares_a_trial_is_not_asked_twice() -> None:
    world = World(pending=pods(10), memory=on_probation("a"))
    world.add_group("a", cpu="4", zone="a", max_size=100, hourly_price=0.1)
    world.add_group("b", cpu="4", zone="b", max_size=3, hourly_price=0.1)
    world.add_group("other", cpu="8", max_size=100, hourly_price=2.0)
    found = plan(world, balance_similar_node_groups=True)
    assert grown(found) == {"a": (0, 1), "b": (0, 3), "other": (0, 3)}
    assert len(found.actions) == 3


def test_the_cluster_limits_hold_for_both_parts_together() -> None:
    assert grown(plan(two_pools(on_probation("cheap"), pods(10)), max_nodes_total=4)) == {
        "cheap": (0, 1),
        "dear": (0, 3),
    }
    assert grown(plan(two_pools(on_probation("cheap"), pods(10)), cores_total="0:20")) == {
        "cheap": (0, 1),
        "dear": (0, 4),
    }


def test_pods_that_spread_see_those_of_the_trial() -> None:
    """Two pods in one zone allow three in the other: one on the trial's node, two on the other group's."""
    spread = TopologySpreadConstraint(
        topology_key=ZONE_LABEL,
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": "web"}),
    )
    waiting = pods(6, labels={"app": "web"}, topology_spread_constraints=[spread])
    world = two_pools(on_probation("cheap"), waiting, zone="a")
    world.groups.pop(ref("dear"))
    world.add_group("dear", cpu="4", hourly_price=1.0, max_size=100, zone="a")
    world.add_group("old", size=1, cpu="4", zone="b", max_size=1)
    world.running = [build_pod(f"old-{n}", cpu="2", labels={"app": "web"}, node_name="old-0") for n in range(2)]
    assert grown(plan(world)) == {"cheap": (0, 1), "dear": (0, 2)}


ASKED = NOW - 400


def plan_among_failed(*, created: float, asked: float = ASKED, by_zone: bool = True) -> Plan:
    """Group a (zone z1) gave nothing; b is like it and the cheaper one of two that are left: it is in the same zone, or
    draws on the same quota. A timeout has just doubled the time that a may take, as learned times do.
    """
    world = World()
    slow = GroupOptions(max_node_provision_seconds=800)
    for name, zone, price in (("a", "z1", 0.1), ("b", "z1", 0.2), ("c", "z2", 0.3)):
        drawn_on = frozenset() if by_zone else frozenset({f"vcpus of {zone}", "all"})
        group = NodeGroup(id=name, min_size=0, max_size=10, buckets=drawn_on)
        world.add_group(name, zone=zone if by_zone else "z", hourly_price=price, options=slow, group=group)
    backoff = Backoff(until=NOW + 290, duration=300, last_failure=NOW - 10, code="timeout", asked=asked)
    world.memory = Memory(backoffs={ref("a"): backoff})
    world.pending.append(build_pod("web", cpu="1", created_at=created))
    return world.plan(expander="price")


def test_who_waited_since_machines_were_asked_for_is_not_sent_to_a_group_alike() -> None:
    assert list(grown(plan_among_failed(created=ASKED))) == ["c"]
    assert list(grown(plan_among_failed(created=ASKED - 100))) == ["c"]


def test_nor_to_a_group_that_draws_on_the_same_quota() -> None:
    assert list(grown(plan_among_failed(created=ASKED, by_zone=False))) == ["c"]


def test_who_came_later_goes_where_the_expander_says() -> None:
    assert list(grown(plan_among_failed(created=ASKED + 1))) == ["b"]


def test_another_failure_casts_no_doubt_on_groups_alike() -> None:
    assert list(grown(plan_among_failed(created=ASKED, asked=0.0))) == ["b"]
