"""The bugs of bench/mutants: every one still fits the code, and those that matter most are caught in seconds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "bench" / "mutants.py"


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, str(TOOL), *arguments], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_bugs_put_into_the_engine_are_caught() -> None:
    done = run("--only", "bought-twice", "--only", "failed-machines-stay", "--output", "json")
    assert done.returncode == 0, done.stderr
    caught = {row["mutant"]: (row["invariant"], row["schedules"] <= 50) for row in json.loads(done.stdout)}
    assert caught == {"bought-twice": ("overbuying", True), "failed-machines-stay": ("failures go", True)}


def test_an_unknown_mutant_is_refused() -> None:
    done = run("--only", "nobody")
    assert (done.returncode, done.stderr) == (2, "there is no mutant nobody\n")
