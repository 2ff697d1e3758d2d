"""The plugin guide's example is real: it type-checks strictly and keeps the contract."""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from nodewright import spec
from nodewright.testkit import FakeClock

ROOT = Path(__file__).parents[2]
ACME = ROOT / "docs" / "examples" / "acme"
GUIDE = ROOT / "docs" / "plugin-guide.md"
HELPERS = ("options", "meter", "exchanges", "gpus", "cache", "zones", "group_options")
SHOWN = {
    "provider.py": ACME / "src/nodewright_acme/provider.py",
    "test_acme.py": ACME / "tests/test_acme.py",
    "test_play.py": ACME / "tests/test_play.py",
    "pyproject.toml": ACME / "pyproject.toml",
}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    source = str(ACME / "src")
    environment = {**os.environ, "PYTHONPATH": source, "MYPYPATH": source}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def shown_files() -> dict[str, str]:
    """The guide's code blocks that are introduced by a file's name."""
    blocks = re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    return {Path(name).name: text for name, text in blocks}


def _context(**options: Any) -> spec.ProviderContext:
    return spec.ProviderContext(clock=FakeClock(), options=options)


def test_the_guide_shows_the_files_as_they_are() -> None:
    shown = shown_files()
    assert set(SHOWN) <= set(shown)
    for name, path in SHOWN.items():
        assert shown[name] == path.read_text(), f"docs/plugin-guide.md differs from {path.relative_to(ROOT)}"


def test_the_shared_helpers_are_there() -> None:
    rows = re.findall(r"^\| `(nodewright\.spec\.\w+)` \| (.*) \|$", GUIDE.read_text(), re.MULTILINE)
    assert {module for module, _ in rows} == {f"nodewright.spec.{name}" for name in HELPERS}
    [shown] = re.findall(
        r"^```python\n(class Options.*?template_interval.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    known = {name: value for module, _ in rows for name, value in vars(import_module(module)).items()}
    given = {"msgspec": msgspec, "spec": spec, "context": _context(template_interval="20m")}
    made: dict[str, Any] = {**known, **given}
    exec(shown, made)  # noqa: S102 - the guide's own lines
    assert (made["options"].template_interval, made["meter"].made(), made["templates"].missing("a")) == (
        1200,
        (),
        ["a"],
    )


def test_the_example_keeps_the_contract() -> None:
    done = run("pytest", "-q", "-p", "no:cacheprovider", str(ACME))
    assert done.returncode == 0, done.stdout
    [shown] = re.findall(r"^tests/test_acme.py::(TestAcme: .*)$", GUIDE.read_text(), re.MULTILINE)
    assert " 0 failed" in shown
    assert shown in done.stdout


def test_the_example_type_checks_strictly() -> None:
    done = run("mypy", "--strict", str(ACME / "src"), str(ACME / "tests"))
    assert done.returncode == 0, done.stdout


def test_the_example_is_short() -> None:
    lines = [line for line in SHOWN["provider.py"].read_text().splitlines() if line.strip()]
    assert len(lines) <= 150
