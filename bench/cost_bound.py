"""A lower bound of the price of a case by whole fillings of nodes, where the bound that splits pods is loose.

A linear programme buys fillings in fractions (Gilmore and Gomory). An integer programme for each machine looks for the filling that is worth
most. Both are solved by HiGHS. What the pods are worth gives a bound in each round, and the best of these is returned (Farley's,
less what room on nodes that are there is worth). It shares no code with the planner. Spread over zones is not in it.
"""

import math
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_cases import Case
from cost_optimum import NodeToFill, amount, existing_nodes, new_nodes

# The rounds end when the bound is this near to what the fillings found so far cost.
_NEAR = 1e-3
# How near the filling that is worth most must be to its own bound. The bound is what counts.
_GAP = 1e-3
# The part of the programme's newest worths in what is tried next; the rest is that of the best bound.
_STEP = 0.5

Floats = NDArray[np.float64]
_highs: Any = import_module("highspy")


class _Filling(NamedTuple):
    """The number of pods of each workload that has some, and the most that any filling of this machine is worth."""

    pods: dict[int, float]
    most: float


def pattern_bound(case: Case, rounds: int) -> float:
    """Return a price per hour below which no new nodes for all pending pods cost. More rounds give a higher one."""
    if case.maxima:
        raise ValueError(f"{case.name}: maxima of types are not looked at")
    waiting = [workload for workload in case.workloads if workload.pending]
    names = sorted({"pods", *(name for workload in waiting for name in workload.requests)})
    requests = np.array([[amount({"pods": "1", **one.requests}, name) for name in names] for one in waiting])
    pods = np.array([one.pending for one in waiting], dtype=float)
    bought = [_Machine(node, requests) for node in new_nodes(case, waiting, names)]
    there = [_Machine(node, requests) for node in existing_nodes(case, waiting, names)]
    programme = _Programme(pods, len(there), 100.0 * max(machine.price for machine in bought))
    best, worths = 0.0, np.zeros(len(pods))
    for number in range(rounds):
        cost, newest = programme.solve()
        tried = newest if not number else _STEP * newest + (1.0 - _STEP) * worths
        fillings = [machine.best(tried) for machine in bought]
        filled = [machine.best(tried) for machine in there]
        # With this factor no filling of a new node is worth more than the node costs.
        factors = [
            machine.price / one.most for machine, one in zip(bought, fillings, strict=True) if one.most > machine.price
        ]
        factor = min(factors, default=1.0)
        bound = factor * (float(tried @ pods) - sum(one.most for one in filled))
        if bound > best or not number:
            best, worths = max(best, bound), factor * tried
        if cost - best < _NEAR * best:
            break
        for machine, one in zip(bought, fillings, strict=True):
            programme.add(machine.price, one)
        for place, one in enumerate(filled):
            programme.add(0.0, one, place)
    return best


class _Machine:
    """Finds the fillings of one node that are worth most."""

    def __init__(self, node: NodeToFill, requests: Floats) -> None:
        self.price = node.price
        free = np.array(node.free)
        self._classes = [n for n, most in enumerate(node.most) if most > 0 and bool((requests[n] <= free).all())]
        offered = np.flatnonzero(free > 0)
        shares = requests[:, offered] / free[offered]
        self._solver = _make_solver(np.full(len(offered), -math.inf), np.ones(len(offered)))
        self._solver.setOptionValue("mip_rel_gap", _GAP)
        for one in self._classes:
            _add(
                self._solver,
                0.0,
                min(node.most[one], math.floor(1.0 / shares[one].max() + 1e-9)),
                dict(enumerate(shares[one])),
            )
        self._numbers = np.arange(len(self._classes), dtype=np.int32)
        whole = np.full(len(self._classes), _highs.HighsVarType.kInteger)
        self._solver.changeColsIntegrality(len(whole), self._numbers, whole)

    def best(self, worths: Floats) -> _Filling:
        """Return the filling that is worth most."""
        if not self._classes:
            return _Filling({}, 0.0)
        self._solver.changeColsCost(len(self._numbers), self._numbers, -worths[self._classes])
        self._solver.run()
        counts = np.round(self._solver.getSolution().col_value)
        pods = {one: float(count) for one, count in zip(self._classes, counts, strict=True) if count}
        return _Filling(pods, max(0.0, -self._solver.getInfo().mip_dual_bound))


class _Programme:
    """How many nodes of each filling to buy, in fractions. ``dear``: what a pod without a node costs at first."""

    def __init__(self, pods: Floats, there: int, dear: float) -> None:
        self._classes = len(pods)
        lower = np.concatenate([pods, np.full(there, -math.inf)])
        self._solver = _make_solver(lower, np.concatenate([np.full(len(pods), math.inf), np.ones(there)]))
        for one in range(len(pods)):
            _add(self._solver, dear, math.inf, {one: 1.0})

    def add(self, price: float, filling: _Filling, place: int | None = None) -> None:
        """Add a filling; ``place``: the number of the node that is there and has it."""
        if filling.pods:
            row = {} if place is None else {self._classes + place: 1.0}
            _add(self._solver, price, math.inf, filling.pods | row)

    def solve(self) -> tuple[float, Floats]:
        """Return what the fillings cost, and what one more pod of each workload would."""
        self._solver.run()
        duals = np.array(self._solver.getSolution().row_dual)[: self._classes]
        return float(self._solver.getInfo().objective_function_value), np.maximum(0.0, duals)


def _make_solver(lower: Floats, upper: Floats) -> Any:
    solver = _highs.Highs()
    solver.silent()
    solver.setOptionValue("threads", 1)
    none = np.zeros(0)
    solver.addRows(len(lower), lower, upper, 0, np.zeros(len(lower), np.int32), none.astype(np.int32), none)
    return solver


def _add(solver: Any, cost: float, most: float, column: dict[int, float]) -> None:
    rows, values = np.array(list(column), np.int32), np.array(list(column.values()), float)
    start = np.zeros(1, np.int32)
    solver.addCols(1, np.array([cost]), np.zeros(1), np.array([float(most)]), len(rows), start, rows, values)
