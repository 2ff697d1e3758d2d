"""The engine may die at any write, before it or after its effect, with or without its memory: nothing is bought
twice, and every pod runs.
"""

import pytest

from nodewright.engine.planning import Planning
from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.scenario_file import read_scenario

SCENARIO = """
name: crash
duration: 90m
settings: {expander: price, max-node-provision-time: 5m}
providers:
  fake:
    groups:
      - {name: cheap, cpu: 4, memory: 16Gi, max_size: 20, price_per_hour: 0.1}
      - {name: dear, cpu: 4, memory: 16Gi, max_size: 20, price_per_hour: 0.2}
    stock_outs: [{group: cheap, remaining: 2, end: 30m}]
deployments:
  - {name: web, replicas: 8, at: 15s, pod: {cpu: 1, memory: 1Gi}}
timeline:
  - {at: 5m, do: scale, deployment: web, replicas: 20}
"""


def run(write: int, *, after_effect: bool, keeps_memory: bool) -> SimulationResult:
    crash = f"  - {{at: 1s, do: crash, write: {write}, after_effect: {str(after_effect).lower()}, down: 45s, "
    crash += f"keeps_memory: {str(keeps_memory).lower()}}}\n"
    scenario = read_scenario(SCENARIO + crash, "crash.yaml")
    return build_simulation(scenario, BuildOptions(planning=Planning(strict=True))).run()


@pytest.mark.parametrize("keeps_memory", [True, False])
@pytest.mark.parametrize("after_effect", [True, False])
@pytest.mark.parametrize("write", [1, 2, 3, 4])
def test_a_crash_at_any_write(write: int, after_effect: bool, keeps_memory: bool) -> None:
    result = run(write, after_effect=after_effect, keeps_memory=keeps_memory)
    crashed = [fact.at for fact in result.journal if fact.what == "engine crashed"]
    assert len(crashed) == 1
    assert result.final.pending == 0
    assert result.final.nodes == {"fake/cheap": 2, "fake/dear": 3}  # 20 pods of one core, four a node
    assert len([fact for fact in result.journal if fact.what == "machine started"]) == 5


def test_without_a_crash_it_is_the_same() -> None:
    result = run(99, after_effect=False, keeps_memory=True)
    assert result.final.nodes == {"fake/cheap": 2, "fake/dear": 3}
    assert not [fact for fact in result.journal if fact.what == "engine crashed"]


@pytest.mark.parametrize("after_effect", [True, False])
@pytest.mark.parametrize("write", [1, 2, 3, 4])
def test_writes_of_an_engine_that_died_are_among_the_results(write: int, after_effect: bool) -> None:
    """What was asked for is what the cloud was asked for, in every engine."""
    result = run(write, after_effect=after_effect, keeps_memory=True)
    started = sum(fact.what == "machine started" for fact in result.journal)
    failed = sum(decision.before - decision.after for decision in result.decisions if decision.what == "delete")
    assert result.increases == started + failed == run(99, after_effect=False, keeps_memory=True).increases
