"""Could a node go? Its pods are moved in a picture of the cluster (behaviour/down.md A6).

CA forks its picture for every candidate. Here moves are written down and taken back, so that a candidate costs what
its own pods cost, however large the cluster is.


Which node takes the next pod: each in its turn, behind the last that took one.

Which nodes take plain pods: those that only amounts can keep apart, on the nodes that admit them.

A tainted copy without pods that stands for a node on its way out, where pods count nodes with taints no longer."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from nodewright.model.node import TO_BE_DELETED_TAINT, Node, Taint
from nodewright.model.pod import Pod
from nodewright.planner.scale_down.pod_index import PodMoves, PodPlacements, PodSubset
from nodewright.predicates import amounts_fit, feasible, is_admitted, is_countable, static_key
from nodewright.snapshot.column import Ints, Mask, as_columns
from nodewright.snapshot.pod_class import PodClass, per_class
from nodewright.snapshot.pod_places import PodPlaces
from nodewright.snapshot.snapshot import Snapshot


class BulkFit:
    """What is asked of boards that differ by pods alone, or by nodes that came last."""

    def __init__(self) -> None:
        # By ``static_key``.
        self._admitted: dict[object, Mask] = {}

    def admitting_rows(self, snapshot: Snapshot, pod_class: PodClass) -> Mask:
        """Which nodes take plain pods of a class, given room."""
        key = static_key(pod_class)
        known = self._admitted.get(key)
        if known is None or len(known) != len(snapshot):
            known = self._admitted[key] = is_admitted(snapshot, pod_class, slice(0, len(snapshot)))
        return known

    def reset(self) -> None:
        """Of a board that is given up, with a node in it that others do not have, nothing holds for the next."""
        self._admitted.clear()

    def rows_fitting_all(self, snapshot: Snapshot, asked: Mapping[PodClass, Sequence[int]]) -> frozenset[int]:
        """The rows that take all the plain pods that are to go there (one row for each pod), whoever comes first."""
        rows = np.array(sorted(set(chain.from_iterable(asked.values()))), dtype=np.int64)
        needed = np.zeros((_width(snapshot, asked), len(rows)), dtype=np.int64)
        fits = np.ones(len(rows), dtype=np.bool_)
        for pod_class, places in asked.items():
            counts = np.bincount(np.searchsorted(rows, places), minlength=len(rows))
            # What one pod needs at the most: as it comes, or once it runs there.
            most = np.maximum(snapshot.request_row(pod_class), snapshot.request_row(pod_class, placed=True))
            needed += most[:, None] * counts
            fits &= (counts == 0) | self.admitting_rows(snapshot, pod_class)[rows]
        fits &= ((needed <= snapshot.free[rows].T) | (needed == 0)).all(axis=0)
        return frozenset(rows[fits].tolist())


# Nodes looked at first; a scan that finds nothing there looks at ever more at a time.
_FIRST_WINDOW = 256
_GROWTH = 8


class RoundRobinCursor:
    """Whose turn it is, over all candidates of a loop."""

    def __init__(self, bulk_fit: BulkFit) -> None:
        self._bulk_fit = bulk_fit
        self._cursor = 0

    def next_rows(
        self, snapshot: Snapshot, open_rows: Mask, pod_class: PodClass, count: int, *, together: bool
    ) -> list[int]:
        """The next so many open nodes that take such a pod, fewer if there are no more; cordoned ones are passed by.

        ``together``: only amounts keep pods of the class apart, so that one here changes nothing for one there.
        """
        found = list[int]()
        admitted = self._bulk_fit.admitting_rows(snapshot, pod_class) if together else open_rows
        takes, schedulable = amounts_fit if together else feasible, snapshot.schedulable
        rows, start = len(snapshot), self._cursor % max(1, len(snapshot))
        for window in chain(_windows(start, rows), _windows(0, start)):
            mask = open_rows[window] & schedulable[window] & admitted[window]
            if together or mask.any():  # other predicates cost more than a look
                mask &= takes(snapshot, pod_class, window)
            found += (window.start + np.flatnonzero(mask)[: count - len(found)]).tolist()
            if len(found) == count:
                break
        if found:
            self._cursor = found[-1] + 1
        return found


# The number of a pod, and the row where it was to go before; negative: none that is open.
_Hinted = tuple[int, int]


@dataclass
class _DrainAttempt:
    """One try to empty a node, and where its pods went so far: rows by class, and in the order in which they came.

    ``row`` is the node's, or was before a copy stood for it.
    """

    snapshot: Snapshot
    open_rows: Mask
    row: int
    placed: list[tuple[PodClass, list[int]]] = field(default_factory=list)
    moves: list[PodMoves] = field(default_factory=list)

    def place(self, pod_class: PodClass, rows: list[int]) -> None:
        """Pods of one class, one on each row; ``moves`` say which."""
        if len(rows) == 1:
            self.snapshot.place(pod_class, rows[0])
        else:
            self.snapshot.place_many(pod_class, *_counted(rows))
        self.placed.append((pod_class, rows))


class HintedNode(NamedTuple):
    """The pods of a node, and the row to which each was to go before, by number, as far as it still takes any."""

    row: int
    subset: PodSubset
    hinted_rows: Mapping[int, int]


class DrainSimulation:
    """A cluster in which nodes are emptied one after the other; ``snapshot`` belongs to it alone.

    ``destinations`` are the rows that may take pods; a node that could go is none from then on. ``hints`` are where
    pods were to go before.
    """

    def __init__(self, snapshot: Snapshot, destinations: Mask, hints: PodPlaces, now: float) -> None:
        self.snapshot = snapshot
        self._open = destinations & snapshot.alive
        self._placements = PodPlacements(snapshot, hints)
        # Classes for which no node has room.
        self._full: set[PodClass] = set()
        self._bulk_fit = BulkFit()
        self._cursor = RoundRobinCursor(self._bulk_fit)
        self._now = now

    def subset(self, row: int) -> PodSubset:
        """The pods of a node by now."""
        return self._placements.subset(self.snapshot, row)

    def finish(self) -> PodPlaces:
        """Tell the rosters of loads where their pods have gone; the answer is the same as hints."""
        return self._placements.finish()

    def drain(self, row: int, subset: PodSubset, moving: PodSubset) -> Pod | None:
        """Move these pods, out of all that there are, off the node of a row. The node is gone if all can be; else
        nothing has changed, and the answer is a pod that has no place.
        """
        if not moving:
            self._take_out(row, ())
            return None
        if any(honors_node_taints(kind.pod_class) for kind in moving.distinct_kinds):
            return self._empty_beside_ghost(row, moving)
        if self._is_hopeless(row, moving):
            self._placements.keep_node(row, ())
            return moving.pods[0]
        held = subset.counts()
        for pod_class, count in held.items():
            self.snapshot.unplace(pod_class, row, count)
        was_open, self._open[row] = bool(self._open[row]), False
        attempt = _DrainAttempt(self.snapshot, self._open, row)
        unplaced = self._move(attempt, moving)
        if unplaced is None:
            self._take_out(row, attempt.moves)
            return None
        for pod_class, rows in attempt.placed:
            self.snapshot.unplace_many(pod_class, *_counted(rows))
        for pod_class, count in held.items():
            self.snapshot.place(pod_class, row, count)
        self._open[row] = was_open
        self._placements.keep_node(row, attempt.moves)
        if not attempt.placed:
            self._note_full(row, moving)
        return unplaced

    def find_hinted(self, row: int) -> HintedNode | None:
        """Where the pods of a node were to go before; None where more than amounts may keep one of them from it."""
        subset = self.subset(row)
        hinted_rows = self._hinted_rows(row, subset.numbers, self._open) or ()
        found = {
            number: goal for number, goal in zip(subset.numbers, hinted_rows, strict=bool(hinted_rows)) if goal >= 0
        }
        kinds = self._placements.index.kinds
        plain = all(is_countable(self.snapshot, kind.pod_class) for kind in {kinds[number] for number in found})
        return HintedNode(row, subset, found) if plain else None

    def fit_together(self, routes: Collection[HintedNode]) -> bool:
        """Whether all pods of these nodes have room where their routes lead, in whatever order, and can stay there."""
        asked = self._by_class((number, goal) for route in routes for number, goal in route.hinted_rows.items())
        wanted = set(chain.from_iterable(asked.values()))
        going = {route.row for route in routes}
        return wanted.isdisjoint(going) and len(self._bulk_fit.rows_fitting_all(self.snapshot, asked)) == len(wanted)

    def drain_together(self, leaving: Sequence[tuple[HintedNode, PodSubset]]) -> None:
        """Take nodes out that ``fit_together``, each with the pods that move; these must all be on its route."""
        held: defaultdict[PodClass, Counter[int]] = defaultdict(Counter)
        for route, _ in leaving:
            for pod_class, count in route.subset.counts().items():
                held[pod_class][route.row] = count
        for pod_class, counts in held.items():
            self.snapshot.unplace_many(pod_class, *as_columns(counts))
        moves = [(route, _by_priority(moving)) for route, moving in leaving]
        brought = self._by_class((number, route.hinted_rows[number]) for route, numbers in moves for number in numbers)
        for pod_class, rows in brought.items():
            self.snapshot.place_many(pod_class, *_counted(rows))
        for route, numbers in moves:
            self._take_out(route.row, [(numbers, [route.hinted_rows[number] for number in numbers])])

    def _by_class(self, pods: Iterable[_Hinted]) -> dict[PodClass, list[int]]:
        """The rows to which pods of each class go."""
        found: dict[PodClass, list[int]] = {}
        kinds = self._placements.index.kinds
        for number, row in pods:
            found.setdefault(kinds[number].pod_class, []).append(row)
        return found

    def _is_hopeless(self, row: int, moving: PodSubset) -> bool:
        """Whether all pods are of one class for which there is no room anywhere."""
        classes = {kind.pod_class for kind in moving.distinct_kinds}
        return len(classes) == 1 and classes <= self._full and not self._placements.has_hints(row)

    def _note_full(self, row: int, moving: PodSubset) -> None:
        """No other node had room for the first pod: nodes that stay only fill up, so that none ever will have."""
        (pod_class, _), *others = moving.counts().items()
        fits = amounts_fit(self.snapshot, pod_class, slice(row, row + 1))[0]
        if not others and not fits and is_countable(self.snapshot, pod_class):
            self._full.add(pod_class)

    def _take_out(self, row: int, moves: Iterable[PodMoves]) -> None:
        self._open[row] = False
        self._placements.move_node(row, moves)
        self.snapshot.remove_node(row)

    def _empty_beside_ghost(self, row: int, moving: PodSubset) -> Pod | None:
        """As ``drain``, where a pod counts tainted nodes no longer: a tainted copy without pods stands for the node."""
        snapshot = self.snapshot.fork()
        copy_row = replace_with_tainted_copy(snapshot, row, self._now)
        open_rows = np.append(self._open, False)
        open_rows[row] = False
        attempt = _DrainAttempt(snapshot, open_rows, row)
        unplaced = self._move(attempt, moving)
        if unplaced is not None:
            self._bulk_fit.reset()
            self._placements.keep_node(row, attempt.moves)
            return unplaced
        snapshot.remove_node(copy_row)
        self.snapshot, self._open = snapshot, open_rows
        self._placements.move_node(row, attempt.moves)
        return None

    def _move(self, attempt: _DrainAttempt, moving: PodSubset) -> Pod | None:
        """Find places for pods, those of high priority first; answers the first that has none.

        What follows after a failure only refreshes hints, as it does in CA.
        """
        unplaced: Pod | None = None
        kinds = moving.distinct_kinds
        for priority in sorted({kind.priority for kind in kinds}, reverse=True):
            failed = self._move_equals(attempt, moving.only({kind for kind in kinds if kind.priority == priority}))
            unplaced = unplaced or failed
        return unplaced

    def _move_equals(self, attempt: _DrainAttempt, subset: PodSubset) -> Pod | None:
        """Pods of one priority; the first without a place ends it, so that CA's memory of pods alike has no effect."""
        for pod_class, alike in self._follow_hints(attempt, subset).runs():
            together = is_countable(attempt.snapshot, pod_class)
            start, count = 0, len(alike)
            while start < count:
                # Where only amounts keep pods apart, one that is placed changes nothing for the others of its class.
                wanted = count - start if together else 1
                rows = self._cursor.next_rows(attempt.snapshot, attempt.open_rows, pod_class, wanted, together=together)
                if not rows:
                    return alike.part(start, start + 1).pods[0]
                attempt.place(pod_class, rows)
                attempt.moves.append((alike.numbers[start : start + len(rows)], rows))
                start += len(rows)
        return None

    def _follow_hints(self, attempt: _DrainAttempt, subset: PodSubset) -> PodSubset:
        """Place pods where they were to go before, as far as they can; answers the others."""
        rows = self._hinted_rows(attempt.row, subset.numbers, attempt.open_rows)
        if rows is None:
            return subset
        countable = {kind for kind in subset.distinct_kinds if is_countable(attempt.snapshot, kind.pod_class)}
        last_rows, kinds = list(zip(subset.numbers, rows, strict=True)), self._placements.index.kinds
        left: list[_Hinted] = []
        if len(countable) == len(subset.distinct_kinds):
            left = self._follow_together(attempt, last_rows)
        else:
            for together, run in groupby(last_rows, lambda pod: kinds[pod[0]] in countable):
                follow = self._follow_together if together else self._follow_singly
                left += follow(attempt, list(run))
        return PodSubset(self._placements.index, [number for number, _ in left])

    def _hinted_rows(self, row: int, numbers: Sequence[int], open_rows: Mask) -> list[int] | None:
        """Where each pod of a node was to go, negative where that takes nobody; None: nowhere any."""
        if not self._placements.has_hints(row):
            return None
        rows = np.array(self._placements.last_rows(numbers), dtype=np.int64)
        rows[~open_rows[rows]] = -1
        return rows.tolist() if (rows >= 0).any() else None

    def _follow_together(self, attempt: _DrainAttempt, last_rows: Sequence[_Hinted]) -> list[_Hinted]:
        """As ``_follow_singly``, where only amounts keep pods apart: a node with room for all takes them at once."""
        asked = self._by_class(pod for pod in last_rows if pod[1] >= 0)
        roomy = self._bulk_fit.rows_fitting_all(attempt.snapshot, asked)
        going = [pod for pod in last_rows if pod[1] in roomy]
        for pod_class, rows in (asked if len(going) == len(last_rows) else self._by_class(going)).items():
            attempt.place(pod_class, rows)
        # As they stand on the node, not by class: so they come to the others, where the first may be in the way.
        attempt.moves.append(([number for number, _ in going], [row for _, row in going]))
        return self._follow_singly(attempt, [pod for pod in last_rows if pod[1] not in roomy])

    def _follow_singly(self, attempt: _DrainAttempt, last_rows: Sequence[_Hinted]) -> list[_Hinted]:
        """Place pods on their rows, one by one; answers those that do not fit there."""
        left: list[_Hinted] = []
        for number, row in last_rows:
            pod_class = self._placements.index.kinds[number].pod_class
            if row >= 0 and feasible(attempt.snapshot, pod_class, slice(row, row + 1))[0]:
                attempt.place(pod_class, [row])
                attempt.moves.append(((number,), [row]))
            else:
                left.append((number, row))
        return left


def _counted(rows: Sequence[int]) -> tuple[Ints, Ints]:
    """Distinct rows, and how often each is named."""
    if len(set(rows)) == len(rows):
        return np.array(rows, dtype=np.int64), np.ones(len(rows), dtype=np.int64)
    return as_columns(Counter(rows))


def _by_priority(subset: PodSubset) -> Sequence[int]:
    """Numbers of pods, those of high priority first."""
    if len({kind.priority for kind in subset.distinct_kinds}) < 2:
        return subset.numbers
    kinds = subset.index.kinds
    return sorted(subset.numbers, key=lambda number: -kinds[number].priority)


def _windows(start: int, stop: int) -> Iterable[slice]:
    """Slices from ``start`` to ``stop``, each longer than the one before."""
    size = _FIRST_WINDOW
    while start < stop:
        yield slice(start, min(stop, start + size))
        start, size = start + size, size * _GROWTH


def _width(snapshot: Snapshot, classes: Iterable[PodClass]) -> int:
    """How many resources there are with those that these classes ask for."""
    for pod_class in classes:
        for placed in (False, True):
            snapshot.request_row(pod_class, placed=placed)
    width: int = snapshot.free.shape[1]
    return width


def replace_with_tainted_copy(snapshot: Snapshot, row: int, now: float) -> int:
    """Put a tainted copy without pods in place of a node; answers its row."""
    node = snapshot.node(row)
    snapshot.remove_node(row)
    return snapshot.add_node(tainted_copy(node, now))


def tainted_copy(node: Node, now: float) -> Node:
    """The node as it will be marked for deletion."""
    mark = Taint(key=TO_BE_DELETED_TAINT, effect="NoSchedule", value=str(int(now)))
    return replace(node, spec=replace(node.spec, taints=(*node.spec.taints, mark)))


@per_class
def honors_node_taints(pod_class: PodClass) -> bool:
    """Whether the pod spreads over nodes that it tolerates, of which a node marked for deletion is none."""
    return any(
        constraint.when_unsatisfiable == "DoNotSchedule" and constraint.node_taints_policy == "Honor"
        for constraint in pod_class.spec.topology_spread_constraints
    )
