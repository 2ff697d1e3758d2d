"""Compares templates and options of node groups with what CA's providers answer."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from nodewright.spec import GroupOptions, NodeTemplate, Quantity

_FIELDS = {
    "scaleDownUtilizationThreshold": "scale_down_utilization_threshold",
    "scaleDownGpuUtilizationThreshold": "scale_down_gpu_utilization_threshold",
    "scaleDownUnneededSeconds": "scale_down_unneeded_seconds",
    "scaleDownUnreadySeconds": "scale_down_unready_seconds",
    "maxNodeProvisionSeconds": "max_node_provision_seconds",
    "ignoreDaemonSetsUtilization": "ignore_daemonsets_utilization",
}
_HOSTNAME = "kubernetes.io/hostname"


def make_options(defaults: Mapping[str, Any]) -> GroupOptions:
    """A case's defaults."""
    return GroupOptions(**{field: defaults[key] for key, field in _FIELDS.items()})


def compare_options(found: GroupOptions, expected: Mapping[str, Any]) -> list[str]:
    """What differs."""
    got = {key: getattr(found, field) for key, field in _FIELDS.items()}
    return [f"{key}: expected {expected[key]}, got {got[key]}" for key in got if not _same(expected[key], got[key])]


def compare_template(template: NodeTemplate, node: Mapping[str, Any]) -> list[str]:
    """What differs; quantities by value, taints in any order, and the hostname is anybody's."""
    taints = Counter((one.key, one.value, one.effect) for one in template.taints)
    pairs: dict[str, tuple[object, object]] = {
        "capacity": (_amounts(node["capacity"]), template.capacity),
        "allocatable": (_amounts(node["allocatable"]), template.allocatable),
        "labels": (_labels(node["labels"]), _labels(template.labels)),
        "taints": (Counter((one["key"], one["value"], one["effect"]) for one in node["taints"]), taints),
    }
    return [f"{what}: expected {wanted}, got {got}" for what, (wanted, got) in pairs.items() if wanted != got]


def _labels(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key != _HOSTNAME}


def _same(wanted: object, got: object) -> bool:
    """ "NaN" and "Inf" are texts in the cases."""
    return (
        str(float(wanted)) == str(float(got)) if isinstance(wanted, str) and isinstance(got, float) else wanted == got
    )


def _amounts(texts: Mapping[str, str]) -> dict[str, Quantity]:
    return {resource: Quantity.of(text) for resource, text in texts.items()}
