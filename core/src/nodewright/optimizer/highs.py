"""Linear programmes, solved by HiGHS (the extra ``nodewright[optimizer]``)."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from nodewright.optimizer.problem import Floats, Ints

highspy: Any
try:
    highspy = import_module("highspy")
except ImportError:
    highspy = None

# Entries (row, value) of one column.
Column = Sequence[tuple[int, float]]
# Limits in steps of the solver, not in seconds, so that the same programme has the same solution on each machine.
_ITERATIONS = 50_000


class Solution(NamedTuple):
    """``values`` of the columns and ``duals`` of the rows."""

    values: Floats
    duals: Floats


def is_installed() -> bool:
    return highspy is not None


def _make_solver() -> Any:
    """Return a solver that prints nothing: without this it prints its licence when callbacks are enabled."""

    class Quiet(highspy.Highs):  # type: ignore[misc]
        def enableCallbacks(self) -> None:  # noqa: N802 - HiGHS's name
            self.silent()
            super().enableCallbacks()

    return Quiet()


class Programme:
    """Minimise the costs of columns that are not negative; columns can be added between two solutions.

    ``lower`` and ``upper`` bound the rows.
    """

    def __init__(self, lower: Floats, upper: Floats) -> None:
        self._solver: Any = _make_solver()
        for option in (("threads", 1), ("presolve", "off"), ("simplex_iteration_limit", _ITERATIONS)):
            self._solver.setOptionValue(*option)
        none = np.zeros(0)
        self._solver.addRows(len(lower), lower, upper, 0, np.zeros(len(lower), np.int32), none.astype(np.int32), none)

    def add(self, costs: Floats, most: Floats, columns: Sequence[Column]) -> None:
        """Add columns with these costs and upper bounds."""
        starts = np.cumsum([0, *(len(column) for column in columns)], dtype=np.int32)[:-1]
        rows = np.array([row for column in columns for row, _ in column], dtype=np.int32)
        values = np.array([value for column in columns for _, value in column], dtype=np.float64)
        self._add(costs, most, starts, rows, values)

    def add_entries(self, costs: Floats, most: Floats, column: Ints, row: Ints, value: Floats) -> None:
        """Add columns with these costs, upper bounds and entries, each of which names its column."""
        order = np.argsort(column, kind="stable")
        starts = np.searchsorted(column[order], np.arange(len(costs))).astype(np.int32)
        self._add(costs, most, starts, row[order].astype(np.int32), value[order])

    def _add(self, costs: Floats, most: Floats, starts: Any, rows: Any, values: Floats) -> None:
        count = len(costs)
        self._solver.addCols(count, costs.astype(float), np.zeros(count), most, len(rows), starts, rows, values)

    def limit(self, column: int, least: float, most: float) -> None:
        """Change the bounds of a column."""
        self._solver.changeColBounds(column, least, most)

    def solve(self) -> Solution | None:
        """Return the optimum; None if there is none within the limit of iterations."""
        self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        found = self._solver.getSolution()
        return Solution(np.array(found.col_value), np.array(found.row_dual))
