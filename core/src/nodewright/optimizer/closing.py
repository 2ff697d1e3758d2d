"""Choose the nodes to close: weigh their price against the price of room elsewhere and the disruption of moving pods.

A linear programme splits nodes and pods and says which nodes to close. Whole nodes are then taken in its order. For each set
the pods are put into the room of the nodes that stay, and nodes are bought for the rest. The best set is changed node by node
while there is time. For the best sets, both are then planned together (packing.py, mix.py).
"""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from random import Random

import numpy as np

from nodewright.optimizer.bound import find_values
from nodewright.optimizer.highs import is_installed
from nodewright.optimizer.joint_packing import make_packing
from nodewright.optimizer.mix import QuickBuyer, find_mix
from nodewright.optimizer.problem import Bools, Floats, Ints, Mix, Problem
from nodewright.optimizer.relaxation import ClosingProblem, ClosingProgramme

# How many beginnings of the order are tried.
_PREFIXES = 24
# The most changes that are tried; and by which part of the price of all nodes a set may be worse at first.
_MOST_CHANGES, _TOLERATED = 2000, 0.004
# How many sets are tried even if time is up.
_LEAST_TRIES = 3
# The part of the time in which sets are changed; in the rest, this many of the best sets are planned at most. One plan takes
# at most this part of the time that is left, and the first one at least this part of all time.
_PART_OF_CHANGES, _MOST_PLANNED = 0.4, 4
_PART_OF_PLAN, _LEAST_PART_OF_PLAN = 0.4, 0.1
# Which part of new nodes pods fill while the programme is rounded, and the part of the time after which it is not rounded again.
# With more nodes than this it is not rounded: one solution takes too long.
_FULL, _PART_OF_ROUNDING, _MOST_ROUNDED = (1.0, 0.96), 0.25, 400
_EPSILON = 1e-9


@dataclass(frozen=True, eq=False)
class Closing:
    """``closed`` nodes; ``moved`` (C × N): how many of their pods go to each node that stays; ``bought``: the new nodes.

    ``gain``: what is saved, less what is disrupted, in USD an hour. ``saved`` is in USD an hour.
    """

    closed: Ints
    moved: Ints
    bought: Mix
    gain: float
    saved: float


def find_closing(
    problem: ClosingProblem,
    used: Callable[[], float],
    random: Random,
    *,
    part: float = 1.0,
    small: float = 0.0,
) -> Closing | None:
    """Return the best set of nodes to close that is found until ``used()`` is 1; None if none is worth it.

    Deterministic as long as time does not run out. ``part``: which part of the usual number of changes is tried. ``small``: sets are
    not changed if they can gain no more than this part of the price of all nodes.
    """
    if not problem.may_close.any() or not problem.most:
        return None
    search = _ClosingSearch(_with_last_resort(problem), used, random)
    search.run(round(_MOST_CHANGES * part), small)
    return search.result()


def _with_last_resort(problem: ClosingProblem) -> ClosingProblem:
    """Return the problem with one more kind of node for pods that fit no kind, so expensive that no closing pays with it."""
    buying = problem.buying
    if not len(buying.pods):  # the optimizer needs at least one class
        width = buying.free.shape[1]
        buying = replace(
            buying,
            requests=np.zeros((1, width)),
            pods=[0],
            per_node=[0],
            fits=np.zeros((1, len(buying.rooms)), dtype=bool),
        )
        nodes = len(problem.prices)
        none = np.zeros((1, nodes), dtype=np.int64)
        problem = replace(problem, buying=buying, pods=none, takes=none)
    if buying.fits.any(axis=1).all():
        return problem
    total = float(np.abs(problem.prices).sum() + buying.prices.sum() + 1.0)
    largest = np.maximum(buying.requests.max(axis=0), 1.0)
    return replace(
        problem,
        buying=replace(
            buying,
            free=np.vstack([buying.free, largest]),
            prices=np.append(buying.prices, 1e3 * total),
            rooms=[*buying.rooms, sum(buying.pods) + 1],
            fits=np.hstack([buying.fits, np.ones((len(buying.pods), 1), dtype=bool)]),
        ),
    )


def relax(problem: ClosingProblem) -> tuple[Floats, float] | None:
    """Return which part of each node a linear programme closes, and its gain in USD an hour: no whole nodes gain more.

    None: there is no result, or no solver.
    """
    return ClosingProgramme(_with_last_resort(problem)).solve() if is_installed() else None


class _ClosingSearch:
    def __init__(self, problem: ClosingProblem, used: Callable[[], float], random: Random) -> None:
        self._problem, self._used, self._random = problem, used, random
        buying = problem.buying
        self._values = find_values(buying)
        self._buyer = QuickBuyer(buying, self._values)
        self._requests = buying.requests
        self._wanted = [np.flatnonzero(row) for row in buying.requests]
        self._orders = self._class_orders()
        # Which orders are tried for each set, and for how many sets each of them was the best.
        self._tried, self._wins = range(len(self._orders)), [0] * len(self._orders)
        # Full nodes first: their room is useful for few pods.
        scale = np.maximum(problem.free.max(axis=0, initial=0.0), _EPSILON)
        self._by_room = np.argsort((problem.free / scale).sum(axis=1), kind="stable")
        self._best = np.zeros(len(problem.prices), dtype=bool)
        self._best_gain = 0.0
        self._rounded: list[Bools] = []
        # The gain of each set that was evaluated; minus infinity: it is not allowed.
        self._known: dict[bytes, float] = {}
        self._worth = problem.prices - problem.costs

    def _class_orders(self) -> list[Ints]:
        buying = self._problem.buying
        scale = np.maximum(buying.free.max(axis=0, initial=0.0), _EPSILON)
        shares = buying.requests / scale
        usual = self._values.mixed(0.3)
        keys = (shares.max(axis=1), usual, shares.sum(axis=1))
        found: list[Ints] = []
        for key in keys:
            order = np.argsort(-key, kind="stable")
            if not any((order == other).all() for other in found):
                found.append(order)
        return found

    def run(self, most_changes: int, small: float) -> None:
        """Try beginnings of the programme's order, then change the best set."""
        shares, bound = self._relaxed()
        if bound <= _EPSILON:
            return
        self._try_beginnings(shares)
        self._try_rounded()
        best = max(self._tried, key=self._wins.__getitem__)
        self._tried = range(best, best + 1)
        if bound > small * float(self._problem.prices.sum()):
            self._change(shares, most_changes)

    def _try_beginnings(self, shares: Floats) -> None:
        """Close a number of nodes, in the order in which the programme wants them closed."""
        order = [n for n in np.argsort(-shares, kind="stable").tolist() if self._problem.may_close[n]]
        sure = self._within_limits([n for n in order if shares[n] > 1e-6])
        whole = sum(shares[n] > 1 - 1e-6 for n in sure)
        sizes = sorted({max(1, round(len(sure) * (k + 1) / _PREFIXES)) for k in range(_PREFIXES)}) if sure else []
        for number, size in enumerate(dict.fromkeys([whole, len(sure), *reversed(sizes)])):
            if number > _LEAST_TRIES and self._used() >= _PART_OF_CHANGES:
                return
            if size:
                closed = np.zeros(len(self._problem.prices), dtype=bool)
                closed[sure[:size]] = True
                self._evaluated(closed, 0.0)

    def _try_rounded(self) -> None:
        """Close the nodes that are closed if the programme is rounded."""
        if not is_installed() or len(self._problem.prices) > _MOST_ROUNDED:
            return
        for full in _FULL:
            if self._used() < _PART_OF_ROUNDING:
                closed = ClosingProgramme(self._problem, full).round(lambda: self._used() >= _PART_OF_CHANGES)
                if closed is not None and self._evaluated(closed, -math.inf) > 0.0:
                    self._rounded.append(closed)

    def _within_limits(self, order: Sequence[int]) -> list[int]:
        problem = self._problem
        left, found = problem.most_of_kind.tolist(), list[int]()
        for node in order:
            kind = problem.kinds[node]
            if left[kind] > 0 and len(found) < problem.most:
                left[kind] -= 1
                found.append(node)
        return found

    def _relaxed(self) -> tuple[Floats, float]:
        """Return which part of each node the linear programme closes, and a bound of the gain."""
        found = relax(self._problem)
        if found is not None:
            return found
        worth = self._values.of_pods @ self._problem.pods
        gain = self._problem.prices - worth - self._problem.costs
        shares = gain / np.maximum(self._problem.prices, _EPSILON)
        return np.where(self._problem.may_close & (gain > 0), shares, 0.0), math.inf

    def _evaluated(self, closed: Bools, least: float) -> float:
        """Return the gain of a set; minus infinity if it is not allowed, or surely below ``least``."""
        key = np.packbits(closed).tobytes()
        gain = self._known.get(key)
        if gain is None:
            gain = -math.inf
            if self._is_allowed(closed):
                worth = float(self._worth[closed].sum())
                most = worth - least
                price = self._price_elsewhere(closed, most) if most > 0 else math.inf
                if price > most:
                    return -math.inf
                gain = worth - price
            self._known[key] = gain
        if gain > self._best_gain + _EPSILON:
            self._best, self._best_gain = closed.copy(), gain
        return gain

    def _is_allowed(self, closed: Bools) -> bool:
        problem = self._problem
        if int(closed.sum()) > problem.most:
            return False
        return not (
            np.bincount(problem.kinds[closed], minlength=len(problem.most_of_kind)) > problem.most_of_kind
        ).any()

    def _price_elsewhere(self, closed: Bools, most: float) -> float:
        """Return the price of nodes for the pods that find no room on the nodes that stay; infinity if it is surely above ``most``."""
        best = math.inf
        for number in self._tried:
            left, _ = self._fill(closed, self._orders[number])
            if not left.any():
                return 0.0
            if float(self._values.of_pods @ left) > min(best, most):
                continue
            price = self._buyer.price(left)
            self._wins[number] += price <= best
            best = min(best, price)
        return best

    def _fill(self, closed: Bools, order: Ints) -> tuple[Ints, list[tuple[int, Ints, Ints]]]:
        """Put the pods of closed nodes into the room of the others; return those left, and (class, nodes, counts)."""
        problem, requests = self._problem, self._requests
        left = problem.pods[:, closed].sum(axis=1)
        rows = self._by_room[~closed[self._by_room]]
        free, placed = problem.free[rows], list[tuple[int, Ints, Ints]]()
        for one in order.tolist():
            if not left[one]:
                continue
            wanted = self._wanted[one]
            room = np.minimum(
                np.floor_divide(free[:, wanted], requests[one, wanted]).min(axis=1), problem.takes[one, rows]
            )
            ends = np.cumsum(np.maximum(room, 0))
            taken = np.diff(np.minimum(ends, left[one]), prepend=0.0).astype(np.int64)
            used = np.flatnonzero(taken)
            if len(used):
                free[used] -= taken[used, None] * requests[one]
                left[one] -= int(taken[used].sum())
                placed.append((one, rows[used], taken[used]))
        return left, placed

    def _change(self, shares: Floats, most: int) -> None:
        """Change the set by one or a few nodes, again and again. Worse sets are accepted, too, by less and less (annealing)."""
        problem, random = self._problem, self._random
        may = np.flatnonzero(problem.may_close)
        chance = np.clip(shares[may], 0.02, 0.98)
        worth = problem.prices[may] - problem.costs[may] - self._values.of_pods @ problem.pods[:, may]
        opening = np.exp(-np.argsort(np.argsort(-worth)) / max(1.0, len(may) / 4)) + 0.05

        def find_odds(closed: Bools) -> list[float]:
            """Return the cumulative weights for drawing the nodes to change."""
            return list(accumulate(np.where(closed[may], 1.05 - chance, opening * (0.05 + chance)).tolist()))

        current, gain = self._best.copy(), self._best_gain
        odds, nodes = find_odds(current), may.tolist()
        tolerance = _TOLERATED * float(problem.prices.sum())
        for step in range(most):
            used = max(self._used() / _PART_OF_CHANGES, step / most)
            if used >= 1.0:
                return
            least = gain - tolerance * (1.0 - used) ** 2 * random.random()
            closed = current.copy()
            for node in random.choices(nodes, cum_weights=odds, k=random.choice((1, 1, 2, 2, 3, 4))):
                closed[node] = not closed[node]
            found = self._evaluated(closed, least)
            if found >= least:
                current, gain, odds = closed, found, find_odds(closed)

    def result(self) -> Closing | None:
        """Return the best plan for one of the best sets."""
        best: Closing | None = None
        for closed in self._best_sets() if self._best.any() else ():
            if best is not None and self._used() >= 1.0:
                break
            found = self._planned(closed)
            if best is None or found.gain > best.gain + _EPSILON:
                best = found
        return best

    def _best_sets(self) -> list[Bools]:
        """Return the rounded sets, then those with the highest gains, the best first."""
        count = len(self._problem.prices)
        known = heapq.nsmallest(_MOST_PLANNED, ((-gain, key) for key, gain in self._known.items() if gain > 0.0))
        rounded = (np.packbits(closed).tobytes() for closed in self._rounded)
        keys = list(dict.fromkeys([*rounded, *(key for _, key in known)]))[:_MOST_PLANNED]
        return [np.unpackbits(np.frombuffer(key, np.uint8), count=count).astype(bool) for key in keys]

    def _planned(self, closed: Bools) -> Closing:
        """Return the cheapest plan for the pods of these nodes."""
        problem, plans = self._problem, list[tuple[float, int, Ints, list[tuple[int, Ints, Ints]]]]()
        for order in self._orders:
            left, placed = self._fill(closed, order)
            plans.append((self._buyer.price(left) if left.any() else 0.0, len(plans), left, placed))
        price, _, left, placed = min(plans, key=lambda plan: plan[:2])
        moved = np.zeros(problem.pods.shape, dtype=np.int64)
        bought = self._packed(closed, moved) if price > 0.0 and self._used() < 1.0 else None
        if bought is None or any(bought.left) or bought.price > price - _EPSILON:
            moved[:] = 0
            for one, nodes, counts in placed:
                moved[one, nodes] = counts
            bought = self._bought(left)
        saved = float(problem.prices[closed].sum()) - bought.price
        gain = saved - float(problem.costs[closed].sum())
        return Closing(np.flatnonzero(closed), moved, bought, gain, saved)

    def _packed(self, closed: Bools, moved: Ints) -> Mix | None:
        """Return what to buy if new nodes and the room of the others are planned together, and count pods in ``moved``."""
        problem, rows = self._problem, np.flatnonzero(~closed)
        pods = problem.pods[:, closed].sum(axis=1)
        packing = make_packing(problem.buying, pods, problem.free[rows], problem.takes[:, rows])
        if packing is None:
            return None
        placed = np.zeros((len(pods), len(rows)), dtype=np.int64)
        mix = packing.split(self._mix(packing.problem), placed)
        moved[:, rows] = placed
        return mix

    def _bought(self, left: Ints) -> Mix:
        rest = self._buyer.problem_for(left)
        if rest is None:
            return Mix((), tuple(left.tolist()), 0.0)
        sub, classes = rest
        return self._buyer.restored(self._mix(sub), classes)

    def _mix(self, problem: Problem) -> Mix:
        """Return the cheapest mix that is found in the time for one plan."""
        began = self._used()
        time = max(_LEAST_PART_OF_PLAN, _PART_OF_PLAN * (1.0 - began))
        return find_mix(problem, find_values(problem), lambda: (self._used() - began) / time)
