"""Programs that the end-to-end tests need, built from Go modules, once for each state of their sources."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

SOURCES = Path(__file__).parent / "farm"
KUBECTL = Path(__file__).parent / "kubectl"
CACHE = Path(__file__).parent / "build"
_STAMP = "k8s.io/component-base/version"
_FLAGS = "-mod=readonly -buildvcs=false"


class Unavailable(Exception):
    """Something cannot be had here; the text says why, in one line."""


def provide_binary(*, may_build: bool) -> Path:
    """The control plane's one program. Raises Unavailable."""
    return provide(f"farm-{digest(SOURCES)}", _build_farm, may_build=may_build)


def provide_kubectl(*, may_build: bool) -> Path:
    """Raises Unavailable."""
    return provide(f"kubectl-{digest(KUBECTL)}", _build_kubectl, may_build=may_build)


def digest(folder: Path) -> str:
    """Of the sources of one program."""
    found = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        found.update((folder / name).read_bytes())
    return found.hexdigest()[:16]


def provide(name: str, build: Callable[[Path], None], *, may_build: bool) -> Path:
    """The cached program; built first if it may be. One build at a time, whoever asks. Raises Unavailable."""
    binary = CACHE / name
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if binary.exists():
            return binary
        if not may_build:
            raise Unavailable(
                f"{name} is not built yet: make control-plane builds it (needs Go, 8 to 15 minutes in all)"
            )
        build(binary)
    return binary


def run_go(words: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
    """Raises Unavailable."""
    go = shutil.which("go")
    if go is None:
        raise Unavailable("no Go on this machine, which the end-to-end tests build their programs with")
    result = subprocess.run(
        [go, *words],
        cwd=folder,
        env={**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", **env},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise Unavailable(f"go {words[0]} failed: {' '.join(result.stderr[-2000:].split())}")


def _build_farm(binary: Path) -> None:
    found = re.search(r"k8s\.io/kubernetes v(\d+)\.(\d+)\.(\d+)", (SOURCES / "go.mod").read_text())
    if found is None:
        raise Unavailable("farm/go.mod does not require k8s.io/kubernetes")
    version = {"gitVersion": f"v{'.'.join(found.groups())}", "gitMajor": found[1], "gitMinor": found[2]}
    stamps = " ".join(f"-X {_STAMP}.{key}={value}" for key, value in {**version, "gitTreeState": "clean"}.items())
    _build(SOURCES, binary, f"-s -w {stamps}")


def _build_kubectl(binary: Path) -> None:
    _build(KUBECTL, binary, "-s -w")


def _build(folder: Path, binary: Path, linked: str) -> None:
    partial = binary.with_suffix(".partial")
    run_go(["build", "-trimpath", "-ldflags", linked, "-o", str(partial), "."], folder, {"GOFLAGS": _FLAGS})
    partial.replace(binary)
