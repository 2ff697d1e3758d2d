"""What helm makes of our chart."""

import json
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from tests.e2e.binary import provide

CHART = Path(__file__).parents[2] / "deploy" / "chart"
# What `helm template` has no cluster to ask for.
_KUBERNETES = "1.36.2"


def run_helm(*words: str, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """``values`` go in by stdin."""
    command = [str(provide(may_build=False).helm), *words, *(["--values=-"] if values is not None else [])]
    text = json.dumps(values) if values is not None else None
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


class _Strict(yaml.SafeLoader):
    """A key that stands twice is an error, as to those who apply what helm makes by other means."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        found = super().construct_mapping(node, deep=deep)
        assert len(found) == len(node.value), f"a key stands twice: {node.start_mark}"
        return found


def render(values: Mapping[str, Any], *words: str, chart: Path = CHART) -> list[dict[str, Any]]:
    """The chart's manifests; raises AssertionError with what helm says."""
    where = ("template", "nodewright", str(chart), "--namespace=kube-system", f"--kube-version={_KUBERNETES}")
    result = run_helm(*where, *words, values=values)
    assert result.returncode == 0, result.stderr
    return [document for document in yaml.load_all(result.stdout, _Strict) if document]


@cache
def render_mode(mode: str) -> tuple[dict[str, Any], ...]:
    """The manifests of the chart's defaults in one mode."""
    return tuple(render({"mode": mode}))
