"""Kind ``gce-discovery``: the texts of the flags."""

from collections.abc import Mapping, Sequence
from typing import Any

from nodewright.spec import ConfigError
from nodewright_gce.discovery import select


def check(case: Mapping[str, Any]) -> list[str]:
    """Errors must be errors; otherwise every value is compared."""
    given, expected = case["input"], case["expected"]
    try:
        found = _explicit(given["nodes"]) if "nodes" in given else _automatic(given)
    except ConfigError as error:
        return [] if "error" in expected else [f"refused: {error}"]
    if "error" in expected:
        return [f"expected the error {expected['error']}, got {found}"]
    return [f"{key}: expected {expected[key]}, got {found[key]}" for key in expected if found[key] != expected[key]]


def _explicit(nodes: Sequence[str]) -> dict[str, Any]:
    groups = [
        {"id": group_id, **named.ref._asdict(), "minSize": named.min_size, "maxSize": named.max_size}
        for group_id, named in select(nodes, ()).named.items()
    ]
    return {"groups": sorted(groups, key=lambda one: str(one["id"]))}


def _automatic(given: Mapping[str, Any]) -> dict[str, Any]:
    specs = []
    for one in select((), given["nodeGroupAutoDiscovery"]).discoveries:
        found = {"nameRegexp": one.name_regexp, "minSize": one.min_size, "maxSize": one.max_size}
        if "candidates" in given:
            found["matches"] = [name for name in given["candidates"] if one.fits(name)]
        specs.append(found)
    return {"specs": specs}
