"""Pods that waited in vain for a group, whose time meanwhile is another (the scenarios have the rest)."""

from nodewright.clusterstate.state import Backoff, Memory
from nodewright.model.group import GroupOptions
from nodewright.planner import Plan
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import NOW, World, grown, ref

ASKED = NOW - 400


def plan(*, created: float, asked: float = ASKED) -> Plan:
    """Group a (zone z1) gave nothing; b is like it and the cheaper one of two that are left. A timeout has just
    doubled the time that a may take, as learned times do.
    """
    world = World()
    slow = GroupOptions(max_node_provision_seconds=800)
    for name, zone, price in (("a", "z1", 0.1), ("b", "z1", 0.2), ("c", "z2", 0.3)):
        world.add_group(name, zone=zone, hourly_price=price, options=slow)
    backoff = Backoff(until=NOW + 290, duration=300, last_failure=NOW - 10, code="timeout", asked=asked)
    world.memory = Memory(backoffs={ref("a"): backoff})
    world.pending.append(build_pod("web", cpu="1", created_at=created))
    return world.plan(expander="price")


def test_who_waited_since_machines_were_asked_for_is_not_sent_to_a_group_alike() -> None:
    assert list(grown(plan(created=ASKED))) == ["c"]
    assert list(grown(plan(created=ASKED - 100))) == ["c"]


def test_who_came_later_goes_where_the_expander_says() -> None:
    assert list(grown(plan(created=ASKED + 1))) == ["b"]


def test_another_failure_casts_no_doubt_on_groups_alike() -> None:
    assert list(grown(plan(created=ASKED, asked=0.0))) == ["b"]
