"""One estimation under way (behaviour/up.md §4.6b)."""

from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np

from nodewright.estimator.apart import Room, find_room
from nodewright.estimator.fork import Fork
from nodewright.estimator.limits import NodeBudget
from nodewright.estimator.new_nodes import NewNodes
from nodewright.estimator.one_by_one import OneByOne
from nodewright.estimator.open_nodes import OpenNodes
from nodewright.estimator.placements import OnNew, Placements
from nodewright.estimator.pod_group import PodGroup
from nodewright.estimator.spread import round_robin
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.predicates import has_guards, is_countable
from nodewright.snapshot.column import Ints
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import PODS, node_amounts
from nodewright.snapshot.snapshot import Snapshot

# For so many groups of one pod it pays to make plain numbers of the nodes' columns.
_MANY = 16


class Packing:
    """New nodes, and the pods that find a place there.

    Pods that only amounts tell apart are counted on the new nodes alone; where predicates must look at the real ones too,
    there is a fork, which learns of them then.
    """

    def __init__(self, snapshot: Snapshot, node: Node, daemons: Sequence[Pod], budget: NodeBudget) -> None:
        always = [snapshot.class_of(pod, placed=True) for pod in daemons]
        self._budget = budget
        self._nodes, self._placed = NewNodes(_when_empty(node, always)), Placements()
        self._fork = Fork(snapshot, node, always, self._nodes, self._placed)
        self._scans = not node.spec.unschedulable
        self._singly = OneByOne(self._fork, self._nodes, budget, self._placed, scans=self._scans)
        self._has_guards = has_guards(snapshot)

    # What came of it

    @property
    def packed(self) -> tuple[tuple[Pod, ...], ...]:
        """The pods of each new node."""
        return self._placed.by_node(len(self._nodes))

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All pods helped, those on existing nodes last."""
        return self._placed.pods()

    @property
    def helped(self) -> dict[PodClass, int]:
        """How many pods of each class are helped."""
        return self._placed.by_class()

    @property
    def new_nodes(self) -> int:
        """New nodes that got pods."""
        return self._nodes.used + self._singly.multiplied_nodes

    @property
    def node_count(self) -> int:
        """Nodes that got pods, existing ones included."""
        return self.new_nodes + self._singly.existing_nodes

    def add(self, groups: Iterable[PodGroup], fast: PodGroup | None) -> None:
        """Pack groups in this order, and ``fast`` last, by arithmetic."""
        for is_single, run in groupby(groups, self._is_single):
            if is_single:
                self._add_singles(list(run))
            else:
                for group in run:
                    self._add_group(group)
        if fast is not None:
            self._singly.multiply(fast)

    def _add_group(self, group: PodGroup) -> None:
        pod_class = group.pod_class
        if self._is_countable(pod_class):
            self._add_plain(pod_class, group.pods, alone=group.alone)
            return
        room = find_room(self._fork.snapshot(), pod_class, self._fork.first)
        if room is not None:
            self._add_local(pod_class, group.pods, room, alone=group.alone)
        else:
            self._singly.add(pod_class, group.pods)
        self._has_guards = self._has_guards or pod_class.has_anti_affinity

    def _is_countable(self, pod_class: PodClass) -> bool:
        """Whether only amounts keep pods of the class apart."""
        return is_countable(self._fork.known, pod_class) if self._has_guards else pod_class.is_plain

    # Pods that only amounts tell apart, each different

    def _is_single(self, group: PodGroup) -> bool:
        return len(group.pods) == 1 and self._scans and self._is_countable(group.pod_class)

    def _add_singles(self, groups: Sequence[PodGroup]) -> None:
        if len(groups) < _MANY:
            for group in groups:
                self._add_group(group)
            return
        nodes = OpenNodes(self._nodes, [group.pod_class for group in groups])
        for group in groups:
            index = self._place_single(nodes, group.pod_class)
            if index is not None:
                self._placed.add_one(group.pod_class, group.pods, index)
        nodes.settle()

    def _place_single(self, nodes: OpenNodes, pod_class: PodClass) -> int | None:
        is_admitted = self._fork.admits(pod_class)
        index = nodes.place(pod_class, self._nodes.turn) if is_admitted else None
        if index is not None:
            self._nodes.turn = index + 1
            return index
        if self._budget.is_exhausted or nodes.last_is_empty or not self._budget.grant(1):
            return None
        added = nodes.add()
        return nodes.place(pod_class, added) if is_admitted else None

    # Identical pods that only amounts tell apart. ``start`` is how many of them have a place.

    def _add_plain(self, pod_class: PodClass, pods: Sequence[Pod], *, alone: bool) -> None:
        nodes, admitted = self._nodes, self._fork.admits(pod_class)
        start = self._deal_plain(pod_class, pods) if admitted and len(nodes) else 0
        if start == len(pods) or self._budget.is_exhausted:
            return
        per_node = nodes.room_when_empty(pod_class) if admitted else 0
        while start < len(pods) and not self._budget.is_exhausted and not nodes.last_is_empty:
            added = nodes.grow(self._budget.grant(-((start - len(pods)) // per_node) if per_node else 1))
            if not added or not per_node:
                return
            before, start = start, self._fill(pod_class, pods, start, added, per_node)
            if alone and self._scans:
                self._turn_after(added, per_node, start - before)

    def _turn_after(self, added: range, per_node: int, placed: int) -> None:
        """Of pods that stand alone, each but the first of a new node was found a place by a scan."""
        on_last = placed - per_node * (len(added) - 1)
        if on_last > 1:
            self._nodes.turn = added.stop
        elif len(added) > 1 and per_node > 1:
            self._nodes.turn = added.stop - 1

    def _deal_plain(self, pod_class: PodClass, pods: Sequence[Pod]) -> int:
        """Put pods on the nodes added so far, in turn; answers how many.

        A template that is unschedulable is never scanned: only its last copy is tried.
        """
        nodes = self._nodes
        mask = nodes.fitting(pod_class)
        if not self._scans:
            mask[:-1] = False
        indices = mask.nonzero()[0]
        return self._deal(pod_class, pods, indices, nodes.room(pod_class, indices)) if len(indices) else 0

    def _deal(self, pod_class: PodClass, pods: Sequence[Pod], indices: Ints, room: Ints) -> int:
        """Deal pods in turn to nodes that have room for some; answers how many."""
        first = None
        if len(indices) == 1:
            served, counts = indices, np.minimum(room, len(pods))
            after = int(indices[0]) + 1
        else:
            turn = int(np.searchsorted(indices, self._nodes.turn % len(self._nodes))) % len(indices)
            counts, end = round_robin(room, len(pods), turn)
            first, after = int(indices[turn]), int(indices[end - 1]) + 1
            served, counts = indices[counts > 0], counts[counts > 0]
        if self._scans:
            self._nodes.turn = after
        return self._put_many(pod_class, pods, 0, served, counts, first)

    def _fill(self, pod_class: PodClass, pods: Sequence[Pod], start: int, added: range, per_node: int) -> int:
        """Put so many pods on each new node; the last takes what is left."""
        left = len(pods) - start
        counts: Ints = np.full(len(added), per_node)
        counts[-1] = min(per_node, max(0, left - per_node * (len(added) - 1)))
        return self._put_many(pod_class, pods, start, np.arange(added.start, added.stop), counts)

    def _put_many(
        self,
        pod_class: PodClass,
        pods: Sequence[Pod],
        start: int,
        indices: Ints,
        counts: Ints,
        first: int | None = None,
    ) -> int:
        self._nodes.take(pod_class, indices, counts)
        count = int(counts.sum())
        self._placed.add(OnNew(pod_class, pods, start, count, indices, counts, first))
        return start + count

    # Pods whose places depend on other pods

    def _add_local(self, pod_class: PodClass, pods: Sequence[Pod], room: Room, *, alone: bool) -> None:
        """Pods of which every node takes so many by itself."""
        nodes, budget, fork = self._nodes, self._budget, self._fork
        start = self._deal_local(pod_class, pods, room) if len(nodes) else 0
        while start < len(pods) and not budget.is_exhausted and not nodes.last_is_empty:
            added = nodes.grow(budget.grant(1))
            if not added:
                return
            row = fork.first + added.start
            per_node = int(room(fork.snapshot(), slice(row, row + 1))[0])
            if not per_node:
                return
            before, start = start, self._fill(pod_class, pods, start, added, per_node)
            more = nodes.grow(budget.grant(-((start - len(pods)) // per_node))) if start < len(pods) else None
            start = self._fill(pod_class, pods, start, more, per_node) if more else start
            if alone and self._scans:
                self._turn_after(range(added.start, len(nodes)), per_node, start - before)

    def _deal_local(self, pod_class: PodClass, pods: Sequence[Pod], room: Room) -> int:
        """Put such pods on the nodes added so far, in turn; answers how many."""
        window, first = self._fork.window, self._fork.first
        if not self._scans:
            window = slice(max(window.stop - 1, first), window.stop)
        free = room(self._fork.snapshot(), window)
        indices = free.nonzero()[0]
        return self._deal(pod_class, pods, indices + (window.start - first), free[indices]) if len(indices) else 0


def _when_empty(node: Node, daemons: Sequence[PodClass]) -> dict[str, int]:
    """What a copy of the template offers with its daemon pods on it."""
    free = {PODS: 0, **node_amounts(node.allocatable)}
    for daemon in daemons:
        for name, amount in ((PODS, 1), *daemon.placed_requests.items()):
            free[name] = free.get(name, 0) - amount
    return free
