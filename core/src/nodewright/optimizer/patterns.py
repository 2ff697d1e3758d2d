"""The pattern programme: how many copies of each pattern to buy (Gilmore and Gomory)."""

import math
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from nodewright.optimizer.filling import Filling
from nodewright.optimizer.highs import Column, Programme, is_installed
from nodewright.optimizer.problem import Floats, Problem


class FractionalSolution(NamedTuple):
    """``amounts`` of the patterns in fractions; what pods of each class and the last node of each kind are worth."""

    amounts: list[float]
    worths: Floats
    scarcity: Floats


class PatternProgramme:
    """Rows are the classes of pods, then the kinds of which there is not always enough."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        scarce = [kind for kind, is_endless in enumerate(problem.is_endless) if not is_endless]
        self._row = {kind: len(problem.pods) + n for n, kind in enumerate(scarce)}
        self.can_be_solved = is_installed()
        self._programme: Programme | None = None
        self._known = 0

    def solve(self, pool: Collection[tuple[int, Filling]]) -> FractionalSolution | None:
        """Return the cheapest fractional solution with these patterns; a call may only add patterns to those of the last."""
        programme = self._extended(pool)
        found = programme.solve()
        if found is None:
            return None
        scarcity = np.zeros(len(self._problem.prices))
        for kind, row in self._row.items():
            scarcity[kind] = max(0.0, -found.duals[row])
        worths = np.maximum(found.duals[: len(self._problem.pods)], 0.0)
        return FractionalSolution(found.values.tolist(), worths, scarcity)

    def _extended(self, pool: Collection[tuple[int, Filling]]) -> Programme:
        problem = self._problem
        if self._programme is None:
            pods = np.array(problem.pods, dtype=float)
            rooms = np.array([problem.rooms[kind] for kind in self._row], dtype=float)
            lower = np.concatenate([pods, np.full(len(rooms), -math.inf)])
            self._programme = Programme(lower, np.concatenate([np.full(len(pods), math.inf), rooms]))
        fresh = list(pool)[self._known :]
        self._known = len(pool)
        costs = np.array([problem.prices[kind] for kind, _ in fresh])
        self._programme.add(costs, np.full(len(fresh), math.inf), [self._column(*one) for one in fresh])
        return self._programme

    def _column(self, kind: int, filling: Filling) -> Column:
        column = [(one, float(count)) for one, count in filling]
        return [*column, (self._row[kind], 1.0)] if kind in self._row else column
