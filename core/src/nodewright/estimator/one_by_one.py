"""Pods that are placed one at a time, since the place of each depends on those before it: CA's steps."""

from collections.abc import Sequence

import numpy as np

from nodewright.estimator.fork import Fork
from nodewright.estimator.limits import NodeBudget
from nodewright.estimator.new_nodes import NewNodes
from nodewright.estimator.placements import Placements
from nodewright.estimator.pod_group import PodGroup
from nodewright.model.node import HOSTNAME_LABEL
from nodewright.model.pod import Pod
from nodewright.predicates import explain, feasible
from nodewright.predicates.pod_topology_spread import SKEW_REASON
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass


class OneByOne:
    """Places pods on the new nodes of a fork, and adds some where they have no place.

    ``scans``: the template is schedulable; one that is not is never scanned, only its last copy is tried.
    """

    def __init__(self, fork: Fork, nodes: NewNodes, budget: NodeBudget, placed: Placements, *, scans: bool) -> None:
        self._fork, self._nodes, self._budget, self._placed = fork, nodes, budget, placed
        self._scans = scans
        self._existing_rows: set[int] = set()
        self._multiplied = 0

    @property
    def existing_nodes(self) -> int:
        """Existing nodes that got pods."""
        return len(self._existing_rows)

    @property
    def multiplied_nodes(self) -> int:
        """New nodes that got pods and that arithmetic stands for."""
        return self._multiplied

    def add(self, pod_class: PodClass, pods: Sequence[Pod]) -> None:
        """Place pods of one class until one finds no place."""
        place = self._place_on_new
        for pod in pods:
            if place(pod_class, pod):
                continue
            place = self._place_or_grow
            if self._budget.is_exhausted or not place(pod_class, pod):
                break
        self._nodes.reread(len(self._nodes), self._fork.read)

    def multiply(self, group: PodGroup) -> None:
        """Fill one new node, then multiply it (CA's fast path)."""
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
                self._placed.add_beside(pod_class, pending[: nodes * per_node])
        self._nodes.reread(len(self._nodes), self._fork.read)

    def _place_on_new(self, pod_class: PodClass, pod: Pod) -> bool:
        if not len(self._nodes) or not self._scans:
            return False
        fork = self._fork
        row = self._scan(feasible(fork.snapshot(), pod_class, fork.window), fork.first)
        return row is not None and self._put(pod_class, row, pod)

    def _place_or_grow(self, pod_class: PodClass, pod: Pod) -> bool:
        """Try the last node, then any other (hostname spread only), then a new one; False ends the group."""
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
        """Any node but the last, existing ones too, for a pod that hostname spread keeps off the last one."""
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
        """First row in turn, counted from the one after the last row that a scan chose; ``mask`` is of rows from
        ``start`` on.
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
            self._placed.untold()
        else:
            self._placed.add_beside(pod_class, (pod,))
            self._existing_rows.add(row)
        return True
