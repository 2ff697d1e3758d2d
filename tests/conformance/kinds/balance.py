"""Kind ``balance``: dealing new nodes to groups."""

from collections.abc import Mapping
from typing import Any

from nodewright.planner.scale_up.balancing import balance_sizes


def check(case: Mapping[str, Any]) -> list[str]:
    """What differs from the expected sizes; empty when nothing does."""
    groups, expected = case["input"]["groups"], case["expected"]
    sizes = [(group["targetSize"], group["maxSize"]) for group in groups]
    try:
        new = balance_sizes(sizes, case["input"]["newNodes"])
    except ValueError as error:
        return [] if expected.get("error") else [str(error)]
    if expected.get("error"):
        return [f"expected an error, got {new}"]
    changed = {g["id"]: size for g, size in zip(groups, new, strict=True) if size != g["targetSize"]}
    added = sum(new) - sum(current for current, _ in sizes)
    found = {"newSizes": changed, "added": added}
    return [] if found == expected else [f"expected {expected}, got {found}"]
