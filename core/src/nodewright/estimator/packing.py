"""One estimation under way (behaviour/up.md §4.6b)."""

from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np

from nodewright.estimator.apart import Room, find_room
from nodewright.estimator.limits import NodeBudget
from nodewright.estimator.new_nodes import NewNodes
from nodewright.estimator.open_nodes import OpenNodes
from nodewright.estimator.placements import OnNew, Placements
from nodewright.estimator.pod_group import PodGroup
from nodewright.estimator.spread import round_robin
from nodewright.model.node import HOSTNAME_LABEL, Node
from nodewright.model.pod import Pod
from nodewright.predicates import explain, feasible, has_guards, is_admitted, is_countable, static_key
from nodewright.predicates.pod_topology_spread import SKEW_REASON
from nodewright.snapshot.column import Ints, Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import PODS, node_amounts
from nodewright.snapshot.snapshot import Snapshot

# For so many groups of one pod it pays to make plain numbers of the nodes' columns.
_MANY = 16


class Packing:
    """New nodes beside a snapshot, which is forked as soon as predicates must look at both.

    Pods that only amounts tell apart are counted on the new nodes alone; the fork learns of them when it is needed.
    """

    def __init__(self, snapshot: Snapshot, node: Node, daemons: Sequence[Pod], budget: NodeBudget) -> None:
        self._real, self._node = snapshot, node
        self._daemons = [snapshot.class_of(pod, placed=True) for pod in daemons]
        self._budget = budget
        self._first = len(snapshot)
        empty = _when_empty(node, self._daemons)
        self._nodes, self._free_pods = NewNodes(empty), empty[PODS]
        self._fork: Snapshot | None = None
        self._has_guards = has_guards(snapshot)
        self._placed = Placements()
        self._board: Snapshot | None = None
        self._admitted: dict[object, bool] = {}
        self._existing_rows: set[int] = set()
        self._exhausted = False
        self._multiplied = 0
        self._cursor = 0
        self._schedulable_scan = not node.spec.unschedulable

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
    def node_count(self) -> int:
        """Nodes that got pods."""
        return self._nodes.used + len(self._existing_rows) + self._multiplied

    def add(self, groups: Iterable[PodGroup]) -> None:
        """Pack groups in this order."""
        for is_single, run in groupby(groups, self._is_single):
            if is_single:
                self._add_singles(list(run))
            else:
                for group in run:
                    self._add_group(group)

    def _add_group(self, group: PodGroup) -> None:
        pod_class = group.pod_class
        if self._is_countable(pod_class):
            self._add_plain(pod_class, group.pods, alone=group.alone)
            return
        shared = self._shared()
        room = find_room(shared, pod_class, self._first)
        if room is not None:
            self._add_local(pod_class, group.pods, room)
        else:
            self._add_one_by_one(pod_class, group.pods)
            self._nodes.reread(len(self._nodes), self._read)
        self._has_guards = self._has_guards or pod_class.has_anti_affinity

    def _is_countable(self, pod_class: PodClass) -> bool:
        """Whether only amounts keep pods of the class apart."""
        return is_countable(self._picture, pod_class) if self._has_guards else pod_class.is_plain

    # Pods that only amounts tell apart, each different

    def _is_single(self, group: PodGroup) -> bool:
        return len(group.pods) == 1 and self._schedulable_scan and self._is_countable(group.pod_class)

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
        is_admitted = self._is_admitted(pod_class)
        index = nodes.place(pod_class, self._cursor) if is_admitted else None
        if index is not None:
            self._cursor = index + 1
            return index
        if self._exhausted or nodes.last_is_empty or not self._grant(1):
            return None
        added = nodes.add()
        return nodes.place(pod_class, added) if is_admitted else None

    # Identical pods that only amounts tell apart. ``start`` is how many of them have a place.

    def _add_plain(self, pod_class: PodClass, pods: Sequence[Pod], *, alone: bool) -> None:
        admitted = self._is_admitted(pod_class)
        start = self._deal_plain(pod_class, pods) if admitted and len(self._nodes) else 0
        if start == len(pods) or self._exhausted:
            return
        per_node = self._nodes.room_when_empty(pod_class) if admitted else 0
        while start < len(pods) and not self._exhausted and not self._nodes.last_is_empty:
            added = self._grow(-((start - len(pods)) // per_node) if per_node else 1)
            if added is None or not per_node:
                return
            before, start = start, self._fill(pod_class, pods, start, added, per_node)
            if alone and self._schedulable_scan:
                self._turn_after(added, per_node, start - before)

    def _turn_after(self, added: range, per_node: int, placed: int) -> None:
        """Of pods that stand alone, each but the first of a new node was found a place by a scan."""
        on_last = placed - per_node * (len(added) - 1)
        if on_last > 1:
            self._cursor = added.stop
        elif len(added) > 1 and per_node > 1:
            self._cursor = added.stop - 1

    def _deal_plain(self, pod_class: PodClass, pods: Sequence[Pod]) -> int:
        """Put pods on the nodes added so far, in turn; answers how many.

        A template that is unschedulable is never scanned: only its last copy is tried.
        """
        nodes = self._nodes
        mask = nodes.fitting(pod_class)
        if not self._schedulable_scan:
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
            turn = int(np.searchsorted(indices, self._cursor % len(self._nodes))) % len(indices)
            counts, end = round_robin(room, len(pods), turn)
            first, after = int(indices[turn]), int(indices[end - 1]) + 1
            served, counts = indices[counts > 0], counts[counts > 0]
        if self._schedulable_scan:
            self._cursor = after
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

    def _add_local(self, pod_class: PodClass, pods: Sequence[Pod], room: Room) -> None:
        """Pods of which every node takes so many by itself."""
        start, window = 0, self._window
        if not self._schedulable_scan:
            window = slice(max(window.stop - 1, self._first), window.stop)
        if len(self._nodes):
            free = room(self._shared(), window)
            indices = free.nonzero()[0]
            if len(indices):
                start = self._deal(pod_class, pods, indices + (window.start - self._first), free[indices])
        while start < len(pods) and not self._exhausted and not self._nodes.last_is_empty:
            added = self._grow(1)
            if added is None:
                return
            row = self._first + added.start
            per_node = int(room(self._shared(), slice(row, row + 1))[0])
            if not per_node:
                return
            start = self._fill(pod_class, pods, start, added, per_node)
            more = self._grow(-((start - len(pods)) // per_node)) if start < len(pods) else None
            start = self._fill(pod_class, pods, start, more, per_node) if more is not None else start

    def _add_one_by_one(self, pod_class: PodClass, pods: Sequence[Pod]) -> None:
        """CA's steps."""
        place = self._place_on_new
        for pod in pods:
            if place(pod_class, pod):
                continue
            place = self._place_or_grow
            if self._exhausted or not place(pod_class, pod):
                return

    def _place_on_new(self, pod_class: PodClass, pod: Pod) -> bool:
        if not len(self._nodes) or not self._schedulable_scan:
            return False
        row = self._scan(feasible(self._shared(), pod_class, self._window), self._first)
        return row is not None and self._put(pod_class, row, pod)

    def _place_or_grow(self, pod_class: PodClass, pod: Pod) -> bool:
        """Try the last node, then any other (hostname spread only), then a new one; False ends the group."""
        if len(self._nodes):
            last = self._window.stop - 1
            if self._fits(pod_class, last):
                return self._put(pod_class, last, pod)
            if self._place_elsewhere(pod_class, pod, last):
                return True
            if self._is_unused(last):
                return False
        added = self._grow(1)
        if added is None:
            return False
        row = self._first + added.start
        return self._fits(pod_class, row) and self._put(pod_class, row, pod)

    def _place_elsewhere(self, pod_class: PodClass, pod: Pod, last: int) -> bool:
        """Any node but the last, existing ones too, for a pod that hostname spread keeps off the last one."""
        keys = {constraint.topology_key for constraint in pod_class.spec.topology_spread_constraints}
        if HOSTNAME_LABEL not in keys:
            return False
        shared = self._shared()
        refused = explain(shared, pod_class, last)
        if refused is None or SKEW_REASON not in refused.reasons:
            return False
        mask = feasible(shared, pod_class, slice(0, last))
        mask &= shared.schedulable[:last]
        chosen = self._scan(mask, 0)
        return chosen is not None and self._put(pod_class, chosen, pod)

    def _fits(self, pod_class: PodClass, row: int) -> bool:
        return bool(feasible(self._shared(), pod_class, slice(row, row + 1))[0])

    def _scan(self, mask: Mask, first: int) -> int | None:
        """First row in turn, counted from the one after the last row that a scan chose."""
        rows = np.flatnonzero(mask)
        if not len(rows):
            return None
        place = int(np.searchsorted(rows, self._first + self._cursor - first))
        row = int(rows[place % len(rows)]) + first
        self._cursor = row + 1 - self._first
        return row

    def _put(self, pod_class: PodClass, row: int, pod: Pod) -> bool:
        self._shared().place(pod_class, row)
        if row >= self._first:
            self._placed.add_one(pod_class, (pod,), row - self._first)
            self._placed.untold()
        else:
            self._placed.add_beside(pod_class, (pod,))
            self._existing_rows.add(row)
        return True

    def multiply(self, group: PodGroup) -> None:
        """Fill one new node, then multiply it (CA's fast path)."""
        pod_class, pending = group.pod_class, list(group.pods)
        while pending and self._place_on_new(pod_class, pending[0]):
            pending.pop(0)
        added = self._grow(1) if pending else None
        if added is not None:
            row, first = self._first + added.start, len(pending)
            while pending and self._fits(pod_class, row) and self._put(pod_class, row, pending[0]):
                pending.pop(0)
            per_node = first - len(pending)
            if per_node and pending:
                nodes = self._budget.grant(-(-len(pending) // per_node))
                self._multiplied += nodes
                self._placed.add_beside(pod_class, pending[: nodes * per_node])
        self._nodes.reread(len(self._nodes), self._read)

    # Nodes

    @property
    def _picture(self) -> Snapshot:
        """What is known of pods that keep others away."""
        return self._real if self._fork is None else self._shared()

    @property
    def _window(self) -> slice:
        """The rows of the new nodes."""
        return slice(self._first, self._first + len(self._nodes))

    def _is_unused(self, row: int) -> bool:
        """Whether a new node has no pods but those of every copy."""
        return int(self._shared().free[row, self._real.vocabulary.resources[PODS]]) == self._free_pods

    def _grow(self, wanted: int) -> range | None:
        """Add up to ``wanted`` nodes with their daemon pods; None when no more may be added at all."""
        granted = self._grant(wanted)
        return self._nodes.grow(granted) if granted else None

    def _grant(self, wanted: int) -> int:
        granted = self._budget.grant(wanted)
        self._exhausted = granted < wanted
        return granted

    def _is_admitted(self, pod_class: PodClass) -> bool:
        """Whether a new node takes pods of a plain class at all, room or not."""
        key = static_key(pod_class)
        known = self._admitted.get(key)
        if known is None:
            if self._board is None:
                self._board = self._real.sibling()
                self._board.add_copies(self._node, 1)
            known = self._admitted[key] = bool(is_admitted(self._board, pod_class, slice(0, 1))[0])
        return known

    def _shared(self) -> Snapshot:
        """The fork, with all new nodes and the pods on them."""
        if self._fork is None:
            self._fork = self._real.fork()
        fork = self._fork
        missing = self._window.stop - len(fork)
        if missing:
            rows = fork.add_copies(self._node, missing)
            for daemon in self._daemons:
                fork.place_many(daemon, np.arange(rows.start, rows.stop), np.ones(missing, dtype=np.int64))
        for placed in self._placed.untold():
            fork.place_many(placed.pod_class, np.asarray(placed.indices) + self._first, np.asarray(placed.counts))
        return fork

    def _read(self, resource: str) -> Ints:
        """What is free of a resource on the new nodes that the fork has; nothing where no node offers it."""
        fork = self._shared()
        column = fork.vocabulary.resources.get(resource)
        if column is None:
            return np.zeros(1, dtype=np.int64)
        fork.widen()
        return fork.free[self._window, column]


def _when_empty(node: Node, daemons: Sequence[PodClass]) -> dict[str, int]:
    """What a copy of the template offers with its daemon pods on it."""
    free = {PODS: 0, **node_amounts(node.allocatable)}
    for daemon in daemons:
        for name, amount in ((PODS, 1), *daemon.placed_requests.items()):
            free[name] = free.get(name, 0) - amount
    return free
