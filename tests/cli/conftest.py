"""Runs the installed command as users do, with test plugins."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.cli.forks import SECONDS, Forks

Finished = subprocess.CompletedProcess[str]
Command = Callable[..., Finished]
AddPlugin = Callable[..., None]

# No settings of the person who runs the tests, and no terminal of theirs.
_KEPT = {name: value for name, value in os.environ.items() if not name.startswith(("NODEWRIGHT", "COLUMNS", "LINES"))}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder from which the command imports packages beside the installed ones."""
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    with Forks(_KEPT) as forks:
        yield forks


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The empty directory in which commands run."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def command(forks: Forks, tmp_path: Path, home: Path, site: Path) -> Command:
    """``command("plan", "-", stdin=…)`` in an empty directory, forked from a process that has imported everything."""

    def call(*args: object, stdin: str = "", env: Mapping[str, str] | None = None, cwd: Path = home) -> Finished:
        whole = {**_KEPT, "PYTHONPATH": str(site), **(env or {})}
        return forks.run([str(arg) for arg in args], stdin=stdin, env=whole, cwd=cwd, folder=tmp_path)

    return call


@pytest.fixture
def new_process(home: Path, site: Path) -> Command:
    """As ``command``, in a new interpreter; no run hangs forever."""

    def call(*args: object, stdin: str = "", env: Mapping[str, str] | None = None, cwd: Path = home) -> Finished:
        return subprocess.run(
            [sys.executable, "-m", "nodewright", *(str(arg) for arg in args)],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
            cwd=cwd,
            env={**_KEPT, "PYTHONPATH": str(site), **(env or {})},
        )

    return call


@pytest.fixture
def add_plugin(site: Path) -> AddPlugin:
    """Installs a provider package: its module's text, and what its entry point says."""

    def add(name: str, source: str, *, target: str = "Provider", distribution: str = "") -> None:
        distribution = distribution or f"nodewright-{name}"
        module = distribution.replace("-", "_")
        (site / f"{module}.py").write_text(source)
        info = site / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[nodewright.providers.v1]\n{name} = {module}:{target}\n")

    return add
