"""Programs that the end-to-end tests need, built from one Go module, once for each state of its sources."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).parent / "farm"
_CACHE = Path(__file__).parent / "build"
_HELM = "helm.sh/helm/v3/cmd/helm"
_STAMP = "k8s.io/component-base/version"
# Debug information, which is not read here, would take a tenth of the compiler's time.
_COMPILED = "all=-dwarf=false"
_ENVIRONMENT = {
    "CGO_ENABLED": "0",
    "GOTOOLCHAIN": "local",
    "GOFLAGS": "-mod=readonly -buildvcs=false",
}


class Unavailable(Exception):
    """Something cannot be had here; the text says why, in one line."""


class Programs(NamedTuple):
    """``farm`` is the control plane and kubectl, by its first argument."""

    farm: Path
    helm: Path


def provide(*, may_build: bool) -> Programs:
    """The cached programs; built first if they may be. One build at a time for all callers. Raises Unavailable."""
    folder = _CACHE / _digest()
    _CACHE.mkdir(exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            if not may_build:
                raise Unavailable("its programs are not built yet: make control-plane builds them (needs Go, minutes)")
            _build(folder)
    return Programs(folder / "farm", folder / "helm")


def _digest() -> str:
    found = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        found.update((SOURCES / name).read_bytes())
    return found.hexdigest()[:16]


def _build(folder: Path) -> None:
    """Both programs at once: they share most packages, and what is compiled of them."""
    go = shutil.which("go")
    if go is None:
        raise Unavailable("no Go on this machine, which the end-to-end tests build their programs with")
    partial = folder.with_suffix(".partial")
    partial.mkdir(exist_ok=True)
    flags = ["-trimpath", f"-gcflags={_COMPILED}", f"-ldflags=-s -w {_stamps()}"]
    result = subprocess.run(
        [go, "build", *flags, "-o", f"{partial}{os.sep}", ".", _HELM],
        cwd=SOURCES,
        env={**os.environ, **_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise Unavailable(f"go build failed: {' '.join(result.stderr[-2000:].split())}")
    partial.replace(folder)


def _stamps() -> str:
    """The version that the API server and kubectl tell, of the module that they are built from."""
    found = re.search(r"k8s\.io/kubernetes v(\d+)\.(\d+)\.(\d+)", (SOURCES / "go.mod").read_text())
    if found is None:
        raise Unavailable("farm/go.mod does not require k8s.io/kubernetes")
    version = {"gitVersion": f"v{'.'.join(found.groups())}", "gitMajor": found[1], "gitMinor": found[2]}
    return " ".join(f"-X {_STAMP}.{key}={value}" for key, value in {**version, "gitTreeState": "clean"}.items())
