"""From wheels into clean environments, without constraints.txt: it resolves, runs, and is typed for others."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nodewright.model.yaml_text import load_yaml

ROOT = Path(__file__).parents[2]
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
PLUGINS = ("aws", "azure", "externalgrpc", "fake", "gce")
MANIFESTS = ("core/pyproject.toml", *(f"plugins/{name}/pyproject.toml" for name in PLUGINS), "simulator/pyproject.toml")
OWN = ("nodewright", *(f"nodewright-{name}" for name in PLUGINS), "nodewright-simulator")

Run = Callable[..., str]
Install = Callable[..., Path]

_LIST_VERSIONS = """
import importlib.metadata, json
print(json.dumps({found.name.lower().replace("_", "-"): found.version for found in importlib.metadata.distributions()}))
"""
_CONSUMER = """
from nodewright import spec

class Mine:
    @spec.hookimpl
    def target_size(self, group_id: str) -> int:
        return len(group_id)

group = spec.NodeGroup(id="a", min_size=0, max_size=3)
reveal_type(group.max_size)
reveal_type(Mine().target_size("a"))
spec.NodeGroup(id=7, min_size=0, max_size=3)
"""


@pytest.mark.slow
def test_a_clean_install_runs_the_demo(install: Install, run: Run, tmp_path: Path) -> None:
    bin_folder = install("nodewright[all,sweep,pandas]")
    said = run(bin_folder / "nodewright", "demo", "--report", tmp_path / "demo.html", cwd=tmp_path)
    assert "demo.html" in said
    assert (tmp_path / "demo.html").stat().st_size > 10_000
    found = json.loads(run(bin_folder / "nodewright", "providers", "--output", "json"))["providers"]
    assert [plugin["name"] for plugin in found] == list(PLUGINS)
    # Some cannot say anything without their options; a plugin that cannot be imported says something else.
    problems = [plugin["problem"] for plugin in found if plugin["problem"] is not None]
    assert [problem for problem in problems if not problem.startswith("its options (")] == []
    _assert_no_version_is_too_old(json.loads(run(bin_folder / "python", "-c", _LIST_VERSIONS)))
    _assert_typed_for_others(run, bin_folder, tmp_path)


@pytest.mark.slow
def test_a_new_plugin_passes_its_tests_from_wheels(install: Install, run: Run, tmp_path: Path) -> None:
    bin_folder = install("nodewright[simulator]", "pytest", "hatchling", "pip")
    made = tmp_path / "nodewright-blue-sky"
    run(bin_folder / "nodewright", "provider", "new", "blue-sky", cwd=tmp_path)
    run(bin_folder / "pip", "install", "--no-deps", "--no-build-isolation", made)
    said = run(bin_folder / "pytest", "-q", cwd=made)
    assert "TestBlueSky: " in said
    assert " 0 failed" in said
    assert "test_play" not in said  # only failures are named


@pytest.mark.slow
def test_the_lower_bounds_are_real(install: Install, run: Run, tmp_path: Path) -> None:
    """Exactly the oldest versions that the manifests allow: they install together, and the demo runs."""
    oldest = {found.name: found for found in _requirements() if found.name not in OWN}
    pins = [f"{name}=={_lower_bound(found)}" for name, found in oldest.items()]
    bin_folder = install("nodewright[all,sweep,pandas]", constraints=pins)
    said = run(bin_folder / "nodewright", "demo", "--report", tmp_path / "demo.html", cwd=tmp_path)
    assert "demo.html" in said


@pytest.mark.slow
@pytest.mark.parametrize("version", [version for version in SUPPORTED if version != f"3.{sys.version_info.minor}"])
def test_the_other_pythons_that_we_name(install: Install, run: Run, tmp_path: Path, version: str) -> None:
    python = _find_python(version)
    if python is None:
        pytest.skip(f"no Python {version} is at hand")
    bin_folder = install("nodewright[all]", python=python)
    said = run(bin_folder / "python", "-W", "error", "-m", "nodewright", "demo", "--report", tmp_path / "demo.html")
    assert "demo.html" in said
    found = json.loads(run(bin_folder / "nodewright", "providers", "--output", "json"))["providers"]
    assert [plugin["name"] for plugin in found] == list(PLUGINS)


def _find_python(version: str) -> Path | None:
    """Return an interpreter of this version that runs, from PATH or from pyenv; None if there is none."""
    on_path = shutil.which(f"python{version}")
    of_pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser().glob(f"versions/{version}.*/bin/python")
    for python in (*([Path(on_path)] if on_path else []), *of_pyenv):
        if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return python
    return None


def test_every_distribution_says_the_same_of_itself() -> None:
    """One version, the same Pythons and authors; the chart installs the version that it is made for."""
    projects = [tomllib.loads((ROOT / manifest).read_text())["project"] for manifest in MANIFESTS]
    for key in ("version", "requires-python", "license", "authors", "classifiers"):
        assert len({str(project[key]) for project in projects}) == 1, key
    prefix = "Programming Language :: Python :: 3."
    named = [text.removeprefix(prefix) for text in projects[0]["classifiers"] if text.startswith(prefix)]
    assert tuple(f"3.{minor}" for minor in named) == SUPPORTED
    chart = load_yaml((ROOT / "deploy/chart/Chart.yaml").read_text(), "Chart.yaml")[0]
    assert {chart["version"], chart["appVersion"]} == {projects[0]["version"]}


def test_every_dependency_has_a_lower_bound() -> None:
    assert all(_lower_bound(found) for found in _requirements() if not found.extras)


def _requirements() -> Iterator[Requirement]:
    for manifest in MANIFESTS:
        project = tomllib.loads((ROOT / manifest).read_text())["project"]
        extras = project.get("optional-dependencies", {}).values()
        for text in (*project["dependencies"], *(one for extra in extras for one in extra)):
            yield Requirement(text)


def _lower_bound(found: Requirement) -> str:
    return next((bound.version for bound in found.specifier if bound.operator == ">="), "")


def _assert_no_version_is_too_old(installed: dict[str, str]) -> None:
    for found in _requirements():
        version = installed[canonicalize_name(found.name)]
        assert found.specifier.contains(version), f"{found.name} {version}, not {found.specifier}"


def _assert_typed_for_others(run: Run, bin_folder: Path, tmp_path: Path) -> None:
    """mypy sees the installed package's types, from outside and without our configuration."""
    (tmp_path / "consumer.py").write_text(_CONSUMER)
    python = bin_folder / "python"
    checked = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]) not in (0, 1))"
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "consumer.py")
    said = run(sys.executable, "-c", checked, *mypy, cwd=tmp_path)
    assert said.count('Revealed type is "int"') + said.count('Revealed type is "builtins.int"') == 2
    assert 'Argument "id" to "NodeGroup" has incompatible type "int"; expected "str"' in said
    assert "Found 1 error" in said
