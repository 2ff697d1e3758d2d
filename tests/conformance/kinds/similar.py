"""Kind ``similar``: are two groups of one kind? The vendors' label sets come with their plugins."""

from collections.abc import Mapping
from typing import Any

from nodewright.estimator.binpacking import Template
from nodewright.model.decode import convert_object
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.settings import ScaleUpSettings
from nodewright.planner.scale_up.balancing import are_similar, share_a_label
from nodewright_aws.provider import IGNORED_LABELS as AWS
from nodewright_azure.provider import IGNORED_LABELS as AZURE
from nodewright_azure.provider import POOL_LABELS as AZURE_POOLS
from nodewright_gce.provider import IGNORED_LABELS as GCE

# A vendor's labels that tell nothing, and those of which an equal value tells enough.
_VENDORS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "generic": ((), ()),
    "aws": (AWS, ()),
    "azure": (AZURE, AZURE_POOLS),
    "gce": (GCE, ()),
}


def check(case: Mapping[str, Any]) -> list[str]:
    """The comparators whose answer differs."""
    given = case["input"]
    a, b = (_template(given[side]) for side in ("a", "b"))
    settings = ScaleUpSettings(
        max_allocatable_difference_ratio=given.get("maxAllocatableDifferenceRatio", 0.05),
        max_free_difference_ratio=given.get("maxFreeDifferenceRatio", 0.05),
        memory_difference_ratio=given.get("maxCapacityMemoryDifferenceRatio", 0.015),
    )
    extra = given.get("extraIgnoredLabels", ())
    found = {
        vendor: share_a_label(a, b, decisive) or are_similar(a, b, settings, (*extra, *ignored))
        for vendor, (ignored, decisive) in _VENDORS.items()
    }
    if "balancingLabels" in given:
        by_label = ScaleUpSettings(balancing_label=tuple(given["balancingLabels"]))
        found["balancingLabels"] = are_similar(a, b, by_label)
    expected = case["expected"]["similar"]
    return [f"{name}: expected {expected[name]}, got {got}" for name, got in found.items() if got != expected[name]]


def _template(side: Mapping[str, Any]) -> Template:
    pods = tuple(convert_object(Pod, pod) for pod in side.get("pods", ()))
    return Template(convert_object(Node, side["node"]), pods)
