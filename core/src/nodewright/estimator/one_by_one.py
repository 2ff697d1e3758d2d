"""Place pods one at a time with predicates, on new nodes and existing ones: CA's steps for pods that affect each other."""

from collections.abc import Sequence

import numpy as np

from nodewright.estimator.new_nodes import NewNodes, NodeBudget, PlacedPods
from nodewright.estimator.pod_group import PodGroup
from nodewright.model.node import HOSTNAME_LABEL, Node
from nodewright.model.pod import Pod
from nodewright.predicates import explain, feasible, is_admitted, static_key
from nodewright.predicates.pod_topology_spread import SKEW_REASON
from nodewright.snapshot.column import Ints, Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import PODS
from nodewright.snapshot.snapshot import Snapshot


class ForkWithNewNodes:
    """A fork of the snapshot with the new nodes, and the pods on them, after the existing nodes.

    The fork is made when it is first needed; each call of ``snapshot`` adds the pods placed since the last call.
    ``first`` is the row of the first new node.
    """

    def __init__(
        self, real: Snapshot, node: Node, daemons: Sequence[PodClass], nodes: NewNodes, placed: PlacedPods
    ) -> None:
        self._real, self._node, self._daemons = real, node, daemons
        self._nodes, self._placed = nodes, placed
        self.first = len(real)
        self._fork: Snapshot | None = None
        self._template_only: Snapshot | None = None
        self._admitted: dict[object, bool] = {}

    @property
    def window(self) -> slice:
        """Return the rows of the new nodes."""
        return slice(self.first, self.first + len(self._nodes))

    @property
    def known(self) -> Snapshot:
        """Return the snapshot that knows which pods have anti-affinity: the fork if it exists, else the real one."""
        return self._real if self._fork is None else self.snapshot()

    def snapshot(self) -> Snapshot:
        """Return the fork with all new nodes and the pods on them."""
        if self._fork is None:
            self._fork = self._real.fork()
        fork = self._fork
        missing = self.window.stop - len(fork)
        if missing:
            rows = fork.add_copies(self._node, missing)
            for daemon in self._daemons:
                fork.place_many(daemon, np.arange(rows.start, rows.stop), np.ones(missing, dtype=np.int64))
        for placed in self._placed.take_new():
            fork.place_many(placed.pod_class, np.asarray(placed.indices) + self.first, np.asarray(placed.counts))
        return fork

    def is_unused(self, row: int) -> bool:
        """Return whether a new node has no pods except DaemonSet pods and static pods."""
        return int(self.snapshot().free[row, self._real.vocabulary.resources[PODS]]) == self._nodes.offers(PODS)

    def read(self, resource: str) -> Ints:
        """Return how much of a resource is free on each new node; an array of a single 0 if no node offers it."""
        fork = self.snapshot()
        column = fork.vocabulary.resources.get(resource)
        if column is None:
            return np.zeros(1, dtype=np.int64)
        fork.widen()
        return fork.free[self.window, column]

    def admits(self, pod_class: PodClass) -> bool:
        """Return whether a new node accepts pods of a plain class, regardless of amounts. This needs no fork."""
        key = static_key(pod_class)
        known = self._admitted.get(key)
        if known is None:
            if self._template_only is None:
                self._template_only = self._real.sibling()
                self._template_only.add_copies(self._node, 1)
            known = self._admitted[key] = bool(is_admitted(self._template_only, pod_class, slice(0, 1))[0])
        return known


class OneByOne:
    """Places pods on the new nodes of a fork, and adds nodes for pods without a place.

    ``scans``: the template is schedulable. Copies of an unschedulable template are never scanned, as in CA: only the
    last copy is tried.
    """

    def __init__(
        self, fork: ForkWithNewNodes, nodes: NewNodes, budget: NodeBudget, placed: PlacedPods, *, scans: bool
    ) -> None:
        self._fork, self._nodes, self._budget, self._placed = fork, nodes, budget, placed
        self._scans = scans
        self._existing_rows: set[int] = set()
        self._multiplied = 0

    @property
    def existing_nodes(self) -> int:
        """Return the number of existing nodes that got pods."""
        return len(self._existing_rows)

    @property
    def multiplied_nodes(self) -> int:
        """Return the number of nodes that the fast path added by arithmetic."""
        return self._multiplied

    def add(self, pod_class: PodClass, pods: Sequence[Pod]) -> None:
        """Place pods of one class until one fits nowhere."""
        place = self._place_on_new
        for pod in pods:
            if place(pod_class, pod):
                continue
            place = self._place_or_grow
            if self._budget.is_exhausted or not place(pod_class, pod):
                break
        self._nodes.reread(len(self._nodes), self._fork.read)

    def multiply(self, group: PodGroup) -> None:
        """Fill one new node, then add as many like it as the remaining pods need (CA's fast path)."""
        pod_class, pending = group.pod_class, list(group.pods)
        while pending and self._place_on_new(pod_class, pending[0]):
            pending.pop(0)
        added = self._nodes.grow(self._budget.grant(1)) if pending else None
        if added:
            row, first = self._fork.first + added.start, len(pending)
            while pending and self._fits(pod_class, row) and self._put(pod_class, row, pending[0]):
                pending.pop(0)
            per_node = first - len(pending)
            if per_node and pending:
                nodes = self._budget.grant(-(-len(pending) // per_node))
                self._multiplied += nodes
                self._placed.add_elsewhere(pod_class, pending[: nodes * per_node])
        self._nodes.reread(len(self._nodes), self._fork.read)

    def _place_on_new(self, pod_class: PodClass, pod: Pod) -> bool:
        if not len(self._nodes) or not self._scans:
            return False
        fork = self._fork
        row = self._scan(feasible(fork.snapshot(), pod_class, fork.window), fork.first)
        return row is not None and self._put(pod_class, row, pod)

    def _place_or_grow(self, pod_class: PodClass, pod: Pod) -> bool:
        """Try the last node, then any other (hostname spread only), then a new one; return False to end the group."""
        if len(self._nodes):
            last = self._fork.window.stop - 1
            if self._fits(pod_class, last):
                return self._put(pod_class, last, pod)
            if self._place_elsewhere(pod_class, pod, last):
                return True
            if self._fork.is_unused(last):
                return False
        added = self._nodes.grow(self._budget.grant(1))
        if not added:
            return False
        row = self._fork.first + added.start
        return self._fits(pod_class, row) and self._put(pod_class, row, pod)

    def _place_elsewhere(self, pod_class: PodClass, pod: Pod, last: int) -> bool:
        """Try every node but the last, existing ones too, for a pod that hostname spread keeps off the last one."""
        keys = {constraint.topology_key for constraint in pod_class.spec.topology_spread_constraints}
        if HOSTNAME_LABEL not in keys:
            return False
        fork = self._fork.snapshot()
        refused = explain(fork, pod_class, last)
        if refused is None or SKEW_REASON not in refused.reasons:
            return False
        mask = feasible(fork, pod_class, slice(0, last))
        mask &= fork.schedulable[:last]
        chosen = self._scan(mask, 0)
        return chosen is not None and self._put(pod_class, chosen, pod)

    def _fits(self, pod_class: PodClass, row: int) -> bool:
        return bool(feasible(self._fork.snapshot(), pod_class, slice(row, row + 1))[0])

    def _scan(self, mask: Mask, start: int) -> int | None:
        """Return the first set row after the one that the last scan chose, wrapping around; None if there is none.

        ``mask`` begins at row ``start``.
        """
        rows = np.flatnonzero(mask)
        if not len(rows):
            return None
        first = self._fork.first
        place = int(np.searchsorted(rows, first + self._nodes.turn - start))
        row = int(rows[place % len(rows)]) + start
        self._nodes.turn = row + 1 - first
        return row

    def _put(self, pod_class: PodClass, row: int, pod: Pod) -> bool:
        self._fork.snapshot().place(pod_class, row)
        index = row - self._fork.first
        if index >= 0:
            self._placed.add_one(pod_class, (pod,), index)
            self._placed.take_new()  # the pod is in the fork already
        else:
            self._placed.add_elsewhere(pod_class, (pod,))
            self._existing_rows.add(row)
        return True
