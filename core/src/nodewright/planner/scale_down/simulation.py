"""Could a node go? Its pods are moved in a picture of the cluster (behaviour/down.md A6).

CA forks its picture for every candidate. Here moves are written down and taken back, so that a candidate costs what
its own pods cost, however large the cluster is.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, repeat

import numpy as np
from msgspec.structs import replace

from nodewright.model.node import TO_BE_DELETED_TAINT, Node, Taint
from nodewright.model.pod import Pod
from nodewright.planner.hints import Hints
from nodewright.planner.scale_down.load import Load, PodKind, find_loads
from nodewright.predicates import amounts_fit, feasible, is_admitted, is_guarded_against, static_key
from nodewright.snapshot.column import Ints, Mask
from nodewright.snapshot.pod_class import PodClass, per_class
from nodewright.snapshot.snapshot import Snapshot

# Nodes looked at first; a scan that finds nothing there looks at ever more at a time.
_FIRST_WINDOW = 1024
_GROWTH = 8
# A pod, and the row where it was to go before; negative: none that is open.
_Hinted = tuple[Pod, PodKind, int]


@dataclass
class _Attempt:
    """One try to empty a node, and where its pods went so far: pods of one class, and the row of each."""

    board: Snapshot
    open_rows: Mask
    placed: list[tuple[PodClass, Load, list[int]]] = field(default_factory=list)


class Simulation:
    """A cluster in which nodes are emptied one after the other; ``board`` belongs to it alone.

    ``destinations`` are the rows that may take pods; a node that could go is none from then on.
    """

    def __init__(self, board: Snapshot, destinations: Mask, hints: Hints, now: float) -> None:
        self.board = board
        self._open = destinations & board.alive
        self._hints = hints
        # What nodes took over from those that could go; the board counts these pods, and does not know them.
        self._arrived: defaultdict[int, tuple[list[Pod], list[PodKind]]] = defaultdict(lambda: ([], []))
        # By ``static_key``: which nodes take plain pods, given room.
        self._admitted: dict[object, Mask] = {}
        self._names = [board.name(row) for row in range(len(board))]
        self._cursor = 0
        self._now = now

    def load(self, row: int) -> Load:
        """The pods of a node by now."""
        before = find_loads(self.board, (row,))[0]
        arrived = self._arrived.get(row)
        return before.with_others(*arrived) if arrived is not None else before

    def empty(self, row: int, moving: Load) -> Pod | None:
        """Move these pods off the node of a row. The node is gone if all can be; else nothing has changed, and the
        answer is a pod that has no place.
        """
        if not moving.pods:
            self._take_out(row)
            return None
        if any(_heeds_taints(kind.pod_class) for kind in moving.variety):
            return self._empty_beside_ghost(row, moving)
        held = Counter[PodClass]()
        for kind, count in Counter(self.load(row).kinds).items():
            held[kind.pod_class] += count
        for pod_class, count in held.items():
            self.board.unplace(pod_class, row, count)
        was_open, self._open[row] = bool(self._open[row]), False
        attempt = _Attempt(self.board, self._open)
        stuck = self._move(attempt, moving)
        if stuck is None:
            self._take_out(row)
            self._keep(attempt)
            return None
        for pod_class, _, rows in attempt.placed:
            self.board.unplace_many(pod_class, *_counted(rows))
        for pod_class, count in held.items():
            self.board.place(pod_class, row, count)
        self._open[row] = was_open
        self._restore_hints(attempt, row)
        return stuck

    def _keep(self, attempt: _Attempt) -> None:
        for _, load, rows in attempt.placed:
            for pod, kind, row in zip(load.pods, load.kinds, rows, strict=True):
                pods, kinds = self._arrived[row]
                pods.append(pod)
                kinds.append(kind)

    def _restore_hints(self, attempt: _Attempt, row: int) -> None:
        """A pod that was moved before stays where it was when it could not be moved on after all."""
        arrived = self._arrived.get(row)
        if arrived is not None and attempt.placed:
            self._hints.set_all(arrived[0], repeat(self._names[row]))

    def _take_out(self, row: int) -> None:
        self._open[row] = False
        self._arrived.pop(row, None)
        self.board.remove_node(row)

    def _empty_beside_ghost(self, row: int, moving: Load) -> Pod | None:
        """As ``empty``, where a pod counts tainted nodes no longer: a tainted copy without pods stands for the node."""
        board = self.board.fork()
        ghost = leave_ghost(board, row, self._now)
        open_rows = np.append(self._open, False)
        open_rows[row] = False
        attempt = _Attempt(board, open_rows)
        stuck = self._move(attempt, moving)
        if stuck is not None:
            self._restore_hints(attempt, row)
            return stuck
        board.remove_node(ghost)
        self.board, self._open = board, open_rows
        self._names.append(self._names[row])
        self._arrived.pop(row, None)
        self._keep(attempt)
        return None

    def _move(self, attempt: _Attempt, moving: Load) -> Pod | None:
        """Find places for pods, those of high priority first; answers the first that has none.

        What follows after a failure only refreshes hints, as it does in CA.
        """
        stuck: Pod | None = None
        kinds = moving.variety
        for priority in sorted({kind.priority for kind in kinds}, reverse=True):
            failed = self._move_equals(attempt, moving.only({kind for kind in kinds if kind.priority == priority}))
            stuck = stuck or failed
        return stuck

    def _move_equals(self, attempt: _Attempt, load: Load) -> Pod | None:
        """Pods of one priority; the first without a place ends it, so that CA's memory of pods alike has no effect."""
        for pod_class, alike in self._follow_hints(attempt, load).runs():
            together = _is_countable(attempt.board, pod_class)
            start, count = 0, len(alike.pods)
            while start < count:
                # Where only amounts keep pods apart, one that is placed changes nothing for the others of its class.
                rows = self._next_rows(attempt, pod_class, count - start if together else 1, together=together)
                if not rows:
                    return alike.pods[start]
                self._settle(attempt, pod_class, alike.part(start, start + len(rows)), rows)
                start += len(rows)
        return None

    def _follow_hints(self, attempt: _Attempt, load: Load) -> Load:
        """Place pods where they were to go before, as far as they can; answers the others."""
        names = self._hints.get_all(load.pods)
        found = {name: attempt.board.find_row(name) for name in set(names) if name is not None}
        places = {name: row for name, row in found.items() if row is not None and attempt.open_rows[row]}
        if not places:
            return load
        countable = {kind: _is_countable(attempt.board, kind.pod_class) for kind in load.variety}
        hinted = zip(load.pods, load.kinds, (places.get(name or "", -1) for name in names), strict=True)
        left: list[_Hinted] = []
        for together, run in groupby(hinted, lambda held: countable[held[1]]):
            follow = self._follow_together if together else self._follow_singly
            left += follow(attempt, list(run))
        return Load([pod for pod, _, _ in left], [kind for _, kind, _ in left])

    def _follow_together(self, attempt: _Attempt, hinted: Sequence[_Hinted]) -> list[_Hinted]:
        """As ``_follow_singly``, where only amounts keep pods apart: a node with room for all takes them at once."""
        roomy = self._roomy(attempt, hinted)
        going: dict[PodClass, list[_Hinted]] = {}
        for held in hinted:
            if held[2] in roomy:
                going.setdefault(held[1].pod_class, []).append(held)
        for pod_class, alike in going.items():
            pods, kinds, rows = zip(*alike, strict=True)
            self._settle(attempt, pod_class, Load(pods, kinds), list(rows))
        return self._follow_singly(attempt, [held for held in hinted if held[2] not in roomy])

    def _follow_singly(self, attempt: _Attempt, hinted: Sequence[_Hinted]) -> list[_Hinted]:
        """Place pods on their rows, one by one; answers those that do not fit there."""
        left: list[_Hinted] = []
        for pod, kind, row in hinted:
            if row >= 0 and feasible(attempt.board, kind.pod_class, slice(row, row + 1))[0]:
                self._settle(attempt, kind.pod_class, Load((pod,), (kind,)), [row])
            else:
                left.append((pod, kind, row))
        return left

    def _roomy(self, attempt: _Attempt, hinted: Iterable[_Hinted]) -> frozenset[int]:
        """The rows that take all the plain pods that are to go there, whoever comes first."""
        board = attempt.board
        asked: dict[PodClass, list[int]] = {}
        for _, kind, row in hinted:
            if row >= 0:
                asked.setdefault(kind.pod_class, []).append(row)
        rows = np.unique(np.array([row for places in asked.values() for row in places], dtype=np.int64))
        needed = np.zeros((_width(board, asked), len(rows)), dtype=np.int64)
        fits = np.ones(len(rows), dtype=np.bool_)
        for pod_class, places in asked.items():
            counts = np.bincount(np.searchsorted(rows, places), minlength=len(rows))
            # What one pod needs at the most: as it comes, or once it runs there.
            most = np.maximum(board.request_row(pod_class), board.request_row(pod_class, placed=True))
            needed += most[:, None] * counts
            fits &= (counts == 0) | self._admits(board, pod_class)[rows]
        fits &= ((needed <= board.free[rows].T) | (needed == 0)).all(axis=0)
        return frozenset(rows[fits].tolist())

    def _settle(self, attempt: _Attempt, pod_class: PodClass, load: Load, rows: list[int]) -> None:
        if len(rows) == 1:
            attempt.board.place(pod_class, rows[0])
        else:
            attempt.board.place_many(pod_class, *_counted(rows))
        attempt.placed.append((pod_class, load, rows))
        self._hints.set_all(load.pods, map(self._names.__getitem__, rows))

    def _next_rows(self, attempt: _Attempt, pod_class: PodClass, count: int, *, together: bool) -> list[int]:
        """The next so many open nodes in turn that take such a pod, fewer if there are no more; cordoned ones are
        passed by.
        """
        board, found = attempt.board, list[int]()
        open_rows = attempt.open_rows & board.schedulable
        if together:
            open_rows &= self._admits(board, pod_class)
        rows, start = len(board), self._cursor % max(1, len(board))
        for window in (*_windows(start, rows), *_windows(0, start)):
            mask = open_rows[window]
            if mask.any():
                mask &= amounts_fit(board, pod_class, window) if together else feasible(board, pod_class, window)
                found += (window.start + np.flatnonzero(mask)[: count - len(found)]).tolist()
            if len(found) == count:
                break
        if found:
            self._cursor = found[-1] + 1
        return found

    def _admits(self, board: Snapshot, pod_class: PodClass) -> Mask:
        """Which nodes take plain pods of a class, given room."""
        key = static_key(pod_class)
        known = self._admitted.get(key)
        if known is None or len(known) != len(board):
            known = self._admitted[key] = is_admitted(board, pod_class, slice(0, len(board)))
        return known


def _is_countable(board: Snapshot, pod_class: PodClass) -> bool:
    """Whether only amounts keep pods of the class apart."""
    return pod_class.is_plain and not is_guarded_against(board, pod_class)


def _width(board: Snapshot, classes: Iterable[PodClass]) -> int:
    """How many resources there are with those that these classes ask for."""
    for pod_class in classes:
        for placed in (False, True):
            board.request_row(pod_class, placed=placed)
    width: int = board.free.shape[1]
    return width


def _counted(rows: Sequence[int]) -> tuple[Ints, Ints]:
    """Distinct rows, and how often each is named."""
    counts = Counter(rows)
    distinct = np.fromiter(counts, dtype=np.int64, count=len(counts))
    return distinct, np.fromiter(counts.values(), dtype=np.int64, count=len(counts))


def _windows(start: int, stop: int) -> Iterable[slice]:
    """Slices from ``start`` to ``stop``, each longer than the one before."""
    size = _FIRST_WINDOW
    while start < stop:
        yield slice(start, min(stop, start + size))
        start, size = start + size, size * _GROWTH


def leave_ghost(board: Snapshot, row: int, now: float) -> int:
    """Put a tainted copy without pods in place of a node; answers its row."""
    node = board.node(row)
    board.remove_node(row)
    return board.add_node(tainted(node, now))


def tainted(node: Node, now: float) -> Node:
    """The node as it will be marked for deletion."""
    mark = Taint(key=TO_BE_DELETED_TAINT, effect="NoSchedule", value=str(int(now)))
    return replace(node, spec=replace(node.spec, taints=(*node.spec.taints, mark)))


@per_class
def _heeds_taints(pod_class: PodClass) -> bool:
    """Whether the pod spreads over nodes that it tolerates, of which a node marked for deletion is none."""
    return any(
        constraint.when_unsatisfiable == "DoNotSchedule" and constraint.node_taints_policy == "Honor"
        for constraint in pod_class.spec.topology_spread_constraints
    )
