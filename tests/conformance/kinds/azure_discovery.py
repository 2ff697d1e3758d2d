"""Kind ``azure-discovery``: flags, and which scale sets they mean with which sizes.

Cases of VM pools of AKS fail, and are argued: the plugin serves scale sets.
"""

from collections.abc import Mapping
from typing import Any

from azure_answers import AnsweredApi, make_provider
from nodewright.spec import ConfigError
from nodewright_azure.discovery import parse_discovery


def check(case: Mapping[str, Any]) -> list[str]:
    """Errors must be errors; otherwise every value is compared."""
    given, expected = case["input"], case["expected"]
    try:
        found = _find(given)
    except ConfigError as error:
        return [] if "error" in expected else [f"refused: {error}"]
    if "error" in expected:
        return [f"expected the error {expected['error']}, got {found}"]
    return [f"{key}: expected {expected[key]}, got {found[key]}" for key in expected if found[key] != expected[key]]


def _find(given: Mapping[str, Any]) -> dict[str, Any]:
    discoveries = given.get("nodeGroupAutoDiscovery", [])
    provider = make_provider(AnsweredApi(given), *given.get("nodes", []), discoveries=discoveries)
    provider.refresh(frozenset())
    groups = [
        {"id": one.id, "minSize": one.min_size, "maxSize": one.max_size, "type": "vmss"}
        for one in provider.node_groups()
    ]
    specs = [parse_discovery(text) for text in discoveries]
    return {
        "groups": sorted(groups, key=lambda one: str(one["id"])),
        "specs": [{"selector": one.selector, "minSize": one.min_size, "maxSize": one.max_size} for one in specs],
    }
