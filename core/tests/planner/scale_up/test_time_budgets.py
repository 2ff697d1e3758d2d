"""Groups for which there was no time; whole loops are in tests/scenario/test_time_budgets.py."""

from dataclasses import replace
from itertools import count
from random import Random

from nodewright.model.plan import Plan
from nodewright.model.reason import SkipCode
from nodewright.planner import make_plan
from nodewright.testkit import build_pod
from nodewright.testkit.world import World, grown, ref, settings_with


def plan(world: World, **changes: object) -> Plan:
    """Planned with a clock on which a second passes whenever it is looked at."""
    settings, seconds = settings_with(**changes), count()
    state = replace(world.state(settings), elapsed=lambda: float(next(seconds)))
    return make_plan(state, settings, Random(1))[0]


def three_groups() -> World:
    world = World()
    for name, cores in (("useless", "1"), ("first", "4"), ("last", "4")):
        world.add_group(name, cpu=cores)
    world.pending = [build_pod("p", "2")]
    return world


def test_once_some_group_would_help_time_may_end_the_search() -> None:
    found = plan(three_groups(), max_binpacking_time=1)
    assert grown(found) == {"first": (0, 1)}
    assert found.partial == "time was up: 1 groups were not looked at"
    assert found.scale_up.skipped[ref("last")].code == SkipCode.NO_TIME


def test_a_group_that_helps_is_looked_for_whatever_the_time() -> None:
    world = three_groups()
    del world.groups[ref("first")]
    found = plan(world, max_binpacking_time=1)
    assert grown(found) == {"last": (0, 1)}
    assert not found.partial


def test_no_limit_is_none() -> None:
    found = plan(three_groups(), max_binpacking_time=0, max_nodegroup_binpacking_duration=0)
    assert [option.group for option in found.scale_up.options] == [ref("first"), ref("last")]
    assert not found.partial


def two_shapes() -> World:
    world = World()
    for group in ("a", "b"):
        world.add_group(group, labels={"kind": group})
    world.pending = [build_pod(group, "3", node_selector={"kind": group}) for group in ("a", "b")]
    return world


def test_a_salvo_ends_with_its_time_and_says_so() -> None:
    found = plan(two_shapes(), salvo_scale_up=True, salvo_scale_up_budget=1)
    assert len(grown(found)) == 1
    assert found.partial == "time was up (--salvo-scale-up-budget) with 1 pods left: the next loop goes on with them"


def test_a_salvo_with_time_enough_helps_all() -> None:
    for seconds in (0, 1000):
        found = plan(two_shapes(), salvo_scale_up=True, salvo_scale_up_budget=seconds)
        assert (len(grown(found)), found.partial) == (2, "")
