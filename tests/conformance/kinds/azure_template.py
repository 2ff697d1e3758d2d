"""Kind ``azure-template``: what a scale set's next node looks like, and the set's options.

Cases of VM pools of AKS fail, and are argued: the plugin serves scale sets.
"""

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


def check(case: Mapping[str, Any]) -> list[str]:
    given, expected = case["input"], case["expected"]
    if "agentPool" in given:
        return ["VM pools of AKS are not served"]
    one, config = given["virtualMachineScaleSet"], given["config"]
    dynamic = config.get("enableDynamicInstanceList", False)
    api = AnsweredApi(
        {**given, "virtualMachineScaleSets": [one], "resourceSkus": given.get("resourceSkus", []) if dynamic else []}
    )
    provider = make_provider(
        api,
        f"0:10:{one['name']}",
        predict_labels=config.get("enableLabelPredictionsOnTemplate", True),
        instance_types=_table(one, given.get("instanceType")),
    )
    provider.refresh(frozenset())
    differences = []
    if "options" in expected:
        options = provider.group_options(one["name"], make_options(given["defaults"]))
        differences = compare_options(options, expected["options"])
    try:
        template = provider.template_node(one["name"])
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
    return [*differences, *compare_template(template, expected["node"])]


def _table(one: Mapping[str, Any], facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """The row of CA's built-in table, as a row of our options."""
    if facts is None or not one.get("sku"):
        return {}
    row = {"cpu": facts["vCPU"], "memory_mib": facts["memoryMiB"], "gpu": facts["gpu"]}
    return {one["sku"]["name"]: {**row, "architecture": facts["architecture"]}}
