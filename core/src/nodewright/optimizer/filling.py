"""Fill a node with the pods that are worth most, and buy such nodes until no pod is left."""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from nodewright.optimizer.problem import Floats, Pattern, Problem

# Sorted pairs (class, count).
Filling = tuple[tuple[int, int], ...]
# Each time this number of purchases of a kind was made, classes without pods are dropped from its orders.
_PURCHASES_PER_PRUNING = 8
_EPSILON = 1e-9


class Filler:
    """Fills empty nodes of a problem. Amounts are kept as plain Python numbers: they are faster for one node.

    ``work``: how many classes were examined so far. ``replaced_by``: for each kind the kinds that replace it node for node
    at no higher price; ``replaces``: the kinds that it replaces.
    """

    def __init__(self, problem: Problem) -> None:
        self.work = 0
        self._orders: dict[bytes, dict[int, list[list[int]]]] = {}
        self.problem = problem
        self.replaced_by, self.replaces = _replacements(problem)
        self._free: list[list[int]] = problem.free.astype(np.int64).tolist()
        requests = problem.requests.astype(np.int64)
        # The resource that is used most comes first: most classes that do not fit lack it.
        shares = np.array(problem.pods) @ problem.requests / np.maximum(problem.free.max(axis=0), 1.0)
        resources = np.argsort(-shares, kind="stable").tolist()
        self._wanted = [[(r, row[r]) for r in resources if row[r] > 0] for row in requests.tolist()]
        offered = np.where(problem.free > 0, problem.free, np.inf)
        self._shares = problem.requests[None, :, :] / offered[:, None, :]
        self._classes = [np.flatnonzero(column) for column in problem.fits.T]
        least = requests.min(axis=0)
        self._least = [(r, amount) for r, amount in enumerate(least.tolist()) if amount > 0]

    def orders(self, values: Floats) -> Callable[[int], list[list[int]]]:
        """Return a function of a kind: the orders in which its classes are tried, by value for their share, and by size."""
        known = self._orders.setdefault(values.tobytes(), {})

        def of_kind(kind: int) -> list[list[int]]:
            if kind not in known:
                known[kind] = self._sorted(kind, values)
            return known[kind]

        return of_kind

    def _sorted(self, kind: int, values: Floats) -> list[list[int]]:
        classes = self._classes[kind]
        shares = self._shares[kind, classes]
        largest, worth = shares.max(axis=1), values[classes]
        keys = (-worth / shares.sum(axis=1), -worth / largest, -largest)
        orders = [classes[np.argsort(key, kind="stable")].tolist() for key in keys]
        return [order for n, order in enumerate(orders) if order not in orders[:n]]

    def best(
        self,
        kind: int,
        orders: Sequence[Sequence[int]],
        left: Sequence[int],
        values: Sequence[float],
        most: Sequence[int] | None = None,
    ) -> tuple[float, Filling]:
        """Return the most valuable filling of a node of the kind with pods that are left, and its value.

        ``most``: how many pods of each class it may have, if less than the problem says.
        """
        limits = self.problem.per_node if most is None else most
        worth = 0.0
        chosen: Filling = ()
        for order in orders:
            self.work += len(order)
            found, filling = self._fill(kind, order, left, values, limits)
            if found > worth:
                worth, chosen = found, filling
        return worth, chosen

    def balanced(self, kind: int, left: Sequence[int], values: Floats) -> tuple[float, Filling]:
        """Return a filling, and its value, for which the next class is chosen by value for what is scarce by then."""
        problem = self.problem
        classes = self._classes[kind]
        free = problem.free[kind].copy()
        requests, worths = problem.requests[classes], values[classes]
        rest = np.minimum(np.array(left)[classes], np.array(problem.per_node)[classes])
        taken = np.zeros(len(classes), dtype=int)
        while True:
            open_ones = np.flatnonzero((rest > 0) & (requests <= free).all(axis=1))
            if not len(open_ones):
                break
            scarcity = requests[open_ones] @ (1.0 / np.maximum(free, 1e-9))
            one = open_ones[int((worths[open_ones] / scarcity).argmax())]
            asked = requests[one]
            room = int(min(rest[one], (free[asked > 0] / asked[asked > 0]).min()))
            step = max(1, room // 3)
            free -= step * asked
            rest[one] -= step
            taken[one] += step
        held = np.flatnonzero(taken)
        filling = tuple((int(classes[n]), int(taken[n])) for n in held)
        return float(taken @ worths), filling

    def _fill(
        self, kind: int, order: Sequence[int], left: Sequence[int], values: Sequence[float], most: Sequence[int]
    ) -> tuple[float, Filling]:
        free, wanted, least = self._free[kind].copy(), self._wanted, self._least
        filling: list[tuple[int, int]] = []
        worth = 0.0
        for one in order:  # all inline: nearly all of the time is spent here
            count = left[one]
            if not count:
                continue
            asked = wanted[one]
            for resource, amount in asked:
                if free[resource] < amount:
                    break
            else:
                count = min(count, most[one], *[free[resource] // amount for resource, amount in asked])
                for resource, amount in asked:
                    free[resource] -= count * amount
                filling.append((one, count))
                worth += count * values[one]
                if any(free[resource] < amount for resource, amount in least):
                    break
        filling.sort()
        return worth, tuple(filling)


class Perturbation(NamedTuple):
    """Random changes for one try: a factor on the worth of nodes of each kind, and the most pods of a class on a node."""

    factors: list[float]
    most: list[int]


class GreedyMix:
    """Buys the node that is worth most for its price again and again, as many copies at once as there are pods for.

    A kind that others replace is considered only once none of these may be bought any more.
    """

    def __init__(
        self,
        filler: Filler,
        values: Floats,
        pods: Sequence[int],
        rooms: Sequence[int],
        perturbation: Perturbation | None = None,
    ) -> None:
        self._filler = filler
        self._worths: list[float] = values.tolist()
        self._left, self._rooms = list(pods), list(rooms)
        self._most = perturbation.most if perturbation is not None else None
        factors = perturbation.factors if perturbation is not None else [1.0] * len(self._rooms)
        prices: list[float] = filler.problem.prices.tolist()
        self._prices = [max(price, _EPSILON) / factor for price, factor in zip(prices, factors, strict=True)]
        self._orders_of = filler.orders(values)
        self._orders: dict[int, list[list[int]]] = {}
        self._better = [sum(self._rooms[other] > 0 for other in others) for others in filler.replaced_by]
        self._purchases = Counter[int]()
        # The best filling of each kind: minus its worth per price, the kind, the filling. The pods that are left may fill a
        # node less well than an old entry says, never better.
        self._waiting: list[tuple[float, int, Filling]] = []

    def buy_all(self) -> list[Pattern]:
        """Return what is bought until no node is worth anything."""
        for kind in range(len(self._rooms)):
            self._add(kind)
        waiting, left, rooms, bought = self._waiting, self._left, self._rooms, list[Pattern]()
        while waiting:
            _, kind, filling = waiting[0]
            copies = min(rooms[kind], *(left[one] // count for one, count in filling))
            if copies > 0:
                rooms[kind] -= copies
                for one, count in filling:
                    left[one] -= copies * count
                bought.append(Pattern(kind, filling, copies))
            self._fill_again(kind)
        return bought

    def _add(self, kind: int) -> None:
        if self._rooms[kind] > 0 and not self._better[kind]:
            self._orders[kind] = self._without_empty(self._orders_of(kind))
            found = self._best(kind)
            if found is not None:
                heapq.heappush(self._waiting, found)

    def _fill_again(self, kind: int) -> None:
        """Replace the first waiting filling by the best one for the pods that are left."""
        if self._rooms[kind] <= 0:
            heapq.heappop(self._waiting)
            for other in self._filler.replaces[kind]:
                self._better[other] -= 1
                self._add(other)
            return
        self._purchases[kind] += 1
        if self._purchases[kind] % _PURCHASES_PER_PRUNING == 0:
            self._orders[kind] = self._without_empty(self._orders[kind])
        found = self._best(kind)
        if found is not None:
            heapq.heapreplace(self._waiting, found)
        else:
            heapq.heappop(self._waiting)

    def _best(self, kind: int) -> tuple[float, int, Filling] | None:
        worth, filling = self._filler.best(kind, self._orders[kind], self._left, self._worths, self._most)
        return (-worth / self._prices[kind], kind, filling) if filling else None

    def _without_empty(self, orders: Sequence[Sequence[int]]) -> list[list[int]]:
        left = self._left
        return [[one for one in order if left[one]] for order in orders]


def _replacements(problem: Problem) -> tuple[list[list[int]], list[list[int]]]:
    """Return for each kind the kinds that replace it node for node at no higher price, and the kinds that it replaces."""
    prices = problem.prices
    better = (problem.times <= 1.0) & (prices[None, :] <= prices[:, None])
    np.fill_diagonal(better, False)
    # Of equal kinds the first stays.
    better &= ~(better.T & np.tri(len(prices), k=-1, dtype=bool).T)
    return [np.flatnonzero(row).tolist() for row in better], [np.flatnonzero(row).tolist() for row in better.T]
