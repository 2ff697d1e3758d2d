"""First-fit-decreasing packing of pending pods on copies of one template node (behaviour/up.md §4.6b)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from nodewright.estimator.fastpath import move_fastest_last
from nodewright.estimator.limits import NodeBudget
from nodewright.estimator.pod_group import PodGroup
from nodewright.estimator.spread import round_robin
from nodewright.model.node import HOSTNAME_LABEL, Node
from nodewright.model.pod import Pod
from nodewright.predicates import amounts_room, capacity, explain, feasible, is_guarded_against
from nodewright.predicates.pod_topology_spread import SKEW_REASON
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import node_amounts
from nodewright.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Template:
    """The node that a group would add, and the pods that it starts with."""

    node: Node
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True)
class Estimate:
    """What an expansion would hold: ``packing`` lists, per new node, its pods; an unused node has none.

    ``pods`` are all pods helped, those put on existing nodes included. ``node_count`` counts nodes with pods,
    as CA does: an existing node that took a pod in place of a new one is counted too.
    """

    node_count: int
    pods: tuple[Pod, ...]
    packing: tuple[tuple[Pod, ...], ...]


def estimate(
    snapshot: Snapshot, template: Template, groups: Sequence[PodGroup], limit: int, *, fastpath: bool = False
) -> Estimate:
    """Pack the groups on new nodes; ``limit`` is a node limit as of ``limits.node_limit``.

    The snapshot is forked, never changed. With ``fastpath`` the group that saves most is packed last, by
    arithmetic on one node (CA: --fastpath-binpacking-enabled).
    """
    packing = _Packing(snapshot, template, NodeBudget(limit))
    ordered = decreasing(groups, template.node)
    fast: PodGroup | None = None
    if fastpath:
        ordered, fast = move_fastest_last(ordered, template.node)
    for group in _merged(group for group in ordered if group is not fast):
        packing.add(group)
    if fast is not None:
        packing.multiply(fast)
    return packing.result()


def decreasing(groups: Iterable[PodGroup], node: Node) -> list[PodGroup]:
    """Groups by share of the template that one pod asks, largest first; ties keep their order."""
    offered = node_amounts(node.allocatable)

    def score(group: PodGroup) -> float:
        asked = group.pod_class.requests
        return sum(asked.get(name, 0) / offered[name] for name in ("cpu", "memory") if offered.get(name))

    return sorted(groups, key=score, reverse=True)


def _merged(groups: Iterable[PodGroup]) -> list[PodGroup]:
    """Neighbouring groups of one plain class as one: where only amounts matter, they pack alike."""
    merged: list[PodGroup] = []
    for pod_class, alike in groupby(groups, key=lambda group: group.pod_class):
        if pod_class.is_plain:
            merged.append(PodGroup(pod_class, [pod for group in alike for pod in group.pods]))
        else:
            merged.extend(alike)
    return merged


class _Packing:
    """One estimation under way: a fork of the snapshot to which new nodes are added."""

    def __init__(self, snapshot: Snapshot, template: Template, budget: NodeBudget) -> None:
        self._snapshot = snapshot.fork()
        self._template = template
        self._daemons = [(pod, self._snapshot.class_of(pod, placed=True)) for pod in template.pods]
        self._budget = budget
        self._exhausted = False
        self._first = len(self._snapshot)
        self._packed: list[list[Pod]] = []
        self._beside: list[Pod] = []
        self._existing_rows: set[int] = set()
        self._empty: Snapshot | None = None
        self._multiplied = 0
        self._cursor = 0
        self._schedulable_scan = not template.node.spec.unschedulable

    def add(self, group: PodGroup) -> None:
        if group.pod_class.is_plain and not is_guarded_against(self._snapshot, group.pod_class):
            self._add_identical(group)
        else:
            self._add_one_by_one(group)

    def result(self) -> Estimate:
        packing = tuple(tuple(pods) for pods in self._packed)
        helped = [pod for pods in self._packed for pod in pods]
        used = sum(1 for pods in packing if pods) + len(self._existing_rows) + self._multiplied
        return Estimate(used, tuple(helped + self._beside), packing)

    # Identical pods that only amounts tell apart: closed form

    def _add_identical(self, group: PodGroup) -> None:
        pod_class = group.pod_class
        left = self._deal(pod_class, group.pods)
        while left and not self._exhausted and not self._last_is_empty():
            per_node = self._room_on_new_node(pod_class)
            wanted = -(-len(left) // per_node) if per_node else 1
            rows = self._grow(wanted)
            if rows is None or not per_node:
                return
            left = self._fill(pod_class, left, rows, per_node)

    def _deal(self, pod_class: PodClass, pods: list[Pod]) -> list[Pod]:
        """Put pods on the nodes added so far, in turn; answers those that fit nowhere."""
        if not self._packed:
            return pods
        if not self._schedulable_scan:
            return self._top_up(pod_class, pods)
        room = amounts_room(self._snapshot, pod_class, slice(self._first, len(self._snapshot)))
        if not room.any() or not self._room_on_new_node(pod_class):
            return pods
        counts, self._cursor = round_robin(room, len(pods), self._cursor % len(room))
        served = np.flatnonzero(counts)
        turn = np.repeat(served, counts[served]).tolist()
        self._snapshot.place_many(pod_class, served + self._first, counts[served])
        for index, pod in zip(turn, pods, strict=False):
            self._packed[index].append(pod)
        return pods[len(turn) :]

    def _top_up(self, pod_class: PodClass, pods: list[Pod]) -> list[Pod]:
        """A template that is unschedulable is never scanned: only its last copy is tried."""
        if not self._packed:
            return pods
        last = len(self._snapshot) - 1
        room = int(capacity(self._snapshot, pod_class, slice(last, last + 1))[0])
        return self._fill(pod_class, pods, slice(last, last + 1), room) if room else pods

    def _fill(self, pod_class: PodClass, pods: list[Pod], rows: slice, per_node: int) -> list[Pod]:
        counts = np.full(rows.stop - rows.start, per_node, dtype=np.int64)
        counts[-1] = min(per_node, max(0, len(pods) - per_node * (len(counts) - 1)))
        self._snapshot.place_many(pod_class, np.arange(rows.start, rows.stop), counts)
        taken = 0
        for row, count in zip(range(rows.start, rows.stop), counts.tolist(), strict=True):
            self._packed[row - self._first].extend(pods[taken : taken + count])
            taken += count
        return pods[taken:]

    def _room_on_new_node(self, pod_class: PodClass) -> int:
        """How many pods of a plain class an empty new node takes."""
        if self._empty is None:
            self._empty = self._snapshot.sibling()
            self._empty.add_copies(self._template.node, 1)
            for _, daemon in self._daemons:
                self._empty.place(daemon, 0)
        return int(capacity(self._empty, pod_class, slice(0, 1))[0])

    # Pods whose places depend on each other: one by one, with CA's steps

    def _add_one_by_one(self, group: PodGroup) -> None:
        pending = list(group.pods)
        while pending and self._place_on_new(group.pod_class, pending[0]):
            pending.pop(0)
        for pod in pending:
            if self._exhausted or not self._place_or_grow(group.pod_class, pod):
                return

    def _place_on_new(self, pod_class: PodClass, pod: Pod) -> bool:
        window = slice(self._first, len(self._snapshot))
        if window.start == window.stop or not self._schedulable_scan:
            return False
        row = self._scan(feasible(self._snapshot, pod_class, window), window.start)
        return row is not None and self._put(pod_class, row, pod)

    def _place_or_grow(self, pod_class: PodClass, pod: Pod) -> bool:
        """Try the last node, then any other (hostname spread only), then a new one; False ends the group."""
        if self._packed:
            last = len(self._snapshot) - 1
            if self._fits(pod_class, last):
                return self._put(pod_class, last, pod)
            if self._place_elsewhere(pod_class, pod, last):
                return True
            if self._last_is_empty():
                return False
        rows = self._grow(1)
        return rows is not None and self._fits(pod_class, rows.start) and self._put(pod_class, rows.start, pod)

    def _place_elsewhere(self, pod_class: PodClass, pod: Pod, last: int) -> bool:
        """Any node but the last, existing ones too, for a pod that hostname spread keeps off the last one."""
        keys = {constraint.topology_key for constraint in pod_class.spec.topology_spread_constraints}
        if HOSTNAME_LABEL not in keys:
            return False
        refused = explain(self._snapshot, pod_class, last)
        if refused is None or SKEW_REASON not in refused.reasons:
            return False
        mask = feasible(self._snapshot, pod_class, slice(0, last))
        mask &= self._snapshot.schedulable[:last]
        chosen = self._scan(mask, 0)
        return chosen is not None and self._put(pod_class, chosen, pod)

    def _fits(self, pod_class: PodClass, row: int) -> bool:
        return bool(feasible(self._snapshot, pod_class, slice(row, row + 1))[0])

    def _scan(self, mask: Mask, first: int) -> int | None:
        """First row in turn, counted from the one after the last row that a scan chose."""
        rows = np.flatnonzero(mask)
        if not len(rows):
            return None
        start = self._first + self._cursor - first
        after = int(np.searchsorted(rows, start))
        row = int(rows[after % len(rows)]) + first
        self._cursor = row + 1 - self._first
        return row

    def _put(self, pod_class: PodClass, row: int, pod: Pod) -> bool:
        self._snapshot.place(pod_class, row)
        if row >= self._first:
            self._packed[row - self._first].append(pod)
        else:
            self._beside.append(pod)
            self._existing_rows.add(row)
        return True

    def multiply(self, group: PodGroup) -> None:
        """Fill one new node, then multiply it (CA's fast path)."""
        pending = list(group.pods)
        while pending and self._place_on_new(group.pod_class, pending[0]):
            pending.pop(0)
        rows = self._grow(1) if pending else None
        if rows is None:
            return
        first = len(pending)
        while (
            pending and self._fits(group.pod_class, rows.start) and self._put(group.pod_class, rows.start, pending[0])
        ):
            pending.pop(0)
        per_node = first - len(pending)
        if per_node and pending:
            nodes = self._budget.grant(-(-len(pending) // per_node))
            self._multiplied += nodes
            self._beside.extend(pending[: nodes * per_node])

    # Nodes

    def _last_is_empty(self) -> bool:
        return bool(self._packed) and not self._packed[-1]

    def _grow(self, wanted: int) -> slice | None:
        """Add up to ``wanted`` nodes with their daemon pods; None when no more may be added at all."""
        granted = self._budget.grant(wanted)
        self._exhausted = granted < wanted
        if not granted:
            return None
        rows = self._snapshot.add_copies(self._template.node, granted)
        for _, daemon in self._daemons:
            ones = np.ones(granted, dtype=np.int64)
            self._snapshot.place_many(daemon, np.arange(rows.start, rows.stop), ones)
        self._packed.extend([] for _ in range(granted))
        return rows
