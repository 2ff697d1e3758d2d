"""Helm, built from its Go module once, and what it makes of our chart."""

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from tests.e2e.binary import CACHE, Unavailable

CHART = Path(__file__).parents[2] / "deploy" / "chart"
_VERSION = "v3.22.0"
_MODULE = "helm.sh/helm/v3/cmd/helm"
# What `helm template` has no cluster to ask for.
_KUBERNETES = "1.36.2"


def provide_helm(*, may_build: bool) -> Path:
    """The cached program; built first if it may be. Raises Unavailable."""
    binary = CACHE / f"helm-{_VERSION}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if binary.exists():
            return binary
        if not may_build:
            raise Unavailable("no helm is built yet: make control-plane builds it (needs Go, 2 to 4 minutes)")
        _build(binary)
    return binary


def _build(binary: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise Unavailable("no Go on this machine, which helm is built with")
    folder = CACHE / "helm-partial"
    result = subprocess.run(
        ["nice", "-n", "10", go, "install", "-trimpath", "-ldflags", "-s -w", f"{_MODULE}@{_VERSION}"],
        env={
            **os.environ,
            "CGO_ENABLED": "0",
            "GOBIN": str(folder),
            "GOTOOLCHAIN": "local",
            "GOFLAGS": "-buildvcs=false",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise Unavailable(f"go install of helm failed: {' '.join(result.stderr[-2000:].split())}")
    (folder / "helm").replace(binary)


def run_helm(*words: str, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """``values`` go in by stdin."""
    command = [str(provide_helm(may_build=False)), *words, *(["--values=-"] if values is not None else [])]
    text = json.dumps(values) if values is not None else None
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def render(values: Mapping[str, Any], *words: str) -> list[dict[str, Any]]:
    """The chart's manifests; raises AssertionError with what helm says."""
    where = ("template", "nodewright", str(CHART), "--namespace=kube-system", f"--kube-version={_KUBERNETES}")
    result = run_helm(*where, *words, values=values)
    assert result.returncode == 0, result.stderr
    return [document for document in yaml.safe_load_all(result.stdout) if document]


@cache
def render_mode(mode: str) -> tuple[dict[str, Any], ...]:
    """The manifests of the chart's defaults in one mode."""
    return tuple(render({"mode": mode}))
