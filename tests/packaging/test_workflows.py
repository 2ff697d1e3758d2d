"""The workflows call what exists, and actionlint finds nothing wrong with them."""

import os
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


def test_a_released_chart_asks_for_the_image_that_is_pushed(tmp_path: Path) -> None:
    [workflow] = load_yaml((ROOT / ".github/workflows/release.yaml").read_text(), "release.yaml")
    [chart] = load_yaml((ROOT / "deploy/chart/Chart.yaml").read_text(), "Chart.yaml")
    values, told = tmp_path / "deploy/chart/values.yaml", tmp_path / "told"
    values.parent.mkdir(parents=True)
    shutil.copy(ROOT / "deploy/chart/values.yaml", values)
    given = {"GITHUB_REPOSITORY": "Some/Where", "GITHUB_REF_NAME": f"v{chart['appVersion']}", "GITHUB_ENV": str(told)}
    for job, name in (("image", "The image's tag is the version"), ("chart", "The chart asks for the image")):
        [step] = [one for one in workflow["jobs"][job]["steps"] if one.get("name", "").startswith(name)]
        subprocess.run(["bash", "-e", "-c", step["run"]], cwd=tmp_path, env={**os.environ, **given}, check=True)
    variables = dict(line.split("=", 1) for line in told.read_text().splitlines())
    [asked] = load_yaml(values.read_text(), "values.yaml")
    assert variables == {"IMAGE": asked["image"]["repository"], "VERSION": chart["appVersion"]}
    assert variables["IMAGE"] == "ghcr.io/some/where"
    [pushed] = [one["with"]["tags"] for one in workflow["jobs"]["image"]["steps"] if "tags" in one.get("with", {})]
    assert pushed == "${{ env.IMAGE }}:${{ env.VERSION }}"


@pytest.mark.slow
def test_actionlint_finds_nothing() -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("actionlint needs Go")
    ended = subprocess.run([go, "run", ACTIONLINT, *WORKFLOWS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
