"""Simulate drains: move the pods of nodes to other nodes of a snapshot.

CA forks its snapshot for every candidate. Here moves are recorded and undone, so that the time for a candidate depends on
its own pods and not on the size of the cluster.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from nodewright.model.node import TO_BE_DELETED_TAINT, Node, Taint
from nodewright.model.pod import Pod
from nodewright.planner.scale_down.pod_index import PodMoves, PodSubset, PodTracker
from nodewright.predicates import amounts_fit, feasible, is_admitted, is_countable, static_key
from nodewright.snapshot.column import Ints, Mask, as_columns
from nodewright.snapshot.node_pods import PodDestinations
from nodewright.snapshot.pod_class import PodClass, per_class
from nodewright.snapshot.snapshot import Snapshot


class BulkFit:
    """Finds for many nodes at once whether they take plain pods.

    For plain pods only resource amounts matter on nodes that admit them. Between calls snapshots may differ in their pods,
    and in the nodes that were added last.
    """

    def __init__(self) -> None:
        # By ``static_key`` of the class.
        self._admitted: dict[object, Mask] = {}

    def admitting_rows(self, snapshot: Snapshot, pod_class: PodClass) -> Mask:
        """Return which nodes admit plain pods of a class, given enough room."""
        key = static_key(pod_class)
        known = self._admitted.get(key)
        if known is None or len(known) != len(snapshot):
            known = self._admitted[key] = is_admitted(snapshot, pod_class, slice(0, len(snapshot)))
        return known

    def reset(self) -> None:
        """Forget the admitting nodes: a discarded snapshot had a node that the next one does not have."""
        self._admitted.clear()

    def rows_fitting_all(self, snapshot: Snapshot, asked: Mapping[PodClass, Sequence[int]]) -> frozenset[int]:
        """Return the rows that take all plain pods that ``asked`` places there, in any order.

        ``asked`` has one row for each pod.
        """
        rows = np.array(sorted(set(chain.from_iterable(asked.values()))), dtype=np.int64)
        needed = np.zeros((_width(snapshot, asked), len(rows)), dtype=np.int64)
        fits = np.ones(len(rows), dtype=np.bool_)
        for pod_class, places in asked.items():
            counts = np.bincount(np.searchsorted(rows, places), minlength=len(rows))
            # A pod's requests while it is pending and once it runs may differ: take the larger amounts.
            most = np.maximum(snapshot.request_row(pod_class), snapshot.request_row(pod_class, placed=True))
            needed += most[:, None] * counts
            fits &= (counts == 0) | self.admitting_rows(snapshot, pod_class)[rows]
        fits &= ((needed <= snapshot.free[rows].T) | (needed == 0)).all(axis=0)
        return frozenset(rows[fits].tolist())


# A search looks at this many nodes first. If it finds nothing, each next window is _GROWTH times larger.
_FIRST_WINDOW = 256
_GROWTH = 8


class RoundRobinCursor:
    """Finds nodes for pods in turn: each search begins behind the last node that took a pod, as kube-scheduler does."""

    def __init__(self, bulk_fit: BulkFit) -> None:
        self._bulk_fit = bulk_fit
        self._cursor = 0

    def next_rows(
        self, snapshot: Snapshot, open_rows: Mask, pod_class: PodClass, count: int, *, together: bool
    ) -> list[int]:
        """Return the next ``count`` open nodes that take a pod of the class, fewer if there are no more.

        Cordoned nodes take none. ``together``: only amounts matter for pods of the class, so that a pod on one node changes
        nothing for other nodes.
        """
        found = list[int]()
        admitted = self._bulk_fit.admitting_rows(snapshot, pod_class) if together else open_rows
        takes, schedulable = amounts_fit if together else feasible, snapshot.schedulable
        rows, start = len(snapshot), self._cursor % max(1, len(snapshot))
        for window in chain(_windows(start, rows), _windows(0, start)):
            mask = open_rows[window] & schedulable[window] & admitted[window]
            if together or mask.any():  # other predicates cost more than this test
                mask &= takes(snapshot, pod_class, window)
            found += (window.start + np.flatnonzero(mask)[: count - len(found)]).tolist()
            if len(found) == count:
                break
        if found:
            self._cursor = found[-1] + 1
        return found


# The number of a pod, and the row where it was to go before; negative: no open row.
_Hinted = tuple[int, int]


@dataclass
class _DrainAttempt:
    """One attempt to drain a node: the rows where its pods were placed, by class, and the moves in order.

    ``row`` is the node's row, also where a tainted copy has taken its place.
    """

    snapshot: Snapshot
    open_rows: Mask
    row: int
    placed: list[tuple[PodClass, list[int]]] = field(default_factory=list)
    moves: list[PodMoves] = field(default_factory=list)

    def place(self, pod_class: PodClass, rows: list[int]) -> None:
        """Place pods of one class, one on each row; ``moves`` say which pods."""
        if len(rows) == 1:
            self.snapshot.place(pod_class, rows[0])
        else:
            self.snapshot.place_many(pod_class, *_counted(rows))
        self.placed.append((pod_class, rows))


class HintedNode(NamedTuple):
    """The pods of a node, and for each pod number the row where the last loop placed it, if that row is still open."""

    row: int
    subset: PodSubset
    hinted_rows: Mapping[int, int]


class DrainSimulation:
    """A cluster in which nodes are drained one after the other; ``snapshot`` belongs to it alone.

    ``destinations`` are the rows that may take pods; a drained node takes none from then on. ``hints`` are where pods
    were to go in the last loop.
    """

    def __init__(self, snapshot: Snapshot, destinations: Mask, hints: PodDestinations, now: float) -> None:
        self.snapshot = snapshot
        self._open = destinations & snapshot.alive
        self._tracker = PodTracker(snapshot, hints)
        # Classes for whose pods no node has room.
        self._classes_without_room: set[PodClass] = set()
        self._bulk_fit = BulkFit()
        self._cursor = RoundRobinCursor(self._bulk_fit)
        self._now = now

    def subset(self, row: int) -> PodSubset:
        """Return the pods of a node as it is now."""
        return self._tracker.subset(self.snapshot, row)

    def finish(self) -> PodDestinations:
        """Write the final places into the pod index, and return them as hints for the next loop."""
        return self._tracker.finish()

    def drain(self, row: int, subset: PodSubset, moving: PodSubset) -> Pod | None:
        """Move the pods in ``moving``, out of all pods in ``subset``, off the node of a row.

        If all find a place the node is removed and None returned. Else nothing changes, and a pod without a place is
        returned.
        """
        if not moving:
            self._remove_node(row, ())
            return None
        if any(honors_node_taints(kind.pod_class) for kind in moving.distinct_kinds):
            return self._drain_with_tainted_copy(row, moving)
        if self._cannot_move(row, moving):
            self._tracker.keep_node(row, ())
            return moving.pods[0]
        held = subset.counts()
        for pod_class, count in held.items():
            self.snapshot.unplace(pod_class, row, count)
        was_open, self._open[row] = bool(self._open[row]), False
        attempt = _DrainAttempt(self.snapshot, self._open, row)
        unplaced = self._move(attempt, moving)
        if unplaced is None:
            self._remove_node(row, attempt.moves)
            return None
        for pod_class, rows in attempt.placed:
            self.snapshot.unplace_many(pod_class, *_counted(rows))
        for pod_class, count in held.items():
            self.snapshot.place(pod_class, row, count)
        self._open[row] = was_open
        self._tracker.keep_node(row, attempt.moves)
        if not attempt.placed:
            self._note_class_without_room(row, moving)
        return unplaced

    def find_hinted(self, row: int) -> HintedNode | None:
        """Return where the last loop placed the pods of a node; None if more than amounts matters for one of them."""
        subset = self.subset(row)
        hinted_rows = self._hinted_rows(row, subset.numbers, self._open) or ()
        found = {
            number: row_hint
            for number, row_hint in zip(subset.numbers, hinted_rows, strict=bool(hinted_rows))
            if row_hint >= 0
        }
        kinds = self._tracker.index.kinds
        plain = all(is_countable(self.snapshot, kind.pod_class) for kind in {kinds[number] for number in found})
        return HintedNode(row, subset, found) if plain else None

    def fit_together(self, nodes: Collection[HintedNode]) -> bool:
        """Return whether all pods of these nodes fit where their hints say, in any order, on nodes that stay."""
        asked = self._by_class((number, row_hint) for node in nodes for number, row_hint in node.hinted_rows.items())
        wanted = set(chain.from_iterable(asked.values()))
        drained = {node.row for node in nodes}
        return wanted.isdisjoint(drained) and len(self._bulk_fit.rows_fitting_all(self.snapshot, asked)) == len(wanted)

    def drain_together(self, leaving: Sequence[tuple[HintedNode, PodSubset]]) -> None:
        """Drain nodes that ``fit_together``, each with the pods that move; all of them must have a hint."""
        held: defaultdict[PodClass, Counter[int]] = defaultdict(Counter)
        for node, _ in leaving:
            for pod_class, count in node.subset.counts().items():
                held[pod_class][node.row] = count
        for pod_class, counts in held.items():
            self.snapshot.unplace_many(pod_class, *as_columns(counts))
        moves = [(node, _by_priority(moving)) for node, moving in leaving]
        brought = self._by_class((number, node.hinted_rows[number]) for node, numbers in moves for number in numbers)
        for pod_class, rows in brought.items():
            self.snapshot.place_many(pod_class, *_counted(rows))
        for node, numbers in moves:
            self._remove_node(node.row, [(numbers, [node.hinted_rows[number] for number in numbers])])

    def _by_class(self, pods: Iterable[_Hinted]) -> dict[PodClass, list[int]]:
        """Return the rows to which the pods of each class go."""
        found: dict[PodClass, list[int]] = {}
        kinds = self._tracker.index.kinds
        for number, row in pods:
            found.setdefault(kinds[number].pod_class, []).append(row)
        return found

    def _cannot_move(self, row: int, moving: PodSubset) -> bool:
        """Return whether all pods are of one class for which no node has room."""
        classes = {kind.pod_class for kind in moving.distinct_kinds}
        return len(classes) == 1 and classes <= self._classes_without_room and not self._tracker.has_hints(row)

    def _note_class_without_room(self, row: int, moving: PodSubset) -> None:
        """Note that no node has room for this class: nodes that stay only fill up, so that none ever will have."""
        (pod_class, _), *others = moving.counts().items()
        fits = amounts_fit(self.snapshot, pod_class, slice(row, row + 1))[0]
        if not others and not fits and is_countable(self.snapshot, pod_class):
            self._classes_without_room.add(pod_class)

    def _remove_node(self, row: int, moves: Iterable[PodMoves]) -> None:
        self._open[row] = False
        self._tracker.move_node(row, moves)
        self.snapshot.remove_node(row)

    def _drain_with_tainted_copy(self, row: int, moving: PodSubset) -> Pod | None:
        """Drain a node whose pods have a spread constraint that ignores tainted nodes.

        A tainted copy without pods stands for the node while its pods are placed.
        """
        snapshot = self.snapshot.fork()
        copy_row = replace_with_tainted_copy(snapshot, row, self._now)
        open_rows = np.append(self._open, False)
        open_rows[row] = False
        attempt = _DrainAttempt(snapshot, open_rows, row)
        unplaced = self._move(attempt, moving)
        if unplaced is not None:
            self._bulk_fit.reset()
            self._tracker.keep_node(row, attempt.moves)
            return unplaced
        snapshot.remove_node(copy_row)
        self.snapshot, self._open = snapshot, open_rows
        self._tracker.move_node(row, attempt.moves)
        return None

    def _move(self, attempt: _DrainAttempt, moving: PodSubset) -> Pod | None:
        """Find places for pods, those of high priority first; return the first pod without a place.

        After a failure the search goes on only to refresh hints, as in CA.
        """
        unplaced: Pod | None = None
        kinds = moving.distinct_kinds
        for priority in sorted({kind.priority for kind in kinds}, reverse=True):
            failed = self._move_one_priority(
                attempt, moving.only({kind for kind in kinds if kind.priority == priority})
            )
            unplaced = unplaced or failed
        return unplaced

    def _move_one_priority(self, attempt: _DrainAttempt, subset: PodSubset) -> Pod | None:
        """Find places for pods of one priority; stop at and return the first pod without a place."""
        for pod_class, alike in self._follow_hints(attempt, subset).runs():
            together = is_countable(attempt.snapshot, pod_class)
            start, count = 0, len(alike)
            while start < count:
                # If only amounts matter, one placed pod changes nothing for the others of its class on other nodes.
                wanted = count - start if together else 1
                rows = self._cursor.next_rows(attempt.snapshot, attempt.open_rows, pod_class, wanted, together=together)
                if not rows:
                    return alike.part(start, start + 1).pods[0]
                attempt.place(pod_class, rows)
                attempt.moves.append((alike.numbers[start : start + len(rows)], rows))
                start += len(rows)
        return None

    def _follow_hints(self, attempt: _DrainAttempt, subset: PodSubset) -> PodSubset:
        """Place pods where they were to go before, as far as they fit; return the others."""
        rows = self._hinted_rows(attempt.row, subset.numbers, attempt.open_rows)
        if rows is None:
            return subset
        countable = {kind for kind in subset.distinct_kinds if is_countable(attempt.snapshot, kind.pod_class)}
        last_rows, kinds = list(zip(subset.numbers, rows, strict=True)), self._tracker.index.kinds
        left: list[_Hinted] = []
        if len(countable) == len(subset.distinct_kinds):
            left = self._follow_together(attempt, last_rows)
        else:
            for together, run in groupby(last_rows, lambda pod: kinds[pod[0]] in countable):
                follow = self._follow_together if together else self._follow_singly
                left += follow(attempt, list(run))
        return PodSubset(self._tracker.index, [number for number, _ in left])

    def _hinted_rows(self, row: int, numbers: Sequence[int], open_rows: Mask) -> list[int] | None:
        """Return where each pod was to go, negative for a row that is closed; None if no pod has an open row."""
        if not self._tracker.has_hints(row):
            return None
        rows = np.array(self._tracker.last_rows(numbers), dtype=np.int64)
        rows[~open_rows[rows]] = -1
        return rows.tolist() if (rows >= 0).any() else None

    def _follow_together(self, attempt: _DrainAttempt, last_rows: Sequence[_Hinted]) -> list[_Hinted]:
        """Place plain pods as ``_follow_singly`` does; a node with room for all its pods takes them at once."""
        asked = self._by_class(pod for pod in last_rows if pod[1] >= 0)
        fitting = self._bulk_fit.rows_fitting_all(attempt.snapshot, asked)
        fitting_pods = [pod for pod in last_rows if pod[1] in fitting]
        for pod_class, rows in (asked if len(fitting_pods) == len(last_rows) else self._by_class(fitting_pods)).items():
            attempt.place(pod_class, rows)
        # Keep the order of the node, not of the classes: the order of arrival decides which pod finds a place later.
        attempt.moves.append(([number for number, _ in fitting_pods], [row for _, row in fitting_pods]))
        return self._follow_singly(attempt, [pod for pod in last_rows if pod[1] not in fitting])

    def _follow_singly(self, attempt: _DrainAttempt, last_rows: Sequence[_Hinted]) -> list[_Hinted]:
        """Place pods on their rows one by one; return those that do not fit there."""
        left: list[_Hinted] = []
        for number, row in last_rows:
            pod_class = self._tracker.index.kinds[number].pod_class
            if row >= 0 and feasible(attempt.snapshot, pod_class, slice(row, row + 1))[0]:
                attempt.place(pod_class, [row])
                attempt.moves.append(((number,), [row]))
            else:
                left.append((number, row))
        return left


def _counted(rows: Sequence[int]) -> tuple[Ints, Ints]:
    """Return the distinct rows, and how often each occurs."""
    if len(set(rows)) == len(rows):
        return np.array(rows, dtype=np.int64), np.ones(len(rows), dtype=np.int64)
    return as_columns(Counter(rows))


def _by_priority(subset: PodSubset) -> Sequence[int]:
    """Return the numbers of the pods, those of high priority first."""
    if len({kind.priority for kind in subset.distinct_kinds}) < 2:
        return subset.numbers
    kinds = subset.index.kinds
    return sorted(subset.numbers, key=lambda number: -kinds[number].priority)


def _windows(start: int, stop: int) -> Iterable[slice]:
    """Yield slices from ``start`` to ``stop``, each longer than the one before."""
    size = _FIRST_WINDOW
    while start < stop:
        yield slice(start, min(stop, start + size))
        start, size = start + size, size * _GROWTH


def _width(snapshot: Snapshot, classes: Iterable[PodClass]) -> int:
    """Return the number of resource columns once all resources of these classes have one."""
    for pod_class in classes:
        for placed in (False, True):
            snapshot.request_row(pod_class, placed=placed)
    width: int = snapshot.free.shape[1]
    return width


def replace_with_tainted_copy(snapshot: Snapshot, row: int, now: float) -> int:
    """Put a tainted copy without pods in place of a node; return its row."""
    node = snapshot.node(row)
    snapshot.remove_node(row)
    return snapshot.add_node(tainted_copy(node, now))


def tainted_copy(node: Node, now: float) -> Node:
    """Return the node with the deletion taint that its removal would set."""
    taint = Taint(key=TO_BE_DELETED_TAINT, effect="NoSchedule", value=str(int(now)))
    return replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint)))


@per_class
def honors_node_taints(pod_class: PodClass) -> bool:
    """Return whether the pod spreads only over nodes whose taints it tolerates.

    Then a node tainted for deletion does not count.
    """
    return any(
        constraint.when_unsatisfiable == "DoNotSchedule" and constraint.node_taints_policy == "Honor"
        for constraint in pod_class.spec.topology_spread_constraints
    )
