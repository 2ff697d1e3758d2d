"""The image's recipe, as far as it can be checked without building it."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "deploy" / "Dockerfile"
TEXT = RECIPE.read_text()


SOURCES = [word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", TEXT, re.MULTILINE) for word in line.split()]


def test_what_is_copied_is_there() -> None:
    assert SOURCES == ["deploy/locked", "deploy/chart", "core", "plugins"]
    assert all((ROOT / source).exists() for source in SOURCES)


def test_nothing_else_is_sent_to_the_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    first, *others = [line for line in lines if not line.startswith("#")]
    assert first == "*"
    assert [line[1:] for line in others if line.startswith("!")] == SOURCES
    left_out = {line.removeprefix("**/") for line in others if line.startswith("**/")}
    packages = [package for where in ("core", "plugins/*") for package in ROOT.glob(f"{where}/src")]
    there = {path.name for package in packages for path in package.rglob("*") if path.is_dir()}
    assert left_out & there <= {"__pycache__"}


def test_what_is_compiled_in_the_image_is_there() -> None:
    [module] = re.findall(r'^RUN python -c "import (\S+)"$', TEXT, re.MULTILINE)
    assert importlib.util.find_spec(module) is not None


def test_every_provider_is_in_it_unless_others_are_named() -> None:
    [named] = re.findall(r'^ARG PROVIDERS="(.*)"$', TEXT, re.MULTILINE)
    assert named.split() == sorted(path.parent.name for path in (ROOT / "plugins").glob("*/pyproject.toml"))


def test_it_does_not_run_as_root() -> None:
    final = TEXT.rpartition("\nFROM ")[2]
    assert re.findall(r"^USER (\d+):(\d+)$", final, re.MULTILINE) == [("65532", "65532")]
    values = (ROOT / "deploy" / "chart" / "values.yaml").read_text()
    assert "runAsUser: 65532" in values


@pytest.mark.parametrize("recipe", [RECIPE, ROOT / "docs/examples/acme/Dockerfile"])
def test_lint(recipe: Path) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    result = subprocess.run([hadolint, recipe], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
