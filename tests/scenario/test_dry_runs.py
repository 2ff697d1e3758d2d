"""Plans that are only shown pass the same independent check as those that are carried out, removals included."""

from dataclasses import replace
from json import dumps
from random import Random

import pytest
from msgspec.structs import replace as changed
from tests.scenario.story import LOOP, MINUTE, Story

from nodewright.adapters.clocks import VirtualClock
from nodewright.cli.dry_run.dry_run import plan_once
from nodewright.cli.dry_run.dump import DumpedCluster, read_dump
from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.planning import DryRunPlanning, Planning
from nodewright.model.errors import InvariantError
from nodewright.model.group import GroupRef
from nodewright.model.plan import Plan, ScaleDownReport
from nodewright.model.removal import NodeRemoval, RemovalReason
from nodewright.model.settings import Settings
from nodewright.spec import ProviderContext
from nodewright.testkit.contract import connect
from nodewright_fake import FakeProvider

A = GroupRef("fake", "a")


def empty_node() -> ClusterState:
    """The state in which an unneeded node is about to go."""
    story = Story({"name": "a", "size": 1}, minutes=30)
    assert story.writes("delete"), "it goes"
    return next(state for state, plan in story.loops if plan.scale_down.removals)


def test_a_withheld_removal_is_checked() -> None:
    state, settings, dry = empty_node(), Settings(), DryRunPlanning()
    held, _ = dry.planning.make_plan(state, settings, Random(1))
    assert held.scale_down.removals == ()
    assert dry.planning.check_actions(state.observation, held.actions, settings) == ()
    group = state.observation.groups[A]
    needed = replace(group, group=changed(group.group, min_size=1))
    seen = replace(state.observation, groups={A: needed})
    (violation,) = dry.planning.check_actions(seen, held.actions, settings)
    assert violation.rule == "group fake/a would fall below its minimum of 1"


def faulty(state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
    """Wants a node away that is not there."""
    assert state is not None, (settings, random)
    ghost = NodeRemoval(node="ghost", group=A, instance_id="i-1", reason=RemovalReason.EMPTY)
    return Plan(scale_down=ScaleDownReport(removals=(ghost,))), PlanMemory.of(state.memory)


def test_a_plan_that_is_only_shown_may_not_remove_what_is_not_there() -> None:
    clock = VirtualClock()
    context = ProviderContext(clock=clock, random=Random(1), options={"groups": [{"name": "a", "cpu": 1}]})
    providers = [connect("fake", FakeProvider(context), clock)]
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}
    cluster = DumpedCluster(read_dump(dumps({"kind": "List", "apiVersion": "v1", "items": [node]}).encode(), "dump"))
    assert plan_once(cluster, providers, Settings(), Random(1), LOOP).plan.scale_down.removals == ()
    with pytest.raises(InvariantError, match="there is no node ghost"):
        plan_once(cluster, providers, Settings(), Random(1), MINUTE, Planning(make_plan=faulty))
