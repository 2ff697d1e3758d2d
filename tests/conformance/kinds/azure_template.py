"""Kind ``azure-template``: what the next node of a scale set or a VM pool looks like, and the group's options."""

from collections.abc import Mapping
from typing import Any

import msgspec

from azure_answers import AnsweredApi, make_provider
from nodewright.spec import ProviderError
from templates import compare_options, compare_template, make_options

_ZONES = (
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
    "topology.disk.csi.azure.com/zone",
)
_TEMPLATE_TAG = "k8s.io_cluster-autoscaler_node-template_"


def check(case: Mapping[str, Any]) -> list[str]:
    given, expected = case["input"], case["expected"]
    name, size = _group(given)
    sets = [given["virtualMachineScaleSet"]] if "virtualMachineScaleSet" in given else []
    dynamic = given["config"].get("enableDynamicInstanceList", False)
    skus = given.get("resourceSkus", []) if dynamic else []
    provider = make_provider(
        AnsweredApi({**given, "virtualMachineScaleSets": sets, "resourceSkus": skus}),
        f"0:10:{name}",
        predict_labels=given["config"].get("enableLabelPredictionsOnTemplate", True),
        instance_types=_table(size, given.get("instanceType")),
    )
    provider.refresh(frozenset())
    differences = []
    if "options" in expected:
        options = provider.group_options(name, make_options(given["defaults"]))
        differences = compare_options(options, expected["options"])
    try:
        template = provider.template_node(name)
    except ProviderError as error:
        return differences if "error" in expected else [*differences, f"no template: {error}"]
    if "node" not in expected:
        return [*differences, f"expected {expected.get('error', 'a crash')}, got a template"]
    any_of = expected["node"].get("zoneLabelsAnyOf")
    if any_of:
        zones = {template.labels.get(key) for key in _ZONES}
        differences += (
            [] if len(zones) == 1 and zones <= set(any_of) else [f"zones: expected one of {any_of}, got {zones}"]
        )
        labels = {key: value for key, value in template.labels.items() if key not in _ZONES}
        template = msgspec.structs.replace(template, labels=labels)
    return [*differences, *compare_template(template, _without_template_tags(expected["node"]))]


def _without_template_tags(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return CA's node without labels that are tags about the template: no node has them, so ours has none."""
    labels = {key: value for key, value in node.get("labels", {}).items() if not key.startswith(_TEMPLATE_TAG)}
    return {**node, "labels": labels} if "labels" in node else node


def _group(given: Mapping[str, Any]) -> tuple[str, str]:
    """The group's name and the size of its machines; empty if the case tells none."""
    if "agentPool" in given:
        return f"{given['agentPool']['name']}/{given['sku']}", given["sku"]
    one = given["virtualMachineScaleSet"]
    return one["name"], (one.get("sku") or {}).get("name", "")


def _table(size: str, facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """The row of CA's built-in table, as a row of our options."""
    if facts is None or not size:
        return {}
    row = {"cpu": facts["vCPU"], "memory_mib": facts["memoryMiB"], "gpu": facts["gpu"]}
    return {size: {**row, "architecture": facts["architecture"]}}
