"""Kind ``aws-discovery``: flags, and what the list call asks for."""

from collections.abc import Mapping
from typing import Any

from aws_answers import AnsweredApi, make_provider
from nodewright.spec import ConfigError
from nodewright_aws.discovery import make_filters, parse_discovery


def check(case: Mapping[str, Any]) -> list[str]:
    """Errors must be errors; otherwise every value is compared."""
    given, expected = case["input"], case["expected"]
    try:
        found = _explicit(given["nodes"]) if "nodes" in given else _automatic(given["nodeGroupAutoDiscovery"])
    except ConfigError as error:
        return [] if "error" in expected else [f"refused: {error}"]
    if "error" in expected:
        return [f"expected the error {expected['error']}, got {found}"]
    return [f"{key}: expected {expected[key]}, got {found[key]}" for key in expected if found[key] != expected[key]]


def _explicit(nodes: list[str]) -> dict[str, Any]:
    provider = make_provider(AnsweredApi({}), *nodes)
    groups = [{"name": one.id, "minSize": one.min_size, "maxSize": one.max_size} for one in provider.node_groups()]
    return {"groups": sorted(groups, key=lambda one: str(one["name"]))}


def _automatic(discoveries: list[str]) -> dict[str, Any]:
    api = AnsweredApi({})
    provider = make_provider(api, discoveries=discoveries)
    provider.refresh(frozenset())
    filters = [one for tags in api.asked_tags for one in make_filters(tags)]
    return {
        "specs": [{"tags": parse_discovery(text)} for text in discoveries],
        "filters": sorted(filters, key=lambda one: (one["Name"], one["Values"])),
        "listCalls": len(api.asked_tags),
    }
