"""Nodes that are not ready for a while, and restarts of the engine, in a scenario file."""

from nodewright_simulator.build import build_simulation
from nodewright_simulator.journal import What
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.scenario_file import read_scenario

SCENARIO = """
name: Trouble
duration: 20m
providers: {fake: {groups: [{name: a, cpu: 1, size: 2}]}}
deployments: [{name: web, at: 6m, replicas: 1, pod: {cpu: 1}}]
timeline: [%s]
"""


def run(happening: str) -> SimulationResult:
    return build_simulation(read_scenario(SCENARIO % happening, "test")).run()


def started(result: SimulationResult) -> float:
    return next(fact.at for fact in result.journal if fact.what == What.POD_STARTED)


def test_a_pod_waits_for_nodes_that_are_not_ready() -> None:
    assert started(run("{at: 5m, do: unready, nodes: 1, for: 3m}")) == 360
    assert started(run("{at: 5m, do: unready, nodes: 2, for: 75s}")) == 375


def test_the_engine_restarts() -> None:
    result = run("{at: 5m, do: restart, down: 1m}")
    times = [(fact.at, fact.what) for fact in result.journal if fact.what.startswith("engine")]
    assert times == [(0, What.ENGINE_STARTED), (300, What.ENGINE_CRASHED), (360, What.ENGINE_STARTED)]
