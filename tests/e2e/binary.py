"""The control plane's one Go program: built from Go modules, once for each state of its sources."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent / "farm"
CACHE = Path(__file__).parent / "build"
_STAMP = "k8s.io/component-base/version"
_FLAGS = "-mod=readonly -buildvcs=false"


class Unavailable(Exception):
    """The control plane cannot be had here; the text says why, in one line."""


def find_binary() -> Path:
    """Where the program for the present sources is, or would be."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        digest.update((SOURCES / name).read_bytes())
    return CACHE / f"farm-{digest.hexdigest()[:16]}"


def provide_binary(*, may_build: bool) -> Path:
    """The cached program; built first if it may be. One build at a time, whoever asks. Raises Unavailable."""
    binary = find_binary()
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if binary.exists():
            return binary
        if not may_build:
            raise Unavailable("no control plane is built yet: make control-plane builds it (needs Go, 4 to 8 minutes)")
        _build(binary)
    return binary


def _build(binary: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise Unavailable("no Go on this machine, which the control plane is built with")
    found = re.search(r"k8s\.io/kubernetes v(\d+)\.(\d+)\.(\d+)", (SOURCES / "go.mod").read_text())
    if found is None:
        raise Unavailable("farm/go.mod does not require k8s.io/kubernetes")
    version = {"gitVersion": f"v{'.'.join(found.groups())}", "gitMajor": found[1], "gitMinor": found[2]}
    stamps = " ".join(f"-X {_STAMP}.{key}={value}" for key, value in {**version, "gitTreeState": "clean"}.items())
    partial = binary.with_suffix(".partial")
    result = subprocess.run(
        ["nice", "-n", "10", go, "build", "-trimpath", "-ldflags", f"-s -w {stamps}", "-o", str(partial), "."],
        cwd=SOURCES,
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": _FLAGS, "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise Unavailable(f"go build failed: {' '.join(result.stderr[-2000:].split())}")
    partial.replace(binary)
