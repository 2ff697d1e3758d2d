"""Kind ``azure-discovery``: flags, and which scale sets and VM pools of AKS they mean, with which sizes."""

from collections.abc import Mapping, Sequence
from typing import Any

from azure_answers import AnsweredApi, make_provider
from nodewright.spec import ConfigError
from nodewright_azure.agent_pools import split_name
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
    pools = given.get("vmAgentPools", [])
    groups = [
        {"id": one.id, "minSize": one.min_size, "maxSize": one.max_size, **_kind(one.id, pools)}
        for one in provider.node_groups()
    ]
    specs = [parse_discovery(text) for text in discoveries]
    return {
        "groups": sorted(groups, key=lambda one: str(one["id"])),
        "specs": [{"selector": one.selector, "minSize": one.min_size, "maxSize": one.max_size} for one in specs],
    }


def _kind(name: str, pools: Sequence[str]) -> dict[str, str]:
    """A cluster's agent pools decide whether a name with a slash means one of them."""
    split = split_name(name)
    if split is None or split[0] not in pools:
        return {"type": "vmss"}
    return {"type": "vmpool", "agentPool": split[0], "sku": split[1]}
