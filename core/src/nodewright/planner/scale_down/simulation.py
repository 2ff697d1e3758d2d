"""Could a node go? Its pods are moved in a picture of the cluster (behaviour/down.md A6).

CA forks its picture for every candidate. Here moves are written down and taken back, so that a candidate costs what
its own pods cost, however large the cluster is.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np

from nodewright.model.pod import Pod
from nodewright.planner.scale_down.ghost import heeds_taints, leave_ghost
from nodewright.planner.scale_down.load import Load
from nodewright.planner.scale_down.room import Room
from nodewright.planner.scale_down.turns import RoundRobinCursor
from nodewright.planner.scale_down.whereabouts import Moves, PodPlacements
from nodewright.predicates import amounts_fit, feasible, is_countable
from nodewright.snapshot.column import Ints, Mask, as_columns
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.pod_places import PodPlaces
from nodewright.snapshot.snapshot import Snapshot

# The number of a pod, and the row where it was to go before; negative: none that is open.
_Hinted = tuple[int, int]


@dataclass
class _Attempt:
    """One try to empty a node, and where its pods went so far: rows by class, and in the order in which they came.

    ``row`` is the node's, or was before a copy stood for it.
    """

    board: Snapshot
    open_rows: Mask
    row: int
    placed: list[tuple[PodClass, list[int]]] = field(default_factory=list)
    moves: list[Moves] = field(default_factory=list)

    def place(self, pod_class: PodClass, rows: list[int]) -> None:
        """Pods of one class, one on each row; ``moves`` say which."""
        if len(rows) == 1:
            self.board.place(pod_class, rows[0])
        else:
            self.board.place_many(pod_class, *_counted(rows))
        self.placed.append((pod_class, rows))


class Route(NamedTuple):
    """The pods of a node, and the row to which each was to go before, by number, as far as it still takes any."""

    row: int
    load: Load
    goals: Mapping[int, int]


class Simulation:
    """A cluster in which nodes are emptied one after the other; ``board`` belongs to it alone.

    ``destinations`` are the rows that may take pods; a node that could go is none from then on. ``hints`` are where
    pods were to go before.
    """

    def __init__(self, board: Snapshot, destinations: Mask, hints: PodPlaces, now: float) -> None:
        self.board = board
        self._open = destinations & board.alive
        self._where = PodPlacements(board, hints)
        # Classes for which no node has room.
        self._full: set[PodClass] = set()
        self._room = Room()
        self._turns = RoundRobinCursor(self._room)
        self._now = now

    def load(self, row: int) -> Load:
        """The pods of a node by now."""
        return self._where.load(self.board, row)

    def conclude(self) -> PodPlaces:
        """Tell the rosters of loads where their pods have gone; the answer is the same as hints."""
        return self._where.conclude()

    def empty(self, row: int, load: Load, moving: Load) -> Pod | None:
        """Move these pods, out of all that there are, off the node of a row. The node is gone if all can be; else
        nothing has changed, and the answer is a pod that has no place.
        """
        if not moving:
            self._take_out(row, ())
            return None
        if any(heeds_taints(kind.pod_class) for kind in moving.variety):
            return self._empty_beside_ghost(row, moving)
        if self._is_hopeless(row, moving):
            self._where.give_up(row, ())
            return moving.pods[0]
        held = load.counts()
        for pod_class, count in held.items():
            self.board.unplace(pod_class, row, count)
        was_open, self._open[row] = bool(self._open[row]), False
        attempt = _Attempt(self.board, self._open, row)
        stuck = self._move(attempt, moving)
        if stuck is None:
            self._take_out(row, attempt.moves)
            return None
        for pod_class, rows in attempt.placed:
            self.board.unplace_many(pod_class, *_counted(rows))
        for pod_class, count in held.items():
            self.board.place(pod_class, row, count)
        self._open[row] = was_open
        self._where.give_up(row, attempt.moves)
        if not attempt.placed:
            self._note_full(row, moving)
        return stuck

    def find_route(self, row: int) -> Route | None:
        """Where the pods of a node were to go before; None where more than amounts may keep one of them from it."""
        load = self.load(row)
        goals = self._hinted_rows(row, load.numbers, self._open) or ()
        found = {number: goal for number, goal in zip(load.numbers, goals, strict=bool(goals)) if goal >= 0}
        kinds = self._where.roster.kinds
        plain = all(is_countable(self.board, kind.pod_class) for kind in {kinds[number] for number in found})
        return Route(row, load, found) if plain else None

    def have_room(self, routes: Collection[Route]) -> bool:
        """Whether all pods of these nodes have room where their routes lead, in whatever order, and can stay there."""
        asked = self._by_class((number, goal) for route in routes for number, goal in route.goals.items())
        wanted = set(chain.from_iterable(asked.values()))
        going = {route.row for route in routes}
        return wanted.isdisjoint(going) and len(self._room.for_all(self.board, asked)) == len(wanted)

    def empty_together(self, leaving: Sequence[tuple[Route, Load]]) -> None:
        """Take nodes out that ``have_room``, each with the pods that move; these must all be on its route."""
        held: defaultdict[PodClass, Counter[int]] = defaultdict(Counter)
        for route, _ in leaving:
            for pod_class, count in route.load.counts().items():
                held[pod_class][route.row] = count
        for pod_class, counts in held.items():
            self.board.unplace_many(pod_class, *as_columns(counts))
        moves = [(route, _by_priority(moving)) for route, moving in leaving]
        brought = self._by_class((number, route.goals[number]) for route, numbers in moves for number in numbers)
        for pod_class, rows in brought.items():
            self.board.place_many(pod_class, *_counted(rows))
        for route, numbers in moves:
            self._take_out(route.row, [(numbers, [route.goals[number] for number in numbers])])

    def _by_class(self, pods: Iterable[_Hinted]) -> dict[PodClass, list[int]]:
        """The rows to which pods of each class go."""
        found: dict[PodClass, list[int]] = {}
        kinds = self._where.roster.kinds
        for number, row in pods:
            found.setdefault(kinds[number].pod_class, []).append(row)
        return found

    def _is_hopeless(self, row: int, moving: Load) -> bool:
        """Whether all pods are of one class for which there is no room anywhere."""
        classes = {kind.pod_class for kind in moving.variety}
        return len(classes) == 1 and classes <= self._full and not self._where.are_hinted(row)

    def _note_full(self, row: int, moving: Load) -> None:
        """No other node had room for the first pod: nodes that stay only fill up, so that none ever will have."""
        (pod_class, _), *others = moving.counts().items()
        fits = amounts_fit(self.board, pod_class, slice(row, row + 1))[0]
        if not others and not fits and is_countable(self.board, pod_class):
            self._full.add(pod_class)

    def _take_out(self, row: int, moves: Iterable[Moves]) -> None:
        self._open[row] = False
        self._where.keep(row, moves)
        self.board.remove_node(row)

    def _empty_beside_ghost(self, row: int, moving: Load) -> Pod | None:
        """As ``empty``, where a pod counts tainted nodes no longer: a tainted copy without pods stands for the node."""
        board = self.board.fork()
        ghost = leave_ghost(board, row, self._now)
        open_rows = np.append(self._open, False)
        open_rows[row] = False
        attempt = _Attempt(board, open_rows, row)
        stuck = self._move(attempt, moving)
        if stuck is not None:
            self._room.forget()
            self._where.give_up(row, attempt.moves)
            return stuck
        board.remove_node(ghost)
        self.board, self._open = board, open_rows
        self._where.keep(row, attempt.moves)
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
            together = is_countable(attempt.board, pod_class)
            start, count = 0, len(alike)
            while start < count:
                # Where only amounts keep pods apart, one that is placed changes nothing for the others of its class.
                wanted = count - start if together else 1
                rows = self._turns.next_rows(attempt.board, attempt.open_rows, pod_class, wanted, together=together)
                if not rows:
                    return alike.part(start, start + 1).pods[0]
                attempt.place(pod_class, rows)
                attempt.moves.append((alike.numbers[start : start + len(rows)], rows))
                start += len(rows)
        return None

    def _follow_hints(self, attempt: _Attempt, load: Load) -> Load:
        """Place pods where they were to go before, as far as they can; answers the others."""
        rows = self._hinted_rows(attempt.row, load.numbers, attempt.open_rows)
        if rows is None:
            return load
        countable = {kind for kind in load.variety if is_countable(attempt.board, kind.pod_class)}
        hinted, kinds = list(zip(load.numbers, rows, strict=True)), self._where.roster.kinds
        left: list[_Hinted] = []
        if len(countable) == len(load.variety):
            left = self._follow_together(attempt, hinted)
        else:
            for together, run in groupby(hinted, lambda pod: kinds[pod[0]] in countable):
                follow = self._follow_together if together else self._follow_singly
                left += follow(attempt, list(run))
        return Load(self._where.roster, [number for number, _ in left])

    def _hinted_rows(self, row: int, numbers: Sequence[int], open_rows: Mask) -> list[int] | None:
        """Where each pod of a node was to go, negative where that takes nobody; None: nowhere any."""
        if not self._where.are_hinted(row):
            return None
        rows = np.array(self._where.hinted(numbers), dtype=np.int64)
        rows[~open_rows[rows]] = -1
        return rows.tolist() if (rows >= 0).any() else None

    def _follow_together(self, attempt: _Attempt, hinted: Sequence[_Hinted]) -> list[_Hinted]:
        """As ``_follow_singly``, where only amounts keep pods apart: a node with room for all takes them at once."""
        asked = self._by_class(pod for pod in hinted if pod[1] >= 0)
        roomy = self._room.for_all(attempt.board, asked)
        going = [pod for pod in hinted if pod[1] in roomy]
        for pod_class, rows in (asked if len(going) == len(hinted) else self._by_class(going)).items():
            attempt.place(pod_class, rows)
        # As they stand on the node, not by class: so they come to the others, where the first may be in the way.
        attempt.moves.append(([number for number, _ in going], [row for _, row in going]))
        return self._follow_singly(attempt, [pod for pod in hinted if pod[1] not in roomy])

    def _follow_singly(self, attempt: _Attempt, hinted: Sequence[_Hinted]) -> list[_Hinted]:
        """Place pods on their rows, one by one; answers those that do not fit there."""
        left: list[_Hinted] = []
        for number, row in hinted:
            pod_class = self._where.roster.kinds[number].pod_class
            if row >= 0 and feasible(attempt.board, pod_class, slice(row, row + 1))[0]:
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


def _by_priority(load: Load) -> Sequence[int]:
    """Numbers of pods, those of high priority first."""
    if len({kind.priority for kind in load.variety}) < 2:
        return load.numbers
    kinds = load.roster.kinds
    return sorted(load.numbers, key=lambda number: -kinds[number].priority)
