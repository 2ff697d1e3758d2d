"""The independent check of moves: it shares no code with the planner, and reads nothing but the case and the row."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from consolidation_cases import Cluster, PlacedWorkload
from nodewright.model.quantity import Quantity

_ZONE, _TYPE = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"
Kind = tuple[str, str]


def violations(case: Cluster, row: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the moves of a row, a phrase each."""
    check = _Check(case)
    found = [f"move {number}: {fault}" for number, move in enumerate(row["trace"]) for fault in check.carry_out(move)]
    if abs(check.price() - row["price_at_rest"]) > 1e-6:
        found.append(f"the nodes at rest cost {check.price()}, not {row['price_at_rest']}")
    if sum(move["evicted"] for move in row["trace"]) != row["evictions"]:
        found.append("the evictions of the moves do not add up")
    return found


class _Check:
    def __init__(self, case: Cluster) -> None:
        self._case = case
        self._nodes: dict[str, Kind] = {node.name: (node.type, node.zone) for node in case.nodes}
        self._placed = {workload.name: Counter(workload.placed) for workload in case.workloads}
        self._prices = {(one.name, offer.zone): offer.price for one in case.types for offer in one.offers}
        self._labels = {one.name: {**one.labels, _TYPE: one.name} for one in case.types}
        daemon = _amounts({"pods": "1", **case.daemon}) if case.daemon else {}
        self._offered = {one.name: _less(_amounts(one.allocatable), daemon) for one in case.types}

    def price(self) -> float:
        return sum(self._prices[kind] for kind in self._nodes.values())

    def carry_out(self, move: Mapping[str, Any]) -> Iterator[str]:
        """Carry a move out; yield what is wrong with it."""
        before, deleted = self.price(), set(move["deleted"])
        yield from self._forbidden(deleted)
        yield from self._exchange(deleted, move["added"])
        evicted = sum(self._placed[workload.name][name] for workload in self._case.workloads for name in deleted)
        if evicted != move["evicted"]:
            yield f"{evicted} pods were evicted, not {move['evicted']}"
        for workload in self._case.workloads:
            yield from self._move(workload, deleted, move["moves"].get(workload.name, {}))
        yield from self._overcommitted()
        if evicted and before - self.price() < 0.01 * before:
            yield f"it saves {before - self.price():.4f} of {before:.4f} USD an hour and evicts {evicted} pods"

    def _exchange(self, deleted: set[str], added: Sequence[Mapping[str, str]]) -> Iterator[str]:
        most = self._case.most_nodes(len(self._nodes))
        if len(deleted) > most:
            yield f"{len(deleted)} nodes are deleted, and may be {most}"
        for node in added:
            kind = (node["type"], node["zone"])
            if node["name"] in self._nodes or kind not in self._prices:
                yield f"{node['name']} cannot be added"
            self._nodes[node["name"]] = kind
        for name in deleted:
            if self._nodes.pop(name, None) is None:
                yield f"there is no node {name} to delete"

    def _move(
        self, workload: PlacedWorkload, deleted: set[str], moves: Mapping[str, Mapping[str, int]]
    ) -> Iterator[str]:
        held, arrived = self._placed[workload.name], Counter[str]()
        for name in deleted:
            count = held.pop(name, 0)
            if sum(moves.get(name, {}).values()) != count:
                yield f"{count} pods of {workload.name} were on {name}, and not all got a place"
        for source, targets in moves.items():
            if source not in deleted:
                yield f"pods of {workload.name} leave {source}, which stays"
            arrived.update(targets)
        for name in arrived.keys() - self._nodes.keys():
            yield f"pods of {workload.name} go to {name}, which is not there"
        held.update(arrived)
        yield from self._misplaced(workload, arrived)

    def _forbidden(self, deleted: set[str]) -> Iterator[str]:
        for node in self._case.nodes:
            if node.do_not_disrupt and node.name in deleted:
                yield f"{node.name} must not be disrupted"
        for workload in self._case.workloads:
            least = workload.min_available
            is_pinned = workload.do_not_disrupt or (least is not None and least >= workload.pods)
            for name in deleted if is_pinned else ():
                if self._placed[workload.name][name]:
                    yield f"pods of {workload.name} on {name} must not be evicted"

    def _overcommitted(self) -> Iterator[str]:
        used = {name: Counter[str]() for name in self._nodes}
        for workload in self._case.workloads:
            asked = _amounts({"pods": "1", **workload.requests})
            for name, count in self._placed[workload.name].items():
                if name in used:
                    used[name].update({what: count * amount for what, amount in asked.items()})
        for name, amounts in used.items():
            offered = self._offered[self._nodes[name][0]]
            for what, amount in amounts.items():
                if amount > offered.get(what, 0):
                    yield f"node {name} has {amount} of {what} used, and {offered.get(what, 0)}"

    def _takes(self, workload: PlacedWorkload, kind: Kind) -> bool:
        return workload.selector.items() <= {**self._labels[kind[0]], _ZONE: kind[1]}.items()

    def _misplaced(self, workload: PlacedWorkload, arrived: Counter[str]) -> Iterator[str]:
        held, nodes = self._placed[workload.name], self._nodes
        taking = [name for name, kind in nodes.items() if self._takes(workload, kind)]
        for name in arrived.keys() & nodes.keys():
            if not self._takes(workload, nodes[name]):
                yield f"node {name} does not match the selector of {workload.name}"
            if workload.anti_hostname and held[name] > 1:
                yield f"node {name} has {held[name]} pods of {workload.name}, which repel each other"
            least = min((held[other] for other in taking), default=0)
            if "hostname" in workload.spread and held[name] - least > workload.max_skew:
                yield f"node {name} has {held[name]} pods of {workload.name}, and another node {least}"
        if "zone" in workload.spread:
            zones = Counter({nodes[name][1]: 0 for name in taking})
            for name in taking:
                zones[nodes[name][1]] += held[name]
            for zone in {nodes[name][1] for name in arrived.keys() & nodes.keys()}:
                if zones[zone] - min(zones.values()) > workload.max_skew and zones[zone] > self._before(workload, zone):
                    yield f"{zones[zone]} pods of {workload.name} are in {zone}, too many more than in another zone"

    def _before(self, workload: PlacedWorkload, zone: str) -> int:
        """Return how many of its pods the case had in a zone: a skew that was there may stay."""
        zones = {node.name: node.zone for node in self._case.nodes}
        return sum(count for name, count in workload.placed.items() if zones[name] == zone)


def _amounts(texts: Mapping[str, str]) -> dict[str, int]:
    return {name: Quantity.of(text).nano for name, text in texts.items()}


def _less(amounts: Mapping[str, int], taken: Mapping[str, int]) -> dict[str, int]:
    return {name: amount - taken.get(name, 0) for name, amount in amounts.items()}
