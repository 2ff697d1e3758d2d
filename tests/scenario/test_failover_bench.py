"""The failover benchmark as its users run it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from false_failovers import count_false_failovers

BENCH = Path(__file__).parents[2] / "bench" / "failover.py"
MODES = ["fast", "prompt", "auto", "ca", "ca-fast", "seed"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_it_prints_a_row_for_each_scenario_and_mode() -> None:
    ended = run("seed-1", "seed-3", "--output", "json")
    assert (ended.returncode, ended.stderr) == (0, "")
    rows: list[dict[str, Any]] = json.loads(ended.stdout)
    assert [(row["scenario"], row["mode"]) for row in rows] == [(s, m) for s in ("seed-1", "seed-3") for m in MODES]
    minutes = {(row["scenario"], row["mode"]): row["minutes_to_next_group"] for row in rows}
    assert minutes["seed-1", "fast"] <= 0.17
    assert 15 < minutes["seed-1", "prompt"] <= 15.17
    assert minutes["seed-1", "auto"] < minutes["seed-1", "prompt"] / 2
    assert minutes["seed-1", "ca-fast"] <= 0.17
    assert minutes["seed-1", "ca"] > 15
    assert minutes["seed-1", "seed"] >= 90, "as the document tells"
    assert minutes["seed-3", "seed"] is None, "a human must come"
    assert 15 < minutes["seed-3", "prompt"] < 16
    assert all(row["minutes_to_all_running"] is None or row["scale_ups"] > 0 for row in rows)
    assert all(row["wasted_node_hours"] >= 0 for row in rows)


def test_an_unknown_scenario_is_refused() -> None:
    ended = run("seed-9")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("no scenario of the name seed-9; known: seed-1,")


@pytest.mark.parametrize(("place", "deadline"), [("unlisted", "3m"), ("booting", "8m")])
def test_false_failovers_are_told_machine_by_machine(place: str, deadline: str) -> None:
    """With deadlines of so few minutes, twice as many after arrivals, every machine that is given up is so before the ordinary time is over."""
    counted = count_false_failovers("prompt", {"max-node-provision-time": deadline}, place, arrivals=400)
    assert counted["arrivals"] >= 400
    assert counted["given_up"] == counted["early"] > counted["slow"]
    assert counted["adopted"] + counted["killed"] == counted["given_up"]
