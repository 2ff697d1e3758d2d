"""Builds the distributions, and clean environments to install them into."""

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = (
    "core",
    "plugins/aws",
    "plugins/azure",
    "plugins/externalgrpc",
    "plugins/fake",
    "plugins/gce",
    "simulator",
)
Run = Callable[..., str]
Install = Callable[..., Path]

_UNREACHABLE = ("connection", "name resolution", "timed out", "max retries", "network is unreachable", "proxy")


def _run(*command: str | Path, cwd: Path | None = None) -> str:
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("NODEWRIGHT", "PYTHON", "COLUMNS"))
    }
    ended = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=240
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="session")
def run() -> Run:
    """``run("pip", "list", cwd=…)``: what the command printed; a failure shows all of its output."""
    return _run


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution of everything that we publish."""
    folder = tmp_path_factory.mktemp("wheels")
    for distribution in DISTRIBUTIONS:
        _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT / distribution)
    return folder


@pytest.fixture
def install(wheels: Path, tmp_path: Path) -> Install:
    """``install("nodewright[fake]", constraints=…, python=…)`` into a new environment; answers its bin folder.

    Without a package index the test is skipped, but not in CI.
    """

    def call(*packages: str, constraints: Sequence[str] = (), python: str | Path = sys.executable) -> Path:
        home = tmp_path / "clean"
        _run(python, "-m", "venv", "--without-pip", home)
        bounds = tmp_path / "constraints.txt"
        bounds.write_text("\n".join(constraints))
        options = ["--quiet", "--disable-pip-version-check", "--find-links", str(wheels), "--constraint", str(bounds)]
        options += ["--retries", "2", "--timeout", "20"]
        pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--no-compile"]
        ended = subprocess.run([*pip, *options, *packages], capture_output=True, text=True, check=False, timeout=300)
        judge(ended)
        return home / "bin"

    return call


def judge(ended: "subprocess.CompletedProcess[str]") -> None:
    """Of an installation: skips the test if it failed for want of a package index, but not in CI."""
    if ended.returncode and os.environ.get("CI") != "true" and _lacks_network(ended.stderr):
        pytest.skip("no package index can be reached")
    assert ended.returncode == 0, ended.stderr


def _lacks_network(complaint: str) -> bool:
    return any(sign in complaint.lower() for sign in _UNREACHABLE)


@cache
def names_in(path: Path) -> frozenset[str]:
    """Functions, classes, their members, and constants of a module."""
    return frozenset(_names(ast.parse(path.read_text()).body, ""))


def _names(body: Iterable[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from _names(node.body, f"{node.name}.")
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))
