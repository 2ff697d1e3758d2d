"""The image's recipe, as far as it can be checked without building it."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "deploy" / "Dockerfile"
TEXT = RECIPE.read_text()


def test_what_is_copied_is_there() -> None:
    sources = [word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", TEXT, re.MULTILINE) for word in line.split()]
    assert sources == ["constraints.txt", "core", "plugins"]
    assert all((ROOT / source).exists() for source in sources)


def test_every_provider_is_in_it_unless_others_are_named() -> None:
    [named] = re.findall(r'^ARG PROVIDERS="(.*)"$', TEXT, re.MULTILINE)
    assert named.split() == sorted(path.parent.name for path in (ROOT / "plugins").glob("*/pyproject.toml"))


def test_it_does_not_run_as_root() -> None:
    final = TEXT.rpartition("\nFROM ")[2]
    assert re.findall(r"^USER (\d+):(\d+)$", final, re.MULTILINE) == [("65532", "65532")]
    values = (ROOT / "deploy" / "chart" / "values.yaml").read_text()
    assert "runAsUser: 65532" in values


def test_lint() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    result = subprocess.run([hadolint, RECIPE], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
