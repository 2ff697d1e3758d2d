"""A thousand random schedules of faults, and proof that a broken engine would not get through them."""

import dataclasses
import json
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace
from tests.faults.facts import Facts
from tests.faults.hunt import Broken, drawn, examine, hunt, smallest
from tests.faults.idle_crowds import GONE, NODES, PODS, UNNEEDED, WRONG_FOR, busy_crowd, idle_crowds
from tests.faults.invariants import INVARIANTS
from tests.faults.schedules import Schedule
from tests.faults.witness import Witness

from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.planning import Planning
from nodewright.model.action import IncreaseSize
from nodewright.model.plan import Plan
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright_simulator.journal import What
from nodewright_simulator.scenario_file import load_scenario, read_scenario

SCHEDULES, PARTS, QUICK = 1000, 4, 24
MIXED = 120


def test_whatever_goes_wrong_every_invariant_holds() -> None:
    check(range(QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SCHEDULES, SCHEDULES // PARTS))
def test_every_invariant_holds_in_a_thousand_schedules(first: int) -> None:
    check(range(max(first, QUICK), first + SCHEDULES // PARTS))


@pytest.mark.slow
def test_every_invariant_holds_with_the_default_expander() -> None:
    """The schedules name another expander; all of their groups have prices, so that the default one plans mixes."""
    for schedule in drawn(range(MIXED)):
        schedule["settings"]["expander"] = "least-cost"
        examine(schedule)


def check(numbers: range) -> None:
    found = hunt(numbers)
    if found.broken is not None:
        raise smallest(found.broken)
    assert found.tried == len(numbers)


def greedy(state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
    """Asks for one machine more than it needs, each time."""
    plan, memory = make_plan(state, settings, random)
    actions = tuple(_one_more(state, action) if isinstance(action, IncreaseSize) else action for action in plan.actions)
    return dataclasses.replace(plan, actions=actions), memory


def _one_more(state: ClusterState, action: IncreaseSize) -> IncreaseSize:
    target = min(action.target + 1, state.groups[action.group].seen.group.max_size)
    return replace(action, target=target)


BROKEN = Planning(make_plan=greedy)


@pytest.mark.slow
def test_a_failure_is_told_as_a_small_scenario_that_replays_it(tmp_path: Path) -> None:
    found = hunt(range(50), planning=BROKEN)
    assert found.broken is not None
    told = smallest(found.broken, BROKEN)
    assert told.invariant == "overbuying"
    assert len(told.scenario.splitlines()) < 30
    file = tmp_path / "broken.yaml"
    file.write_text(str(told))
    replayed = Facts(Witness(load_scenario(file), BROKEN).watch())
    assert list(INVARIANTS[told.invariant](replayed)) == told.findings
    sound = Facts(Witness(load_scenario(file), Planning()).watch())
    assert list(INVARIANTS[told.invariant](sound)) == []


def test_the_engine_itself_passes_where_the_broken_one_fails() -> None:
    found = hunt(range(50), planning=BROKEN)
    assert found.broken is not None
    examine(found.broken.schedule)
    with pytest.raises(Broken, match="overbuying"):
        examine(found.broken.schedule, BROKEN)


def faint(state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
    """Falls over as soon as two pods wait."""
    if len(state.observation.pending) > 1:
        raise ZeroDivisionError("one pod at a time")
    return make_plan(state, settings, random)


def test_an_engine_that_falls_over_is_told_as_a_scenario_too() -> None:
    planning = Planning(make_plan=faint)
    found = hunt(range(20), planning=planning)
    assert found.broken is not None
    told = smallest(found.broken, planning)
    assert (told.invariant, told.findings) == ("running", ["ZeroDivisionError: one pod at a time"])
    assert len(told.scenario.splitlines()) < 30


def test_schedules_are_the_same_each_time_and_have_little_in_common() -> None:
    schedules = list(drawn(range(5, 65)))
    assert schedules == list(drawn(range(5, 65)))
    kinds = {fault["kind"] for schedule in schedules for fault in schedule["providers"]["fake"].get("faults", ())}
    assert kinds == {"refuse", "hang", "slow", "partial", "throttle", "in_progress", "wrong_size", "crash"}


@pytest.mark.parametrize(
    ("shows", "world"),
    [
        pytest.param(shows, world, id=shows or "right", marks=() if shows in ("", "stale_nodes") else pytest.mark.slow)
        for shows, world in idle_crowds()
    ],
)
def test_500_idle_nodes_go_within_five_minutes_and_none_with_pods(shows: str, world: Schedule) -> None:
    facts = Facts(Witness(read_scenario(json.dumps(world), "idle crowd"), Planning()).watch())
    result = facts.history.result
    assert result is not None
    gone = [fact.at for fact in result.journal if fact.what == What.MACHINE_GONE]
    assert len(gone) == NODES - 2 * PODS
    assert max(gone) <= UNNEEDED + GONE + (WRONG_FOR if shows else 0)
    assert result.final.running == 2 * PODS
    assert not [fact for fact in result.journal if fact.what == What.POD_LOST]
    assert not list(INVARIANTS["removals"](facts))


@pytest.mark.parametrize("restart", ["", "missing"])
@pytest.mark.parametrize("shows", ["no_pods", "half_of_the_pods", "empty_nodes"])
def test_an_api_server_that_shows_no_pods_for_ten_minutes_deletes_no_node(shows: str, restart: str) -> None:
    facts = Facts(Witness(read_scenario(json.dumps(busy_crowd(30, shows, restart)), "busy crowd"), Planning()).watch())
    result = facts.history.result
    assert result is not None
    assert result.final.running == 30
    assert not [fact for fact in result.journal if fact.what in (What.MACHINE_GONE, What.POD_LOST)]
