"""Find the cheapest mix of nodes for the pods of a problem.

Buy again and again the node whose filling is worth most for its price, then exchange each node for the cheapest kind that
takes its pods. That is done with the values of the linear programme, and improved while there is time: with the values of
the pattern programme, which says how many copies of each pattern to buy (Gilmore and Gomory), and by repacking the pods of a few nodes.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

import numpy as np

from nodewright.optimizer.bound import Values
from nodewright.optimizer.filling import Filler, Filling, GreedyMix, Perturbation
from nodewright.optimizer.highs import Column, Programme, is_installed
from nodewright.optimizer.problem import Bools, Floats, Ints, IsOver, Mix, Pattern, Problem


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


# Repacking ends after this number of tries in a row that find nothing cheaper.
_VAIN_TRIES = 300
# How many nodes each try repacks, in turn.
_REPACKED = (2, 3, 4, 6, 9)
# Repacking uses this number of randomly changed values of pods, besides the mixed ones.
_CHANGED_VALUES = 6
# Up to this number of pods, each try changes values and kinds at random, by a factor in this range.
FEW_PODS, _FACTORS = 60, (0.3, 3.0)
# With few pods, each kind is tried first: by this factor its nodes are worth more.
_FAVOUR = 1e6
# The pattern programme is solved at most this number of times.
_MOST_ROUNDS = 12
# The value of pods without a place is multiplied by this in the next try; this number of tries is made.
_BOOST, _MOST_BOOSTS = 10.0, 4
# No improvement begins after the filler has examined this number of classes: about half a second.
_MOST_WORK = 3_000_000
# This part of the time is for the pattern programme, the rest for repacking.
_LATE = 0.7
# Parts of the evened value that are tried; the first does best for many pods.
_PARTS = (0.3, 0.15, 0.5, 0.0)
_EPSILON = 1e-9


def find_mix(problem: Problem, values: Values, time_used: Callable[[], float]) -> Mix:
    """Return the cheapest mix that is found until ``time_used()`` is 1. The first one is found in any case.

    Deterministic as long as time does not run out. Where time stands still, as in a simulation, work is limited.
    """
    search = _Search(problem, values)

    def is_over() -> bool:
        return search.work > _MOST_WORK or time_used() >= 1.0

    def is_late() -> bool:
        return search.work > _MOST_WORK * _LATE or time_used() >= _LATE

    search.begin()
    for improve in (search.try_others, search.improve_by_programme, search.try_each_kind):
        if search.is_proven:
            break
        if is_over():
            return search.mix(is_cut=True)
        improve(is_late)
    search.repack(is_over)
    return search.mix(is_cut=False)


def _perturb(problem: Problem, random: Random) -> Perturbation:
    factors = [random.uniform(*_FACTORS) for _ in problem.rooms]
    return Perturbation(factors, [random.choice((most, most, min(most, 1), min(most, 2))) for most in problem.per_node])


class _Search:
    """The best mix so far, and the patterns that were seen."""

    def __init__(self, problem: Problem, values: Values) -> None:
        self._problem = problem
        self._values = values
        self._usual = values.mixed(_PARTS[0])
        self._filler = Filler(problem)
        self._by_price = np.argsort(problem.prices, kind="stable")
        self._prices: list[float] = problem.prices.tolist()
        self._pool: dict[tuple[int, Filling], None] = {}
        self._best: list[Pattern] = []
        self._left = list(problem.pods)
        self._cost = (sum(problem.pods), 0.0)

    @property
    def _is_small(self) -> bool:
        return sum(self._problem.pods) <= FEW_PODS

    @property
    def work(self) -> int:
        return self._filler.work

    @property
    def is_proven(self) -> bool:
        """Return whether nothing can be cheaper."""
        unplaced, price = self._cost
        return not unplaced and price <= self._values.bound * (1 + _EPSILON)

    def mix(self, *, is_cut: bool) -> Mix:
        return Mix(tuple(sorted(self._best)), tuple(self._left), self._cost[1], is_cut)

    def consider(self, fresh: Sequence[Pattern], kept: Sequence[Pattern] = ()) -> bool:
        """Keep a plan if it is better than the best so far; return whether it is. ``kept``: its nodes of the best plan."""
        shrunk = self._shrunk(fresh, kept)
        self._pool.update(dict.fromkeys((kind, filling) for kind, filling, _ in (*fresh, *shrunk)))
        plan = [*kept, *shrunk]
        left = self._left_after(plan)
        cost = (sum(left), sum(self._prices[kind] * copies for kind, _, copies in plan))
        if (cost[0], cost[1] + _EPSILON) >= self._cost:
            return False
        self._best, self._left, self._cost = _joined(plan), left, cost
        return True

    def greedy(
        self, values: Floats, pods: Sequence[int], rooms: Sequence[int], perturbation: Perturbation | None = None
    ) -> list[Pattern]:
        return GreedyMix(self._filler, values, pods, rooms, perturbation).buy_all()

    def begin(self) -> None:
        """Make the first plan. Pods that find no place go first in the next try: others took the last nodes that fit them."""
        values = self._usual
        self.consider(self.greedy(values, self._problem.pods, self._problem.rooms))
        for _ in range(_MOST_BOOSTS):
            left = np.array(self._left) > 0
            if not left.any():
                return
            values = np.where(left, values * _BOOST, values)
            self.consider(self.greedy(values, self._problem.pods, self._problem.rooms))

    def price_of(self, values: Floats, pods: Sequence[int]) -> float:
        """Return what one greedy plan for these numbers of pods costs; infinity if it leaves some."""
        plan = self._shrunk(self.greedy(values, pods, self._problem.rooms), ())
        placed = sum(copies * count for _, filling, copies in plan for _, count in filling)
        return sum(self._prices[kind] * copies for kind, _, copies in plan) if placed == sum(pods) else math.inf

    def try_others(self, is_over: IsOver) -> None:
        """Value pods in other ways: evened more or less, and by what they cost on their cheapest kind."""
        for values in (*map(self._values.mixed, _PARTS[1:]), self._values.cheapest):
            if not is_over():
                self.consider(self.greedy(values, self._problem.pods, self._problem.rooms))

    def improve_by_programme(self, is_over: IsOver) -> None:
        """Value pods by the pattern programme, which knows what fits on whole nodes."""
        problem, programme = self._problem, PatternProgramme(self._problem)
        if not programme.can_be_solved:
            return
        for _ in range(_MOST_ROUNDS):
            found = programme.solve(self._pool)
            if found is None or is_over():
                return
            values = np.maximum(found.worths, 1e-3 * self._values.cheapest)
            known = len(self._pool)
            self._add_patterns(values, found.scarcity)
            whole, left, rooms = self._rounded_down(found.amounts)
            for worths in (values, self._usual):
                if is_over():
                    return
                self.consider([*whole, *self.greedy(worths, left, rooms)])
            if is_over():
                return
            self.consider(self.greedy(values, problem.pods, problem.rooms))
            if len(self._pool) == known:
                return

    def try_each_kind(self, is_over: IsOver) -> None:
        """If there are few pods, buy nodes of each kind first: one that looks too expensive may take all of them."""
        problem = self._problem
        for kind in range(len(self._prices)) if self._is_small else ():
            if is_over():
                return
            factors = [_FAVOUR if other == kind else 1.0 for other in range(len(self._prices))]
            self.consider(
                self.greedy(self._usual, problem.pods, problem.rooms, Perturbation(factors, problem.per_node))
            )

    def repack(self, is_over: IsOver) -> None:
        """Take some nodes out of the plan and buy for their pods again, until nothing cheaper is found."""
        random = Random(len(self._best))
        choices = [self._values.mixed(part) for part in _PARTS]
        choices += [
            choices[0] * np.array([random.uniform(0.7, 1.3) for _ in choices[0]]) for _ in range(_CHANGED_VALUES)
        ]
        vain = 0
        while self._best and vain < _VAIN_TRIES and not (is_over() or self.is_proven):
            taken = self._choose_some(random, _REPACKED[vain % len(_REPACKED)])
            kept = [
                Pattern(kind, filling, copies - taken.get(n, 0))
                for n, (kind, filling, copies) in enumerate(self._best)
                if copies > taken.get(n, 0)
            ]
            left, rooms = self._left_after(kept), self._rooms_after(kept)
            values, perturbation = choices[vain % len(choices)], None
            if self._is_small:
                values = choices[0] * np.array([random.uniform(*_FACTORS) for _ in choices[0]])
                perturbation = _perturb(self._problem, random)
            vain = 0 if self.consider(self.greedy(values, left, rooms, perturbation), kept) else vain + 1

    def _choose_some(self, random: Random, count: int) -> dict[int, int]:
        """Return how many copies of which patterns to repack: badly filled ones more often."""
        worths = self._usual.tolist()
        weights = []
        for kind, filling, _ in self._best:
            worth = sum(count * worths[one] for one, count in filling)
            weights.append(0.02 + max(0.0, self._prices[kind] - worth) / max(self._prices[kind], _EPSILON))
        taken: dict[int, int] = {}
        for n in random.choices(range(len(self._best)), weights, k=count):
            if taken.get(n, 0) < self._best[n].copies:
                taken[n] = taken.get(n, 0) + 1
        return taken

    def _shrunk(self, plan: Sequence[Pattern], kept: Sequence[Pattern]) -> list[Pattern]:
        """Exchange each node for the cheapest kind that takes its pods; join equal patterns. ``kept`` nodes stay."""
        room = self._rooms_after([*plan, *kept])
        merged: dict[tuple[int, Filling], int] = {}
        for (kind, filling, wanted), takes in zip(plan, self._cheaper(plan), strict=True):
            copies = wanted
            for other in self._by_price[takes].tolist() if takes.any() else ():
                moved = min(copies, room[other])
                if moved > 0:
                    merged[other, filling] = merged.get((other, filling), 0) + moved
                    room[other] -= moved
                    room[kind] += moved
                    copies -= moved
                if not copies:
                    break
            if copies:
                merged[kind, filling] = merged.get((kind, filling), 0) + copies
        return [Pattern(kind, filling, copies) for (kind, filling), copies in merged.items()]

    def _cheaper(self, plan: Sequence[Pattern]) -> Bools:
        """Return which cheaper kinds take the pods of each pattern (patterns × kinds by price)."""
        problem, by_price = self._problem, self._by_price
        if not plan:
            return np.zeros((0, len(by_price)), dtype=bool)
        entries = [pair for _, filling, _ in plan for pair in filling]
        classes = np.array([one for one, _ in entries])
        starts = np.cumsum([0, *(len(filling) for _, filling, _ in plan[:-1])])
        use = np.add.reduceat(np.array([count for _, count in entries])[:, None] * problem.requests[classes], starts)
        prices, found = problem.prices[by_price], np.logical_and.reduceat(problem.fits[classes][:, by_price], starts)
        found &= prices < problem.prices[[kind for kind, _, _ in plan]][:, None]
        for resource in range(problem.free.shape[1]):
            found &= use[:, resource, None] <= problem.free[by_price, resource]
        return found

    def _add_patterns(self, values: Floats, scarcity: Floats) -> None:
        """Add to the pool the best filling of each kind that is worth more than its price."""
        worths, orders_of = values.tolist(), self._filler.orders(values)
        for kind, price in enumerate(self._prices):
            for worth, filling in (
                self._filler.best(kind, orders_of(kind), self._problem.pods, worths),
                self._filler.balanced(kind, self._problem.pods, values),
            ):
                if filling and worth > price + scarcity[kind] + _EPSILON:
                    self._pool.setdefault((kind, filling))

    def _rounded_down(self, amounts: Sequence[float]) -> tuple[list[Pattern], list[int], list[int]]:
        """Return the whole nodes of a fractional solution, and the pods and rooms that are left."""
        left, rooms, found = list(self._problem.pods), list(self._problem.rooms), list[Pattern]()
        parts = sorted(zip(self._pool, amounts, strict=False), key=lambda part: -(part[1] % 1.0))
        for (kind, filling), amount in parts:
            wanted = int(amount + 1e-6)
            copies = min(wanted, rooms[kind], *(left[one] // count for one, count in filling)) if wanted > 0 else 0
            if copies > 0:
                found.append(Pattern(kind, filling, copies))
                rooms[kind] -= copies
                for one, count in filling:
                    left[one] -= copies * count
        return found, left, rooms

    def _left_after(self, plan: Iterable[Pattern]) -> list[int]:
        left = list(self._problem.pods)
        for _, filling, copies in plan:
            for one, count in filling:
                left[one] -= count * copies
        return left

    def _rooms_after(self, plan: Iterable[Pattern]) -> list[int]:
        rooms = list(self._problem.rooms)
        for kind, _, copies in plan:
            rooms[kind] -= copies
        return rooms


def _joined(plan: Iterable[Pattern]) -> list[Pattern]:
    """Return the plan with the copies of equal patterns together."""
    copies: dict[tuple[int, Filling], int] = {}
    for kind, filling, count in plan:
        copies[kind, filling] = copies.get((kind, filling), 0) + count
    return [Pattern(kind, filling, count) for (kind, filling), count in copies.items()]


class QuickBuyer:
    """Prices many sets of pods of one problem, each with one greedy plan."""

    def __init__(self, problem: Problem, values: Values) -> None:
        self._problem = problem
        self._search = _Search(problem, values)
        self._values = values.mixed(_PARTS[0])
        self._prices: dict[bytes, float] = {}

    def price(self, pods: Ints) -> float:
        """Return what nodes for these numbers of pods of each class cost; infinity if some find no place."""
        key = pods.tobytes()
        if key not in self._prices:
            self._prices[key] = self._search.price_of(self._values, pods.tolist())
        return self._prices[key]

    def problem_for(self, pods: Ints) -> tuple[Problem, list[int]] | None:
        """Return the problem of these numbers of pods without the other classes, and its classes; None without pods."""
        classes = np.flatnonzero(pods)
        if not len(classes):
            return None
        problem = self._problem
        return replace(
            problem,
            requests=problem.requests[classes],
            pods=pods[classes].tolist(),
            per_node=[problem.per_node[one] for one in classes],
            fits=problem.fits[classes],
        ), classes.tolist()

    def restored(self, mix: Mix, classes: Sequence[int]) -> Mix:
        """Return a mix of ``problem_for`` with the numbers of classes of the whole problem."""
        left = [0] * len(self._problem.pods)
        for one, count in zip(classes, mix.left, strict=True):
            left[one] = count
        patterns = tuple(
            Pattern(kind, tuple((classes[one], count) for one, count in filling), copies)
            for kind, filling, copies in mix.patterns
        )
        return Mix(patterns, tuple(left), mix.price, mix.is_cut)
