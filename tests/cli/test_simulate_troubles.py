"""``simulate`` reports everything that went wrong, not only failed scale-ups."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.scenario.test_budget import forgetful

from nodewright_simulator.cli.summary import as_json, find_troubles

Command = Callable[..., subprocess.CompletedProcess[str]]
SCENARIO = """
name: troubles
duration: 90m
settings: {expander: price, scale-down-enabled: false}
providers:
  fake:
    switched_off: [fast_failure_detection]
    groups:
      - {name: cheap, cpu: 4, memory: 16Gi, price_per_hour: 0.1}
      - {name: dear, cpu: 4, memory: 16Gi, price_per_hour: 0.2}
    stock_outs: [{group: cheap}]
    dead_boots: [{group: dear, end: 17m}]
    faults:
      - {kind: refuse, hook: decrease_target_size, group: cheap, end: 30m}
      - {kind: refuse, hook: delete_instances, group: dear, end: 55m}
deployments:
  - {name: web, replicas: 2, at: 1m, pod: {cpu: 4}}
timeline:
  - {at: 20m, do: crash, write: 1, down: 30s}
  - {at: 60m, do: pause, for: 5m}
  - {at: 61m, do: scale, deployment: web, replicas: 3}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "troubles.yaml"
    path.write_text(SCENARIO)
    return path


def test_each_kind_of_trouble_is_counted_and_told(command: Command, scenario: Path) -> None:
    ended = command("simulate", scenario)
    assert (ended.returncode, ended.stderr) == (0, "")
    said = " ".join(ended.stdout.split())
    assert "failures 4 ScaleUpTimedOut, 3 FailedToRevertScaleUp, 4 DeleteUnregisteredFailed" in said
    assert "deletions 2 calls refused, or never answered" in said
    assert "pauses 1 of all writes to clouds" in said
    assert "the engine died 1 time, started again 1 time" in said
    told = said.partition("What else happened")[2]
    assert "FailedToRevertScaleUp Failed to withdraw machines of group fake/cheap: refused by the fake" in told
    assert "1 the engine died there again 30 s later" in told
    assert "DeleteUnregisteredFailed Failed to remove node fake:///dear/dear-0: refused by the fake cloud" in told
    assert "Paused Writes to clouds are paused until 1h5m after the start" in told


def test_json_has_the_same_counts(command: Command, scenario: Path) -> None:
    document = json.loads(command("simulate", scenario, "-o", "json").stdout)
    assert {reason: times for reason, times in document["failures"].items() if times} == {
        "ScaleUpTimedOut": 4,
        "FailedToRevertScaleUp": 3,
        "DeleteUnregisteredFailed": 4,
    }
    assert (document["refused_deletions"], document["pauses"]) == (2, 1)
    assert document["engine"] == {"crashes": 1, "stops": 0, "restarts": 1}
    assert {sums["group"]: sums["failed_calls"] for sums in document["groups"]} == {"fake/cheap": 3, "fake/dear": 2}


def test_a_run_without_troubles_tells_none(command: Command, scenario: Path) -> None:
    document = json.loads(command("simulate", scenario, "-o", "json", "--at", "30s").stdout)
    assert set(document["failures"].values()) == {0}
    assert (document["refused_deletions"], document["pauses"]) == (0, 0)
    assert document["engine"] == {"crashes": 0, "stops": 0, "restarts": 0}
    assert "What else happened" not in command("simulate", scenario, "--at", "30s").stdout


def test_a_deletion_budget_that_is_used_up_is_told() -> None:
    result = forgetful().result
    told = {trouble.what: trouble for trouble in find_troubles(result)}
    budget = told["DeletionBudgetExhausted"]
    assert budget.message.endswith("the deletion budget of group fake/pool is used up: 10 machines within 10m")
    assert as_json(result, None)["failures"]["DeletionBudgetExhausted"] == budget.times > 0
