"""The template of a plugin package: what it makes is the guide's example, passes its tests, and can be installed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ACME = ROOT / "docs" / "examples" / "acme"

Finished = subprocess.CompletedProcess[str]
Render = Callable[..., Path]


def python(*args: object, path: Path, cwd: Path) -> Finished:
    environment = {**os.environ, "PYTHONPATH": str(path)}
    command = [sys.executable, "-m", *(str(arg) for arg in args)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def render(tmp_path: Path) -> Render:
    """``render(name="acme")``: the folder that the template makes of these answers."""

    def copy(**answers: str) -> Path:
        made = tmp_path / "made"
        data = [part for name, answer in answers.items() for part in ("--data", f"{name}={answer}")]
        done = python(
            "copier", "copy", "--defaults", *data, ROOT / "plugins/template", made, path=tmp_path, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return made

    return copy


def test_the_guides_example_is_what_the_template_makes(render: Render) -> None:
    made = render(name="acme")
    assert files(made) == files(ACME)


def test_a_new_plugin_passes_its_tests_at_once(render: Render) -> None:
    made = render(name="blue-sky", title="Blue Sky")
    done = python(
        "pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", "tests", path=made / "src", cwd=made
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "TestBlueSky: " in done.stdout
    assert " 0 failed" in done.stdout


def test_a_new_plugin_can_be_installed_and_is_listed(render: Render, tmp_path: Path) -> None:
    made, site = render(name="blue-sky", title="Blue Sky"), tmp_path / "site"
    install = ("install", "--no-deps", "--no-build-isolation", "--no-index", "--target", site, made)
    done = python("pip", *install, path=tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    listed = python("nodewright", "providers", "--output", "json", path=site, cwd=tmp_path)
    found = {plugin["name"]: plugin for plugin in json.loads(listed.stdout)["providers"]}
    assert (found["blue-sky"]["distribution"], found["blue-sky"]["problem"]) == ("nodewright-blue-sky", None)


@pytest.mark.parametrize("name", ["Acme", "two words", "", "-dash"])
def test_a_name_that_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    answers = ("--defaults", "--data", f"name={name}")
    done = python("copier", "copy", *answers, ROOT / "plugins/template", tmp_path / "made", path=tmp_path, cwd=tmp_path)
    assert done.returncode != 0
    assert "lower case, digits and dashes" in done.stderr


def files(folder: Path) -> dict[str, str]:
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_text() for path in paths}
