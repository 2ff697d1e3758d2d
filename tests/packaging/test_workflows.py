"""The workflows call what exists, and actionlint finds nothing wrong with them."""

import base64
import os
import re
import shutil
import subprocess
import tomllib
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


RELEASED = ("core", "simulator", *(f"plugins/{path.parent.name}" for path in ROOT.glob("plugins/*/pyproject.toml")))


def test_what_is_released_names_where_the_project_is_hosted(tmp_path: Path) -> None:
    """By the workflow's own steps: packages, the chart, the image that it asks for, and the site of its alerts."""
    [workflow] = load_yaml((ROOT / ".github/workflows/release.yaml").read_text(), "release.yaml")
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    for folder in RELEASED:
        (tmp_path / folder).mkdir(parents=True)
        shutil.copy(ROOT / folder / "pyproject.toml", tmp_path / folder)
    kit = Path("core/src/nodewright/cli/provider_kit/docs")
    guide = kit / "plugin-guide.md"
    shutil.copytree(ROOT / kit, tmp_path / kit)
    version = tomllib.loads((ROOT / "core/pyproject.toml").read_text())["project"]["version"]
    told = tmp_path / "told"
    given = {"GITHUB_REPOSITORY": "Some/Where", "GITHUB_REF_NAME": f"v{version}", "GITHUB_ENV": str(told)}
    for job, name in (("image", "The image's tag is the version"), ("chart", "The chart asks for the image")):
        [step] = [one for one in workflow["jobs"][job]["steps"] if one.get("name", "").startswith(name)]
        subprocess.run(["bash", "-e", "-c", step["run"]], cwd=tmp_path, env={**os.environ, **given}, check=True)
    variables = dict(line.split("=", 1) for line in told.read_text().splitlines())
    [asked] = load_yaml((tmp_path / "deploy/chart/values.yaml").read_text(), "values.yaml")
    assert variables == {"IMAGE": asked["image"]["repository"], "VERSION": version}
    assert variables["IMAGE"] == "ghcr.io/some/where"
    assert asked["prometheusRule"]["runbookUrl"] == "https://some.github.io/Where/runbooks/"
    [chart] = load_yaml((tmp_path / "deploy/chart/Chart.yaml").read_text(), "Chart.yaml")
    assert chart["home"] == "https://github.com/Some/Where"
    linked = re.findall(
        r"`\]\(https://github.com/Some/Where/blob/main/(\S+)\) in nodewright's", (tmp_path / guide).read_text()
    )
    assert "docs/dra.md" in linked
    assert all((ROOT / path).exists() for path in linked)
    assert f"image: ghcr.io/some/where:{version}\n" in chart["annotations"]["artifacthub.io/images"]
    for folder in RELEASED:
        project = tomllib.loads((tmp_path / folder / "pyproject.toml").read_text())["project"]
        assert project["urls"]["Source"] == "https://github.com/Some/Where"
    [pushed] = [one["with"]["tags"] for one in workflow["jobs"]["image"]["steps"] if "tags" in one.get("with", {})]
    assert pushed == "${{ env.IMAGE }}:${{ env.VERSION }}"


def test_the_icon_of_the_chart_is_that_of_the_site() -> None:
    """It stands in the chart itself, so that it is shown wherever the chart is hosted."""
    [chart] = load_yaml((ROOT / "deploy/chart/Chart.yaml").read_text(), "Chart.yaml")
    kind, _, data = chart["icon"].partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data) == (ROOT / "docs/assets/icon.svg").read_bytes()


@pytest.mark.slow
def test_actionlint_finds_nothing() -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("actionlint needs Go")
    ended = subprocess.run([go, "run", ACTIONLINT, *WORKFLOWS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
