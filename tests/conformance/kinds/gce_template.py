"""Kind ``gce-template``: what a group's next node looks like, and the group's options.

CA's amounts may be below zero (a small disk less what is reserved of it); the contract knows no such amounts, and
they are zero here.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from gce_answers import AnsweredApi, make_provider
from nodewright.spec import GroupOptions, NodeTemplate, ProviderError, Quantity
from nodewright_gce.provider import GceProvider

_FIELDS = {
    "scaleDownUtilizationThreshold": "scale_down_utilization_threshold",
    "scaleDownGpuUtilizationThreshold": "scale_down_gpu_utilization_threshold",
    "scaleDownUnneededSeconds": "scale_down_unneeded_seconds",
    "scaleDownUnreadySeconds": "scale_down_unready_seconds",
    "maxNodeProvisionSeconds": "max_node_provision_seconds",
    "ignoreDaemonSetsUtilization": "ignore_daemonsets_utilization",
}
_HOSTNAME = "kubernetes.io/hostname"


def check(case: Mapping[str, Any]) -> list[str]:
    given, expected = case["input"], case["expected"]
    api = AnsweredApi(given)
    provider = make_provider(api, f"0:10:{api.ref.group_id}")
    provider.refresh(frozenset())
    differences = _compare_options(provider, api.ref.group_id, given["defaults"], expected["options"])
    try:
        template = provider.template_node(api.ref.group_id)
    except ProviderError as error:
        return differences if "error" in expected else [*differences, f"no template: {error}"]
    if "node" not in expected:
        return [*differences, f"expected {expected['error']}, got a template"]
    return [*differences, *_compare(template, expected["node"])]


def _compare(template: NodeTemplate, node: Mapping[str, Any]) -> list[str]:
    taints = Counter((one.key, one.value, one.effect) for one in template.taints)
    labels = {key: value for key, value in template.labels.items() if key != _HOSTNAME}
    pairs: dict[str, tuple[object, object]] = {
        "capacity": (_amounts(node["capacity"]), template.capacity),
        "allocatable": (_amounts(node["allocatable"]), template.allocatable),
        "labels": ({key: value for key, value in node["labels"].items() if key != _HOSTNAME}, labels),
        "annotations": (node["annotations"], template.annotations),
        "taints": (Counter((one["key"], one["value"], one["effect"]) for one in node["taints"]), taints),
    }
    return [f"{what}: expected {wanted}, got {got}" for what, (wanted, got) in pairs.items() if wanted != got]


def _compare_options(
    provider: GceProvider, group_id: str, defaults: Mapping[str, Any], expected: Mapping[str, Any]
) -> list[str]:
    given = GroupOptions(**{field: defaults[key] for key, field in _FIELDS.items()})
    found = provider.group_options(group_id, given)
    got = {key: getattr(found, field) for key, field in _FIELDS.items()}
    return [f"{key}: expected {expected[key]}, got {got[key]}" for key in got if not _same(expected[key], got[key])]


def _same(wanted: object, got: object) -> bool:
    """ "NaN" and "Inf" are texts in the cases."""
    return (
        str(float(wanted)) == str(float(got)) if isinstance(wanted, str) and isinstance(got, float) else wanted == got
    )


def _amounts(texts: Mapping[str, str]) -> dict[str, Quantity]:
    return {resource: max(Quantity(0), Quantity.of(text)) for resource, text in texts.items()}
