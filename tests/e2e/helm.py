"""Helm, built from its Go module once, and what it makes of our chart."""

import json
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from tests.e2e.binary import CACHE, provide, run_go

CHART = Path(__file__).parents[2] / "deploy" / "chart"
_VERSION = "v3.22.0"
_MODULE = "helm.sh/helm/v3/cmd/helm"
# What `helm template` has no cluster to ask for.
_KUBERNETES = "1.36.2"


def provide_helm(*, may_build: bool) -> Path:
    """Raises Unavailable."""
    return provide(f"helm-{_VERSION}", _build, may_build=may_build)


def _build(binary: Path) -> None:
    folder = CACHE / "helm-partial"
    words = ["install", "-trimpath", "-ldflags", "-s -w", f"{_MODULE}@{_VERSION}"]
    run_go(words, CACHE, {"GOBIN": str(folder), "GOFLAGS": "-buildvcs=false"})
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
