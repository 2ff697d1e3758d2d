"""The bugs of bench/mutants: every one still fits the code, and those that matter most are caught in seconds."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.faults.hunt import REMOVABLE, without_trouble
from tests.faults.schedules import REMADE

import nodewright

# Kinds of trouble in which machines are smaller than their template says.
_SMALLER = ("small_machines", *REMADE)
TOOL = Path(__file__).parents[2] / "bench" / "mutants.py"
BUGS = [
    bug for file in sorted(TOOL.with_suffix("").glob("*.toml")) for bug in tomllib.loads(file.read_text())["mutant"]
]


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, str(TOOL), *arguments], capture_output=True, text=True, check=False)


def test_each_kind_of_trouble_that_can_be_taken_out_has_a_bug_that_only_it_shows() -> None:
    assert {bug["trouble"] for bug in BUGS if "trouble" in bug} == REMOVABLE.keys()
    assert any(bug.get("clock_jumps") for bug in BUGS)


@pytest.mark.parametrize("bug", BUGS, ids=[bug["name"] for bug in BUGS])
def test_the_text_that_a_bug_replaces_stands_in_the_code_once(bug: dict[str, Any]) -> None:
    assert (Path(nodewright.__path__[0]) / bug["file"]).read_text().count(bug["old"]) == 1


@pytest.mark.slow
def test_bugs_put_into_the_engine_are_caught() -> None:
    done = run("--only", "bought-twice", "--only", "failed-machines-stay", "--output", "json")
    assert done.returncode == 0, done.stderr
    caught = {row["mutant"]: (row["invariant"], row["schedules"] <= 50) for row in json.loads(done.stdout)}
    assert caught == {"bought-twice": ("overbuying", True), "failed-machines-stay": ("failures go", True)}


@pytest.mark.slow
def test_a_bug_that_one_trouble_shows_is_caught_because_of_it() -> None:
    done = run("--only", "unsaved-writes-are-made", "--output", "json")
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)
    assert (row["trouble"], row["invariant"], row["schedules"] <= 10) == ("full_disk", "full disk", True)


@pytest.mark.parametrize("kind", REMOVABLE)
def test_without_its_trouble_a_world_has_all_else(kind: str) -> None:
    kept = {"do": "scale", "at": 5, "deployment": "web", "replicas": 1}
    trouble = [{"do": event, "at": 10, "for": 60} for event in REMOVABLE[kind]]
    odd = [{"do": "restart", "at": 10, "saved": "foreign"}] if kind == "strange_state" else []
    rules = {"interference": [kept, *trouble], "old_reads": [1], "interlopers": [1], "small_machines": [1]}
    clouds = {"fake": {**rules, "groups": [{"size": 80}]}, "dead": {"faults": [{"kind": "hang"}]}}
    bare = without_trouble({"name": kind, "timeline": [kept, *trouble, *odd], "providers": clouds})
    assert bare["timeline"] == bare["providers"]["fake"]["interference"] == [kept]
    lacks = {"flapping_reads": "old_reads", "interlopers": "interlopers"} | dict.fromkeys(_SMALLER, "small_machines")
    assert [name for name in ("old_reads", "interlopers", "small_machines") if not bare["providers"]["fake"][name]] == (
        [lacks[kind]] if kind in lacks else []
    )
    assert (bare["providers"]["fake"]["groups"] == [{"size": 80}]) == (kind != "idle_crowd")
    assert (not bare["providers"]["dead"]["faults"]) == (kind == "dead_provider")


def test_an_unknown_mutant_is_refused() -> None:
    done = run("--only", "nobody")
    assert (done.returncode, done.stderr) == (2, "there is no mutant nobody\n")
