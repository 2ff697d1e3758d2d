"""The linear programme that splits nodes and pods and says which part of each node to close, and its rounding to whole nodes."""

import math
from dataclasses import dataclass

import numpy as np

from nodewright.optimizer.bound import undominated
from nodewright.optimizer.highs import Programme
from nodewright.optimizer.problem import Bools, Floats, Ints, IsOver, Problem

# With more pairs of a class and a node, the programme counts the room of the nodes of a kind together.
_MOST_PAIRS = 30_000
# How many times the programme is solved to round it, and how near to a whole number the columns are that are rounded together.
_MOST_SOLUTIONS, _NEAR = 40, 0.1
_EPSILON = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class ClosingProblem:
    """``C`` classes of pods, ``N`` nodes, ``K`` kinds of new nodes, ``R`` resources.

    ``buying``: the classes and kinds; its ``pods`` are all that nodes hold. ``pods`` (C × N): how many pods of a class a node
    holds. ``free`` (N × R): its room. ``takes`` (C × N): how many more pods of the class it may have at most, 0: none.
    ``prices`` (N), ``costs`` (N): what closing a node disrupts, in USD an hour. ``may_close`` (N).
    ``kinds`` (N): nodes with the same number are of one kind, of which at most ``most_of_kind`` may be closed. ``most``: how
    many nodes may be closed.
    """

    buying: Problem
    pods: Ints
    free: Floats
    takes: Ints
    prices: Floats
    costs: Floats
    may_close: Bools
    kinds: Ints
    most_of_kind: Ints
    most: int


class ClosingProgramme:
    """Columns: nodes to close, new nodes of a kind, then pods of a class on a kept place or a kind.

    Rows: classes, then resources of places, then resources of kinds. A place is a node, or all nodes of a kind in a large cluster.
    ``full``: which part of a new node pods fill at most.
    """

    def __init__(self, problem: ClosingProblem, full: float = 1.0) -> None:
        self._problem = problem
        buying = problem.buying
        classes, nodes = problem.pods.shape
        resources = buying.free.shape[1]
        usable = np.array(
            [(problem.takes[one] > 0) & np.all(problem.free >= buying.requests[one], axis=1) for one in range(classes)],
            dtype=bool,
        )
        if int(usable.sum()) <= _MOST_PAIRS:
            place_of, places = np.arange(nodes), nodes
        else:
            place_of, places = problem.kinds, int(problem.kinds.max()) + 1
        is_of_use = np.asarray(usable.any(axis=0), dtype=bool)
        room = np.where(is_of_use[:, None], np.maximum(problem.free, 0.0), 0.0)
        rooms = np.zeros((places, resources))
        np.add.at(rooms, place_of, room)
        fits = np.zeros((classes, places), dtype=bool)
        for one in range(classes):
            fits[one, place_of[usable[one]]] = True
        kinds = np.flatnonzero(undominated(buying))
        first_kind = classes + places * resources
        rows = first_kind + len(kinds) * resources
        scale = np.maximum(buying.free.max(axis=0, initial=0.0), _EPSILON)
        programme = Programme(
            np.full(rows, -math.inf),
            np.concatenate([np.zeros(classes), (rooms / scale).ravel(), np.zeros(len(kinds) * resources)]),
        )
        closing = [
            [(int(c), float(problem.pods[c, n])) for c in np.flatnonzero(problem.pods[:, n])]
            + [
                (classes + int(place_of[n]) * resources + r, float(room[n, r] / scale[r]))
                for r in np.flatnonzero(room[n])
            ]
            for n in range(nodes)
        ]
        programme.add(problem.costs - problem.prices, problem.may_close.astype(float), closing)
        programme.add(
            buying.prices[kinds],
            np.array([float(buying.rooms[k]) for k in kinds]),
            [
                [
                    (first_kind + at * resources + r, -float(buying.free[k, r] / scale[r]) * full)
                    for r in range(resources)
                ]
                for at, k in enumerate(kinds)
            ],
        )
        asked = buying.requests / scale
        pairs = [(int(c), classes + int(p) * resources) for c, p in np.argwhere(fits)]
        pairs += [(int(c), first_kind + int(at) * resources) for c, at in np.argwhere(buying.fits[:, kinds])]
        programme.add(
            np.zeros(len(pairs)),
            np.full(len(pairs), math.inf),
            [[(c, -1.0), *((row + int(r), float(asked[c, r])) for r in np.flatnonzero(asked[c]))] for c, row in pairs],
        )
        self._kinds, self._programme = kinds, programme

    def solve(self) -> tuple[Floats, float] | None:
        """Return which part of each node is closed, and the gain in USD an hour. None: there is no result."""
        found = self._programme.solve()
        if found is None:
            return None
        problem, nodes = self._problem, len(self._problem.prices)
        shares, bought = found.values[:nodes], found.values[nodes : nodes + len(self._kinds)]
        gain = (problem.prices - problem.costs) @ shares - problem.buying.prices[self._kinds] @ bought
        return shares, float(gain)

    def round(self, is_over: IsOver) -> Bools | None:
        """Return whole nodes to close: columns are rounded one after the other, those that are nearly whole first.

        None: there is no result, or time is up.
        """
        problem, nodes = self._problem, len(self._problem.prices)
        most = np.concatenate(
            [problem.may_close.astype(float), np.array(problem.buying.rooms, dtype=float)[self._kinds]]
        )
        for _ in range(_MOST_SOLUTIONS):
            found = self._programme.solve()
            if found is None or is_over():
                return None
            values = found.values[: len(most)]
            away = np.abs(values - np.round(values))
            split = np.flatnonzero(away > 1e-6)
            if not len(split):
                break
            nearest = away[split].min()
            for column in split[away[split] <= max(nearest, _NEAR)].tolist():
                whole = float(min(most[column], np.round(values[column])))
                self._programme.limit(column, whole, whole)
        closed: Bools = values[:nodes] > 0.5
        return closed
