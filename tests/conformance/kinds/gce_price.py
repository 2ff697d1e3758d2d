"""Kind ``gce-price``: what a node costs, or a pod: as much as a node of just its requests, of no known kind, without a disk."""

from collections.abc import Mapping
from math import ceil, isclose
from typing import Any

import msgspec

from nodewright.model.decode import convert_object
from nodewright.model.pod import Pod
from nodewright.snapshot.requests import exact_requests
from nodewright.spec import NodeTemplate, Quantity
from nodewright_gce.prices import Prices, node_price
from nodewright_gce.template import BOOT_DISK_SIZE


def check(case: Mapping[str, Any]) -> list[str]:
    given, expected = case["input"], case["expected"]["price"]
    prices = msgspec.convert(given["prices"], Prices)
    template = _template(given["node"]) if "node" in given else _as_template(convert_object(Pod, given["pod"]))
    minutes = ceil(given["seconds"] / 60)  # cluster-autoscaler counts a minute that has begun
    found = node_price(prices, template).per_hour * minutes / 60
    return [] if isclose(found, expected, rel_tol=1e-9) else [f"expected {expected}, got {found}"]


def _as_template(pod: Pod) -> NodeTemplate:
    asked = {name: Quantity(nano) for name, nano in exact_requests(pod, placed=False).items()}
    return NodeTemplate(allocatable=asked, annotations={BOOT_DISK_SIZE: "0"})


def _template(node: Mapping[str, Any]) -> NodeTemplate:
    capacity = {name: Quantity.of(text) for name, text in node["status"]["capacity"].items()}
    meta: Mapping[str, Any] = node["metadata"]
    return NodeTemplate(allocatable=capacity, labels=meta.get("labels", {}), annotations=meta.get("annotations", {}))
