"""The engine is killed at every point where that could matter, and comes back: the outcome is that of the run in
which it was not, at most one loop later than a call could last that was saved and had no effect.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.scenario.kills import Kill, kill_everywhere
from tests.scenario.story import LOOP, MINUTE, SILENT, Story

from nodewright.actuation import AuditRecord
from nodewright.engine.intent import START_SECONDS
from nodewright.model.settings import ProviderSettings
from nodewright_simulator.journal import What
from nodewright_simulator.result import FinalState, SimulationResult
from nodewright_simulator.scenario import TolerationSpec
from nodewright_simulator.simulation import Simulation

DOWN = 25.0
# How long a call may be under way after it was saved that it is about to be made.
HELD = ProviderSettings().call_timeout + START_SECONDS
GROUPS = {
    "cheap": {"name": "cheap", "price_per_hour": 0.1, "max_size": 20},
    "dear": {"name": "dear", "price_per_hour": 0.2, "max_size": 20},
}
QUICK = {"max-node-provision-time": "5m"}


def story_of(*groups: dict[str, Any], settings: dict[str, Any] | None = None, **more: Any) -> Story:
    """Without moves: they would bring pods back from the group that helped while another one was held."""
    return Story(*groups, settings={"consolidation-policy": "off", **(settings or {})}, **more)


def scale_up() -> Simulation:
    story = story_of(*GROUPS.values(), minutes=30)
    story.pods(4, at=15)
    story.pods(3, at=40, name="more")
    return story.simulation


def stock_out_seen_at_once() -> Simulation:
    story = story_of(*GROUPS.values(), minutes=60, stock_outs=[{"group": "cheap", "remaining": 2, "end": 1200}])
    story.pods(6, at=15)
    return story.simulation


def stock_out_seen_by_timeout(remaining: int = 2) -> Simulation:
    stock_outs = [{"group": "cheap", "remaining": remaining, "end": 1200}]
    story = story_of(*GROUPS.values(), settings=QUICK, minutes=60, stock_outs=stock_outs, switched_off=SILENT)
    story.pods(6, at=15)
    return story.simulation


def machines_that_never_join() -> Simulation:
    broken = {**GROUPS["cheap"], "never_registers": 1.0}
    story = story_of(broken, GROUPS["dear"], settings=QUICK, minutes=60)
    story.pods(3, at=15)
    return story.simulation


def refused() -> Simulation:
    refusal = {"kind": "refuse", "hook": "increase_size", "group": "cheap", "error": "out_of_capacity", "end": 1200}
    story = story_of(*GROUPS.values(), minutes=60, faults=[refusal])
    story.pods(4, at=15)
    return story.simulation


def balanced_over_three_groups() -> Simulation:
    zones = [{"name": f"zone-{zone}", "zone": zone, "price_per_hour": 0.1} for zone in "abc"]
    story = story_of(*zones, settings={"balance-similar-node-groups": True, "expander": "least-waste"}, minutes=30)
    story.pods(8, at=15)
    return story.simulation


def group_made_on_demand() -> Simulation:
    kinds = [{"name": "big", "cpu": 4, "memory": "16Gi", "price_per_hour": 0.5}]
    story = story_of(settings={"node-autoprovisioning-enabled": True}, minutes=30, machine_types=kinds)
    story.pods(6, at=15)
    kept = (TolerationSpec(key="team", value="a"),)  # so that their group takes no other pods
    story.pods(2, at=40, name="own", node_selector={"team": "a"}, tolerations=kept)
    return story.simulation


SCENARIOS = [
    scale_up,
    stock_out_seen_at_once,
    stock_out_seen_by_timeout,
    machines_that_never_join,
    refused,
    balanced_over_three_groups,
    group_made_on_demand,
]


def bought(result: SimulationResult) -> Counter[str]:
    """Machines that ever ran, by group."""
    return Counter(fact.where for fact in result.journal if fact.what == What.MACHINE_STARTED)


def without_nodes(result: SimulationResult) -> FinalState:
    return replace(result.final, nodes={})


def all_running_at(result: SimulationResult) -> float:
    return max(fact.at for fact in result.journal if fact.what == What.POD_STARTED)


def most_in_flight(result: SimulationResult) -> int:
    """What a killed engine may have asked for last, and its successor knows nothing of."""
    return max(decision.after - decision.before for decision in result.decisions)


def is_quiet(result: SimulationResult) -> bool:
    """Nothing was written in the last ten minutes."""
    return all(decision.at < result.end - 10 * MINUTE for decision in result.decisions)


@pytest.mark.parametrize("make", SCENARIOS)
def test_killed_anywhere_with_its_memory(make: Callable[[], Simulation]) -> None:
    untroubled = make().run()
    assert untroubled.final.pending == 0
    kills = list(kill_everywhere(make, down_seconds=DOWN))
    assert {kill.boundary.side for kill in kills if kill.boundary.call == "increase_size"} == {"before", "after"}
    for kill in kills:
        check_died_once(kill)
        result = kill.result
        assert without_nodes(result) == without_nodes(untroubled), str(kill)
        # Pods that come while a group is held are helped elsewhere.
        assert bought(result).total() == bought(untroubled).total(), str(kill)
        assert all_running_at(result) <= all_running_at(untroubled) + HELD + LOOP, str(kill)
        assert is_quiet(result), str(kill)
        assert not result.problems


@pytest.mark.parametrize("make", SCENARIOS)
def test_killed_anywhere_without_its_memory(make: Callable[[], Simulation]) -> None:
    untroubled = make().run()
    for kill in kill_everywhere(make, down_seconds=DOWN, keeps_memory=False):
        check_died_once(kill)
        result = kill.result
        assert result.final.pending == 0, str(kill)
        assert result.final.running == untroubled.final.running, str(kill)
        assert sum(result.final.nodes.values()) == sum(untroubled.final.nodes.values()), str(kill)
        assert bought(result).total() <= bought(untroubled).total() + most_in_flight(untroubled), str(kill)
        assert is_quiet(result), str(kill)


def test_a_restart_starts_no_clock_anew() -> None:
    """However long the engine is away: what it asked for is given up one provision time after it was asked for."""
    gave_up = []
    for kill in kill_everywhere(lambda: stock_out_seen_by_timeout(remaining=0), down_seconds=200):
        asked = max(record.time for record in kill.result.audit if record.group == "fake/cheap" and is_growth(record))
        died = next(fact.at for fact in kill.result.journal if fact.what == What.ENGINE_CRASHED)
        if died < asked + 100:  # then it is back in time
            timed_out = (timed.at for timed in kill.result.events if timed.event.reason == "ScaleUpTimedOut")
            gave_up.append(next(timed_out) - asked)
    assert len(gave_up) >= 6
    assert 5 * MINUTE < min(gave_up) <= max(gave_up) <= 5 * MINUTE + 2 * LOOP


def is_growth(record: AuditRecord) -> bool:
    return record.action == "IncreaseSize" and record.time < 10 * MINUTE


def check_died_once(kill: Kill) -> None:
    died = [fact for fact in kill.result.journal if fact.what == What.ENGINE_CRASHED]
    assert len(died) == 1, str(kill)
