"""The workflows call what exists, and actionlint finds nothing wrong with them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nodewright.model.yaml_text import load_yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yaml"))
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.stem))
def test_every_command_of_a_workflow_exists(path: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = path.read_text()
    called = {word for line in re.findall(r"run: make (.*)", text) for word in line.split()}
    modules = re.findall(r"-m (tests[.\w]+)", text)
    assert called | set(modules), "nothing of this tree is called"
    assert called <= targets
    assert [name for name in modules if not (ROOT / f"{name.replace('.', '/')}.py").exists()] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.stem))
def test_a_workflow_may_only_read_unless_a_job_says_more(path: Path) -> None:
    [workflow] = load_yaml(path.read_text(), path.name)
    assert workflow["permissions"] == {"contents": "read"}


def test_the_tests_run_on_each_python_that_we_name() -> None:
    [workflow] = load_yaml((ROOT / ".github/workflows/ci.yaml").read_text(), "ci.yaml")
    named = re.findall(r"Python :: (3\.\d+)", (ROOT / "core/pyproject.toml").read_text())
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == named


@pytest.mark.slow
def test_actionlint_finds_nothing() -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("actionlint needs Go")
    ended = subprocess.run([go, "run", ACTIONLINT, *WORKFLOWS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
