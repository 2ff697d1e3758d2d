"""Place pods on new nodes, class by class: by arithmetic if only amounts decide, else with predicates."""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import numpy as np

from nodewright.estimator.new_nodes import NewNodes, NodeBudget, OpenNodes, PlacedOnNew, PlacedPods, round_robin
from nodewright.estimator.one_by_one import ForkWithNewNodes, OneByOne
from nodewright.estimator.pod_group import PodGroup
from nodewright.model.node import HOSTNAME_LABEL, Node
from nodewright.model.pod import Pod
from nodewright.predicates import amounts_room, feasible, has_guards, is_countable, static_fit
from nodewright.predicates.inter_pod_affinity import NO_LABELS, terms_of, with_selected
from nodewright.predicates.node_ports import host_ports
from nodewright.predicates.pod_topology_spread import Skew, hard_constraints, skews
from nodewright.snapshot.column import Ints, Mask
from nodewright.snapshot.pod_class import PodClass, is_restricted, per_class
from nodewright.snapshot.requests import PODS, node_amounts
from nodewright.snapshot.snapshot import Snapshot

# From this number of single-pod groups on, copying the columns into plain Python numbers is faster than numpy calls.
_MANY = 16
# Takes a snapshot and a slice of its rows; returns how many more pods of one class each row takes.
RoomPerNode = Callable[[Snapshot, slice], Ints]


class Packing:
    """Packing state of one estimate: the new nodes and the pods placed on them.

    Countable pods (only resource amounts decide where they fit) are counted on the new nodes alone. For all others
    the predicates also look at the existing nodes, in a forked snapshot that is made when it is first needed.
    """

    def __init__(self, snapshot: Snapshot, node: Node, daemons: Sequence[Pod], budget: NodeBudget) -> None:
        always = [snapshot.class_of(pod, placed=True) for pod in daemons]
        self._budget = budget
        self._nodes, self._placed = NewNodes(_when_empty(node, always)), PlacedPods()
        self._fork = ForkWithNewNodes(snapshot, node, always, self._nodes, self._placed)
        self._scans = not node.spec.unschedulable
        self._singly = OneByOne(self._fork, self._nodes, budget, self._placed, scans=self._scans)
        self._has_guards = has_guards(snapshot)

    # Results

    @property
    def packed(self) -> tuple[tuple[Pod, ...], ...]:
        """Return the pods of each new node."""
        return self._placed.by_node(len(self._nodes))

    @property
    def pods(self) -> tuple[Pod, ...]:
        """Return all pods that found a place, those on existing nodes last."""
        return self._placed.pods()

    @property
    def helped(self) -> dict[PodClass, int]:
        """Return how many pods of each class found a place."""
        return self._placed.by_class()

    @property
    def new_nodes(self) -> int:
        """Return the number of new nodes that got pods."""
        return self._nodes.used + self._singly.multiplied_nodes

    @property
    def node_count(self) -> int:
        """Return the number of nodes that got pods, existing nodes included."""
        return self.new_nodes + self._singly.existing_nodes

    def add(self, groups: Iterable[PodGroup], fast: PodGroup | None) -> None:
        """Pack groups in this order, then ``fast`` by CA's fast path."""
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
        room = _find_room_per_node(self._fork.snapshot(), pod_class, self._fork.first)
        if room is not None:
            self._add_local(pod_class, group.pods, room, alone=group.alone)
        else:
            self._singly.add(pod_class, group.pods)
        self._has_guards = self._has_guards or pod_class.has_anti_affinity

    def _is_countable(self, pod_class: PodClass) -> bool:
        """Return whether only resource amounts decide where pods of the class fit."""
        return is_countable(self._fork.known, pod_class) if self._has_guards else pod_class.is_plain

    # Countable pods, each of another class

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

    # Identical countable pods. ``start`` counts those that have a place.

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
        """Set the scan position as CA does for single-pod groups: it scans for each pod except the first of a new node."""
        on_last = placed - per_node * (len(added) - 1)
        if on_last > 1:
            self._nodes.turn = added.stop
        elif len(added) > 1 and per_node > 1:
            self._nodes.turn = added.stop - 1

    def _deal_plain(self, pod_class: PodClass, pods: Sequence[Pod]) -> int:
        """Put pods on the new nodes added so far, round-robin; return how many.

        CA never scans copies of an unschedulable template: only the last copy is tried.
        """
        nodes = self._nodes
        mask = nodes.fitting(pod_class)
        if not self._scans:
            mask[:-1] = False
        indices = mask.nonzero()[0]
        return self._deal(pod_class, pods, indices, nodes.room(pod_class, indices)) if len(indices) else 0

    def _deal(self, pod_class: PodClass, pods: Sequence[Pod], indices: Ints, room: Ints) -> int:
        """Deal pods round-robin to the nodes ``indices``, which have ``room`` for at least one each; return how many."""
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
        """Put ``per_node`` pods on each new node; the last one takes the rest. Return how many pods have a place now."""
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
        self._placed.add(PlacedOnNew(pod_class, pods, start, count, indices, counts, first))
        return start + count

    # Identical pods with predicates that look at one node only

    def _add_local(self, pod_class: PodClass, pods: Sequence[Pod], room: RoomPerNode, *, alone: bool) -> None:
        """Add pods of which each node takes a number that does not depend on the other nodes."""
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

    def _deal_local(self, pod_class: PodClass, pods: Sequence[Pod], room: RoomPerNode) -> int:
        """Place pods of such a class on the new nodes added so far, round-robin; return how many."""
        window, first = self._fork.window, self._fork.first
        if not self._scans:
            window = slice(max(window.stop - 1, first), window.stop)
        free = room(self._fork.snapshot(), window)
        indices = free.nonzero()[0]
        return self._deal(pod_class, pods, indices + (window.start - first), free[indices]) if len(indices) else 0


def _when_empty(node: Node, daemons: Sequence[PodClass]) -> dict[str, int]:
    """Return the free amounts of a copy of the template with its DaemonSet pods."""
    free = {PODS: 0, **node_amounts(node.allocatable)}
    for daemon in daemons:
        for name, amount in ((PODS, 1), *daemon.placed_requests.items()):
            free[name] = free.get(name, 0) - amount
    return free


def _find_room_per_node(snapshot: Snapshot, pod_class: PodClass, first: int) -> RoomPerNode | None:
    """Return how many pods of the class each new node takes; None if that depends on the pods of other nodes.

    ``first`` is the row of the first new node. Anti-affinity, host ports and topology spread by hostname depend on
    one node only, with one condition for spread: the least loaded node, which decides how many pods the others may
    hold, must be full, so that this minimum does not change. CA tries pods that hostname spread keeps off the newest
    node on the existing nodes; therefore none of these may have room.
    """
    if not _is_local(pod_class):
        return None
    found = skews(snapshot, pod_class)
    before = slice(0, first)
    if found and (not _are_pinned(snapshot, pod_class, found, before) or feasible(snapshot, pod_class, before).any()):
        return None
    most = 1 if host_ports(pod_class) or repels_itself(snapshot, pod_class) else None

    def room(snapshot: Snapshot, window: slice) -> Ints:
        mask = feasible(snapshot, pod_class, window)
        free = amounts_room(snapshot, pod_class, window)
        for skew in found:
            free = np.minimum(free, skew.room(snapshot, window))
        return np.where(mask, free if most is None else np.minimum(free, most), 0)

    return room


@per_class
def _is_local(pod_class: PodClass) -> bool:
    """Return whether a placed pod of the class does not change the room on other nodes (except for a spread's minimum)."""
    spec, terms = pod_class.spec, terms_of(pod_class)
    keys = [term.key for term in terms.anti_affinity]
    keys += [constraint.topology_key for constraint in hard_constraints(pod_class)]
    bound = bool(terms.affinity) or terms.broken is not None or pod_class.wants_devices
    return not bound and all(key == HOSTNAME_LABEL for key in keys) and not any(map(is_restricted, spec.volumes))


def repels_itself(snapshot: Snapshot, pod_class: PodClass) -> bool:
    own = snapshot.context.namespaces.get(pod_class.namespace, NO_LABELS)
    terms = terms_of(pod_class).anti_affinity
    seen = with_selected(terms, snapshot.context.namespaces)
    return any(term.is_about(pod_class, NO_LABELS) for term in seen) or any(t.is_about(pod_class, own) for t in terms)


def _are_pinned(snapshot: Snapshot, pod_class: PodClass, found: tuple[Skew, ...], window: slice) -> bool:
    """Return whether, for each constraint, a least loaded existing node can take no pod of the class at all."""
    full: Mask = ~(static_fit(snapshot, pod_class, window) & (amounts_room(snapshot, pod_class, window) > 0))
    full &= snapshot.alive[window]
    return all(skew.is_pinned(snapshot, window, full) for skew in found)
