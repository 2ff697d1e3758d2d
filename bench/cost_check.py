"""The independent check of a row: it shares no code with the planner, and reads nothing but the case and the row."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypedDict

from cost_cases import Case, Workload
from nodewright.model.quantity import Quantity

_ZONE, _TYPE = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"


class Bought(TypedDict):
    """A bought node, and how many pods of each workload are on it."""

    type: str
    zone: str
    pods: Mapping[str, int]


class Row(TypedDict):
    """The result of one case; prices in USD an hour.

    ``seconds`` of the processor went into planning. ``existing``: what went to nodes that were there, by node and workload.
    """

    name: str
    family: str
    pods: int
    price: float
    karpenter: float
    bound: float
    unplaced: int
    loops: int
    seconds: float
    nodes: list[Bought]
    existing: Mapping[str, Mapping[str, int]]


class _Node(NamedTuple):
    """A node at the end: ``fresh`` pods by workload came to those that were there."""

    type: str
    zone: str
    fresh: Mapping[str, int]


def violations(case: Case, row: Row) -> list[str]:
    """Return what is wrong with a row, a phrase each."""
    nodes = {node.name: _Node(node.type, node.zone, row["existing"].get(node.name, {})) for node in case.nodes}
    found = [f"there was no node {name}" for name in row["existing"].keys() - nodes.keys()]
    nodes |= {f"bought {k}": _Node(one["type"], one["zone"], one["pods"]) for k, one in enumerate(row["nodes"])}
    found += [*_miscounted(case, row, nodes), *_mispriced(case, row), *_overcommitted(case, nodes)]
    for workload in case.workloads:
        found += _misplaced(case, workload, nodes)
    return found


def _miscounted(case: Case, row: Row, nodes: Mapping[str, _Node]) -> Iterator[str]:
    placed: Counter[str] = Counter()
    for node in nodes.values():
        placed.update(node.fresh)
    pending = {workload.name: workload.pending for workload in case.workloads}
    for name, count in placed.items():
        if count > pending.get(name, 0):
            yield f"{count} pods of {name} were placed, and {pending.get(name, 0)} were pending"
    if placed.total() + row["unplaced"] != case.pods:
        yield f"{placed.total()} pods were placed and {row['unplaced']} were not, of {case.pods}"


def _mispriced(case: Case, row: Row) -> Iterator[str]:
    prices = {(one.name, offer.zone): offer.price for one in case.types for offer in one.offers}
    bought = [(node["type"], node["zone"]) for node in row["nodes"]]
    for kind in set(bought) - prices.keys():
        yield f"{kind[0]} is not sold in {kind[1]}"
    total = sum(prices.get(kind, 0.0) for kind in bought)
    if abs(total - row["price"]) > 1e-6:
        yield f"the nodes cost {total}, not {row['price']}"
    counts = Counter([kind for kind, _ in bought] + [node.type for node in case.nodes])
    for name, most in case.maxima.items():
        if counts[name] > most:
            yield f"there are {counts[name]} nodes of {name}, and may be {most}"


def _overcommitted(case: Case, nodes: Mapping[str, _Node]) -> Iterator[str]:
    offered = {one.name: _amounts(one.allocatable) for one in case.types}
    for name, node in nodes.items():
        used: Counter[str] = Counter()
        for workload in case.workloads:
            count = node.fresh.get(workload.name, 0) + workload.placed.get(name, 0)
            used.update({what: count * amount for what, amount in _amounts({"pods": "1", **workload.requests}).items()})
        for what, amount in used.items():
            if amount > offered.get(node.type, {}).get(what, 0):
                yield f"node {name} is overcommitted in {what}"


def _amounts(texts: Mapping[str, str]) -> dict[str, int]:
    return {name: Quantity.of(text).nano for name, text in texts.items()}


def _misplaced(case: Case, workload: Workload, nodes: Mapping[str, _Node]) -> Iterator[str]:
    """Yield where pods of a workload are that its selector, anti-affinity or spread does not allow."""
    labels = {one.name: {**one.labels, _TYPE: one.name} for one in case.types}

    def takes(kind: str, zone: str) -> bool:
        return workload.selector.items() <= {**labels.get(kind, {}), _ZONE: zone}.items()

    counts = {name: node.fresh.get(workload.name, 0) + workload.placed.get(name, 0) for name, node in nodes.items()}
    fresh = [name for name, node in nodes.items() if node.fresh.get(workload.name, 0)]
    for name in fresh:
        if not takes(nodes[name].type, nodes[name].zone):
            yield f"node {name} does not match the selector of {workload.name}"
        if workload.anti_hostname and counts[name] > 1:
            yield f"node {name} has {counts[name]} pods of {workload.name}, which repel each other"
        if "hostname" in workload.spread and counts[name] > workload.max_skew:  # a further node would have none
            yield f"node {name} has {counts[name]} pods of {workload.name}, with a maximum skew of {workload.max_skew}"
    if "zone" in workload.spread:
        sold = {offer.zone: 0 for one in case.types for offer in one.offers if takes(one.name, offer.zone)}
        zones = Counter(sold)
        for name, node in nodes.items():
            zones[node.zone] += counts[name] if takes(node.type, node.zone) else 0
        for zone in sorted({nodes[name].zone for name in fresh}):
            if zones[zone] - min(zones.values()) > workload.max_skew:
                yield f"{zones[zone]} pods of {workload.name} are in {zone}, too many more than in another zone"
