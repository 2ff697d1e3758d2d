"""Every kind of trouble is printed as a scenario file that means the same and replays the same."""

import json
import subprocess
import sys
from pathlib import Path

import yaml
from hypothesis import given, settings
from tests.faults.facts import Facts
from tests.faults.hunt import Broken
from tests.faults.replay import replay, story
from tests.faults.schedules import Schedule, schedules
from tests.faults.witness import Witness

from nodewright.engine.planning import Planning
from nodewright_simulator.scenario_file import read_scenario

REPOSITORY = Path(__file__).parents[2]
FINDING = "60 s: increase_size of a (0 → 1): above the maximum"
TROUBLED: Schedule = {
    "name": "troubled",
    "duration": 3600,
    "settings": {"max-node-provision-time": "5m", "expander": "price", "scale-down-enabled": False},
    "providers": {
        "fake": {
            "groups": [
                {"name": "a", "cpu": 1, "max_size": 5, "zone": "north", "instance_type": "small", "size": 2},
                {"name": "b", "cpu": 1, "max_size": 5, "zone": "south", "instance_type": "other"},
            ],
            "stock_outs": [{"group": "b", "start": 0, "end": 300, "remaining": 1}],
            "interference": [{"do": "take_back", "group": "a", "start": 900, "machines": 1}],
            "faults": [{"kind": "partial", "hook": "increase_size", "start": 0, "end": 60, "times": 1, "at_most": 0}],
        }
    },
    "deployments": [{"name": "web", "at": 5, "replicas": 4, "pod": {"cpu": "1", "memory": "64Mi"}}],
    "timeline": [
        {"do": "crash", "at": 10, "write": 2, "after_effect": True, "down": 60, "keeps_memory": False},
        {"do": "pause", "at": 400, "for": 60},
        {"do": "unready", "at": 600, "for": 60, "nodes": 1},
        {"do": "restart", "at": 800, "down": 5, "keeps_memory": True},
    ],
}


def printed(schedule: Schedule) -> str:
    return str(Broken("targets", [FINDING], schedule))


@given(schedules())
@settings(max_examples=60, deadline=None, database=None, derandomize=True)
def test_every_schedule_is_printed_as_a_file_that_says_the_same(schedule: Schedule) -> None:
    text = printed(schedule)
    assert text.startswith(f"# Broken: targets\n# {FINDING}\n")
    assert yaml.safe_load(text) == schedule
    assert read_scenario(text, "printed") == read_scenario(json.dumps(schedule), "as drawn")


def test_a_file_replays_what_happened(tmp_path: Path) -> None:
    file = tmp_path / "troubled.yaml"
    file.write_text(printed(TROUBLED))
    first = Witness(read_scenario(json.dumps(TROUBLED), "as drawn"), Planning()).watch()
    again = replay(file).history
    assert (again.loops, again.asked, again.machines) == (first.loops, first.asked, first.machines)
    assert any(write.error or not write.answered for loop in first.loops for write in loop.writes)


def test_the_story_tells_every_write_and_what_became_of_it() -> None:
    facts = Facts(Witness(read_scenario(json.dumps(TROUBLED), "as drawn"), Planning()).watch())
    told = "\n".join(story(facts))
    writes = [write for loop in facts.loops for write in loop.writes]
    assert len(writes) == told.count("\n           ")
    assert "increase_size b: 0 → 2: 0" in told


def run(file: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.faults.replay", str(file)]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_the_command_says_what_is_broken(tmp_path: Path) -> None:
    sound, broken = tmp_path / "sound.yaml", tmp_path / "broken.yaml"
    sound.write_text(printed({**TROUBLED, "duration": 14400}))
    broken.write_text(printed({**TROUBLED, "duration": 60}))
    assert run(sound).returncode == 0
    done = run(broken)
    assert done.returncode == 1
    assert "rest: at the end 2 pods wait that would fit" in done.stdout.splitlines()
