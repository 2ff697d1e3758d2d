"""A pause stops every write to a cloud, and nothing else; it ends by itself, even after a restart of the engine."""

from typing import Any

import pytest
from tests.scenario.story import LOOP, MINUTE, SILENT, Story

from nodewright.engine.planning import Planning
from nodewright.model.errors import ConfigError
from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.scenario_file import read_scenario

SCENARIO = """
name: pause
duration: 60m
providers:
  fake:
    groups: [{name: pool, cpu: 4, memory: 16Gi, max_size: 20}]
deployments:
  - {name: web, replicas: 4, at: 6m, pod: {cpu: 4, memory: 1Gi}}
timeline:
"""


def run(*timeline: str) -> SimulationResult:
    text = SCENARIO + "".join(f"  - {{{happening}}}\n" for happening in timeline)
    return build_simulation(read_scenario(text, "pause.yaml"), BuildOptions(planning=Planning(strict=True))).run()


def first_write(result: SimulationResult) -> float:
    return result.decisions[0].at


def test_nothing_is_written_until_it_is_over() -> None:
    result = run("at: 5m, do: pause, for: 20m")
    assert 25 * MINUTE <= first_write(result) <= 25 * MINUTE + LOOP
    assert result.final.pending == 0
    said = [held.event.message for held in result.events if held.event.reason == "Paused"]
    assert "Writes to clouds are paused until 25m after the start; 1 planned writes wait" in said


def test_it_may_be_ended_early() -> None:
    result = run("at: 5m, do: pause, for: 20m", "at: 8m, do: resume")
    assert 8 * MINUTE <= first_write(result) <= 8 * MINUTE + LOOP


def test_a_pause_that_is_over_does_not_matter() -> None:
    assert first_write(run("at: 1m, do: pause, for: 2m")) == first_write(run("at: 40m, do: pause, for: 2m"))


def test_it_survives_the_engine() -> None:
    crash = "at: 1s, do: crash, write: 1, down: 20m"
    early = "at: 6m, do: scale, deployment: web, replicas: 5"
    result = run(crash, early, "at: 7m, do: pause, for: 30m")
    assert [fact.at for fact in result.journal if fact.what == "engine started"][-1] < 30 * MINUTE
    assert 37 * MINUTE <= first_write(result) <= 37 * MINUTE + LOOP


def test_corrections_wait_too_and_the_plan_says_why() -> None:
    group = {"name": "cheap", "price_per_hour": 0.1}
    story = Story(group, minutes=19, stock_outs=[{"group": "cheap"}], switched_off=SILENT)
    story.pods(3)
    story.simulation.pause(10 * MINUTE, 8 * MINUTE)
    writes = story.writes("withdraw")
    assert [(what, group) for _, what, group, _, _ in writes] == [("withdraw", "cheap")]
    assert 18 * MINUTE <= writes[0][0] <= 18 * MINUTE + LOOP
    timed_out = story.events("ScaleUpTimedOut")
    assert timed_out[0][0] <= 15 * MINUTE + 2 * LOOP  # what is observed is concluded and told all the same


@pytest.mark.parametrize(
    "happening", ["at: 5m, do: pause", "at: 5m, do: pause, for: -3m", "at: 5m, do: pause, for: 0", "do: resume"]
)
def test_a_pause_has_a_time_and_a_length(happening: str) -> None:
    arguments: list[Any] = [happening]
    with pytest.raises(ConfigError, match=r"pause\.yaml: timeline"):
        run(*arguments)
