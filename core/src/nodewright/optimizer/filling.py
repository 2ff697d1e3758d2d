"""Fill one node with the pods that are worth most."""

from collections.abc import Sequence

import numpy as np

from nodewright.optimizer.problem import Floats, Problem

# Sorted pairs (class, count).
Filling = tuple[tuple[int, int], ...]


class Filler:
    """Fills empty nodes of a problem. Amounts are kept as plain Python numbers: they are faster for one node.

    ``work``: how many classes were looked at so far.
    """

    def __init__(self, problem: Problem) -> None:
        self.work = 0
        self._orders: dict[bytes, list[list[list[int]]]] = {}
        self._problem = problem
        self._free: list[list[int]] = problem.free.astype(np.int64).tolist()
        requests = problem.requests.astype(np.int64)
        self._wanted = [[(r, amount) for r, amount in enumerate(row) if amount > 0] for row in requests.tolist()]
        offered = np.where(problem.free > 0, problem.free, np.inf)
        self._shares = problem.requests[None, :, :] / offered[:, None, :]
        self._classes = [np.flatnonzero(column) for column in problem.fits.T]
        least = requests.min(axis=0)
        self._least = [(r, amount) for r, amount in enumerate(least.tolist()) if amount > 0]

    def orders(self, values: Floats) -> list[list[list[int]]]:
        """Return for each kind the orders in which classes are tried: by value for their share of the node, and by size."""
        key = values.tobytes()
        if key not in self._orders:
            self._orders[key] = self._sorted(values)
        return self._orders[key]

    def _sorted(self, values: Floats) -> list[list[list[int]]]:
        found = []
        for kind, classes in enumerate(self._classes):
            shares = self._shares[kind, classes]
            largest, worth = shares.max(axis=1), values[classes]
            keys = (-worth / shares.sum(axis=1), -worth / largest, -largest)
            orders = [classes[np.argsort(key, kind="stable")].tolist() for key in keys]
            found.append([order for n, order in enumerate(orders) if order not in orders[:n]])
        return found

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
        limits = self._problem.per_node if most is None else most
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
        problem = self._problem
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
        worth, is_full = 0.0, False
        for one in order:  # all inline: nearly all of the time is spent here
            count = left[one]
            if not count:
                continue
            count = min(count, most[one])
            for resource, amount in wanted[one]:
                room = free[resource] // amount
                if room < count:
                    if room <= 0:
                        break
                    count = room
            else:
                for resource, amount in wanted[one]:
                    free[resource] -= count * amount
                filling.append((one, count))
                worth += count * values[one]
                for resource, amount in least:
                    if free[resource] < amount:
                        is_full = True
                        break
                if is_full:
                    break
        filling.sort()
        return worth, tuple(filling)
