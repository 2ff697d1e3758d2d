"""Defaults of the chart on which the documents rely."""

from pathlib import Path

import yaml

VALUES = yaml.safe_load((Path(__file__).parents[2] / "deploy/chart/values.yaml").read_text())


def test_the_autoscaler_is_a_critical_pod() -> None:
    """kube-scheduler makes room for it by evicting others."""
    assert VALUES["priorityClassName"] == "system-cluster-critical"
