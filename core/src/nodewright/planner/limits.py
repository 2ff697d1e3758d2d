"""Limits on the whole cluster or a part of it: the flags' totals and CapacityQuotas."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from nodewright.clusterstate.accelerators import Accelerators, DeviceCounter
from nodewright.model.capacity_quota import QUOTA_VALID, RECONCILED, CapacityQuota, CapacityQuotaStatus, QuotaAmounts
from nodewright.model.limits import ResourceLimits
from nodewright.model.meta import Condition, LabelSelector, as_of
from nodewright.model.node import Node
from nodewright.model.printable import printable
from nodewright.model.quantity import NANO, Quantity
from nodewright.model.settings import LimitSettings
from nodewright.predicates.selectors import Selector, parse_selector
from nodewright.snapshot.column import Ints, Mask
from nodewright.snapshot.node_table import NodeTable
from nodewright.snapshot.observation import Observation
from nodewright.snapshot.requests import is_counted
from nodewright.snapshot.snapshot import Snapshot

CLUSTER_WIDE = "cluster-wide"
NODES = "nodes"
_EVERYTHING = Selector(())

CountsDevices = Accelerators | DeviceCounter


@dataclass(frozen=True, kw_only=True)
class NodeQuota:
    """The most that the nodes of ``selector`` may have together: cores, bytes, devices, nodes.

    ``key`` identifies the selector.
    """

    id: str
    most: Mapping[str, int]
    selector: Selector = _EVERYTHING
    key: object = None


class Exceeded(NamedTuple):
    """A quota that is exceeded, and the resources of which too little is left."""

    quota: str
    resources: tuple[str, ...]

    def __str__(self) -> str:
        return f'exceeded quota: "{self.quota}", resources: {", ".join(self.resources)}'


class Quota:
    """The amounts left under all quotas in one plan; planned expansions consume it.

    Like the snapshot to plan in, it is mutable: ``make_plan`` creates it, and every step of the plan consumes from the
    same object, so that no step can forget to pass on what it took. Steps that only try an expansion use a ``fork``.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        limits: ResourceLimits,
        accelerators: CountsDevices,
        quotas: Sequence[NodeQuota] = (),
    ) -> None:
        self._accelerators = accelerators
        most = {"cpu": limits.max_cores, "memory": limits.max_memory_bytes, **limits.max_gpu}
        self._quotas = (NodeQuota(id=CLUSTER_WIDE, most=most), *quotas)
        self._left = [_room_under(snapshot, quota, accelerators) for quota in self._quotas]

    def allowed(self, node: Node, wanted: int) -> tuple[int, tuple[Exceeded, ...]]:
        """Return how many of ``wanted`` such nodes fit under every quota, and the quotas that are exceeded."""
        allowed, exceeded = wanted, []
        for quota, room, amounts in self._concerned(node):
            scarce = {name: amount for name, amount in amounts.items() if max(0, room[name]) < amount * wanted}
            if scarce:
                allowed = min(allowed, *(max(0, room[name]) // amount for name, amount in scarce.items()))
                exceeded.append(Exceeded(quota.id, tuple(scarce)))
        return allowed, tuple(exceeded)

    def share(self, node: Node) -> float:
        """Return the largest share that one such node takes of the rest of a quota; inf: nothing is left."""
        concerned = (
            (room[name], amount) for _, room, amounts in self._concerned(node) for name, amount in amounts.items()
        )
        return max((amount / left if left > 0 else math.inf for left, amount in concerned), default=0.0)

    def fork(self) -> "Quota":
        """Return a copy to try expansions on."""
        forked = Quota.__new__(Quota)
        forked._accelerators, forked._quotas = self._accelerators, self._quotas
        forked._left = [dict(room) for room in self._left]
        return forked

    def take_over(self, other: "Quota") -> None:
        """Set what is left to what ``other`` leaves."""
        self._left = [dict(room) for room in other._left]

    def consume(self, node: Node, count: int) -> None:
        for _, room, amounts in self._concerned(node):
            for name, amount in amounts.items():
                room[name] -= amount * count

    def _concerned(self, node: Node) -> Iterable[tuple[NodeQuota, dict[str, int], Mapping[str, int]]]:
        """Yield the quotas that select such a node, what they leave, and what the node consumes."""
        for quota, room in zip(self._quotas, self._left, strict=True):
            if quota.selector.matches(node.metadata.labels):
                amounts = {name: amount_of(node, name, self._accelerators) for name in room}
                yield quota, room, {name: amount for name, amount in amounts.items() if amount > 0}


def amount_of(node: Node, name: str, accelerators: CountsDevices) -> int:
    """Return what a node consumes of a quota: cores, bytes, one node, devices by type, or any resource that it offers.

    A node of virtual-kubelet consumes nothing.
    """
    if is_plain(name):
        return _capacity(node, name)
    kind, devices = accelerators.count(node)
    return devices if kind == name else 0


def is_plain(name: str) -> bool:
    """Return whether the name is a resource of nodes or their number. Other names are types of accelerators."""
    return name == NODES or is_counted(name)


def totals(
    snapshot: Snapshot, names: Iterable[str], accelerators: CountsDevices, quota: NodeQuota | None = None
) -> dict[str, int]:
    """Return what all nodes, or those of a quota, consume of each resource or type of accelerator."""
    mask = _mask(snapshot, quota)
    return {
        name: _total(snapshot, name, mask) if is_plain(name) else _devices(snapshot, accelerators, name, quota)
        for name in names
    }


def usage(snapshot: Snapshot, quota: NodeQuota, accelerators: CountsDevices) -> dict[str, Quantity]:
    """Return what nodes consume of a quota, exactly; limits round cores down."""
    found = {name: Quantity.of(amount) for name, amount in totals(snapshot, quota.most, accelerators, quota).items()}
    if "cpu" in found:
        milli: Ints = snapshot.column("capacity in millicores", _millicores)
        found["cpu"] = Quantity(sum(milli[_mask(snapshot, quota)].tolist()) * 10**6)
    return found


def _room_under(snapshot: Snapshot, quota: NodeQuota, accelerators: CountsDevices) -> dict[str, int]:
    there = totals(snapshot, quota.most, accelerators, quota)
    return {name: amount - there[name] for name, amount in quota.most.items()}


def _total(snapshot: Snapshot, name: str, mask: Mask) -> int:
    column: Ints = snapshot.column(("capacity", name), lambda table, window: _capacities(table, window, name))
    return sum(column[mask].tolist())


def _capacities(table: NodeTable, window: slice, name: str) -> Ints:
    rows = range(window.start, window.stop)
    return np.array([_capacity(table.node(row), name) for row in rows], dtype=np.int64)


def _millicores(table: NodeTable, window: slice) -> Ints:
    nodes = (table.node(row) for row in range(window.start, window.stop))
    return np.array(
        [node.status.capacity["cpu"].milli if _capacity(node, "cpu") else 0 for node in nodes], dtype=np.int64
    )


def _mask(snapshot: Snapshot, quota: NodeQuota | None) -> Mask:
    """Return the rows whose nodes the quota selects; all rows without a quota."""
    if quota is None or quota.selector.is_everything:
        return snapshot.alive
    return snapshot.alive & _chosen(snapshot, quota)


def _chosen(snapshot: Snapshot, quota: NodeQuota) -> Mask:
    """Return the rows whose nodes the quota selects."""
    matches = quota.selector.matches

    def compute(table: NodeTable, window: slice) -> Mask:
        rows = range(window.start, window.stop)
        return np.array([matches(table.node(row).metadata.labels) for row in rows], dtype=bool)

    chosen: Mask = snapshot.column(("chosen", quota.key), compute)
    return chosen


def _capacity(node: Node, name: str) -> int:
    if node.metadata.labels.get("type") == "virtual-kubelet":
        return 0
    if name == NODES:
        return 1
    return node.status.capacity[name].value if name in node.status.capacity else 0


def _devices(snapshot: Snapshot, accelerators: CountsDevices, kind: str, quota: NodeQuota | None) -> int:
    selector = quota.selector if quota is not None else _EVERYTHING
    nodes = (node for _, node in snapshot.nodes() if selector.matches(node.metadata.labels))
    counted = (accelerators.count(node) for node in nodes)
    return sum(devices for found, devices in counted if found == kind)


class ReadQuota(NamedTuple):
    """A quota and the limit that is enforced (None: it is not enforced, as ``problem`` says)."""

    quota: CapacityQuota
    limit: NodeQuota | None
    problem: str = ""


def read_quotas(seen: Observation, settings: LimitSettings) -> tuple[ReadQuota, ...]:
    """Return every quota of the cluster, by name; none if CapacityQuotas are disabled."""
    if not settings.capacity_quotas_enabled:
        return ()
    has_types = any(not is_plain(name) for quota in seen.quotas for name in quota.spec.limits.resources)
    types = _known_types(seen) if has_types else None
    return tuple(_read(quota, types) for quota in sorted(seen.quotas, key=lambda quota: quota.name))


def with_status(read: ReadQuota, seen: Observation) -> CapacityQuota:
    """Return the quota with its new status; the same object if the status is unchanged."""
    quota, status = read.quota, read.quota.status
    used = usage(seen.snapshot, read.limit, DeviceCounter(seen)) if read.limit is not None else None
    said = (
        (QUOTA_VALID, "Valid", "it is enforced") if read.limit else (QUOTA_VALID, "Invalid", read.problem),
        (RECONCILED, "ReconciliationSucceeded", "CapacityQuota successfully reconciled")
        if read.limit
        else (RECONCILED, "ReconciliationFailed", read.problem),
    )
    fresh = CapacityQuotaStatus(
        used=_as_written(used, status.used),
        conditions=tuple(_condition(quota, *words, holds=read.limit is not None, now=seen.now) for words in said),
        observed_generation=quota.metadata.generation,
    )
    held = replace(status, conditions=tuple(filter(None, map(quota.condition, (QUOTA_VALID, RECONCILED)))))
    return quota if fresh == held else replace(quota, status=fresh)


def _read(quota: CapacityQuota, types: frozenset[str] | None) -> ReadQuota:
    selector = parse_selector(quota.spec.selector or LabelSelector())
    if selector is None:
        return ReadQuota(quota, None, "spec.selector is not a valid label selector: check its keys and operators")
    most: dict[str, int] = {}
    for name, text in quota.spec.limits.resources.items():
        amount, problem = _read_amount(name, text)
        problem = problem or _why_unknown(name, types)
        if problem:
            return ReadQuota(quota, None, f"spec.limits.resources: {printable(name)}: {problem}")
        most[name] = amount
    if not most:
        return ReadQuota(quota, None, "spec.limits.resources is empty: it limits nothing")
    key = msgspec.json.encode(quota.spec.selector)
    return ReadQuota(quota, NodeQuota(id=quota.id, most=most, selector=selector, key=key))


def _read_amount(name: str, text: str | float) -> tuple[int, str]:
    """Return the limit in whole units, and what is wrong with it (empty: nothing)."""
    if not name:
        return 0, "the name of a resource is empty"
    try:
        quantity = Quantity.of(text)
    except ValueError as error:
        return 0, str(error)
    if quantity.nano < 0 or quantity.nano % NANO:
        return 0, f"'{printable(str(text))}' is not a whole number of at least 0"
    return quantity.value, ""


def _why_unknown(name: str, types: frozenset[str] | None) -> str:
    if is_plain(name) or types is None or name in types:
        return ""
    known = f", of {', '.join(sorted(types))}" if types else ", and there are none here"
    return f"is neither cpu, memory, nodes, a resource that nodes offer nor a type of accelerators{known}"


def _known_types(seen: Observation) -> frozenset[str] | None:
    """Return the types of accelerators on nodes, in templates and of providers; None while a provider cannot be read."""
    groups = seen.groups.values()
    if any(provider.problem for provider in seen.providers.values()) or any(group.template is None for group in groups):
        return None
    accelerators = Accelerators.of(seen.providers.values())
    nodes = [*(node for _, node in seen.snapshot.nodes()), *(group.template for group in groups if group.template)]
    if not accelerators.labels:
        return frozenset()
    listed = (kind for provider in seen.providers.values() if provider.gpu_label for kind in provider.gpu_types)
    return frozenset(listed).union(kind for kind, _ in map(accelerators.count, nodes) if kind)


def _as_written(used: Mapping[str, Quantity] | None, held: QuotaAmounts | None) -> QuotaAmounts | None:
    """Return the amounts as text, in the notation of the status if they are equal."""
    if used is None:
        return None
    fresh = {name: str(amount) for name, amount in used.items()}
    if held is not None and {name: _canonical(text) for name, text in held.resources.items()} == fresh:
        return held
    return QuotaAmounts(resources=dict(fresh))


def _canonical(text: str | float) -> str:
    try:
        return str(Quantity.of(text))
    except ValueError:
        return ""


def _condition(quota: CapacityQuota, kind: str, reason: str, message: str, *, holds: bool, now: float) -> Condition:
    status, generation = "True" if holds else "False", quota.metadata.generation
    fresh = Condition(type=kind, status=status, reason=reason, message=message, observed_generation=generation)
    return as_of(now, fresh, quota.condition(kind))
