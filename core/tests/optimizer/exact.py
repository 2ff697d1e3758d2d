"""The exact optimum of a small problem, by listing every way to fill a node. It shares no code with the optimizer."""

from itertools import product

import numpy as np

from nodewright.optimizer.problem import Problem


def cheapest_price(problem: Problem) -> float | None:
    """Return the least price at which all pods have a place; None if they cannot have one. For a handful of pods."""
    goal = tuple(problem.pods)
    fillings = _fillings(problem)
    best: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {(goal, tuple(problem.rooms)): 0.0}
    found: float | None = None
    waiting = dict(best)
    while waiting:
        state = min(waiting, key=lambda one: waiting[one])
        price = waiting.pop(state)
        left, rooms = state
        if not any(left):
            return price if found is None else min(found, price)
        # The first pod that is left goes on some node: every other order of buying is the same.
        first = next(n for n, count in enumerate(left) if count)
        for kind, filling in fillings:
            if not filling[first] or not rooms[kind]:
                continue
            after = tuple(max(0, count - taken) for count, taken in zip(left, filling, strict=True))
            fewer = tuple(room - (n == kind) for n, room in enumerate(rooms))
            cost = price + float(problem.prices[kind])
            if cost < best.get((after, fewer), np.inf):
                best[after, fewer] = waiting[after, fewer] = cost
    return found


def _fillings(problem: Problem) -> list[tuple[int, tuple[int, ...]]]:
    """Return each kind with each filling that takes no further pod."""
    found = []
    for kind in range(len(problem.prices)):
        most = [
            min(count, cap) if fits else 0
            for count, cap, fits in zip(problem.pods, problem.per_node, problem.fits[:, kind], strict=True)
        ]
        possible = [
            counts
            for counts in product(*(range(count + 1) for count in most))
            if (np.array(counts) @ problem.requests <= problem.free[kind]).all()
        ]
        found += [
            (kind, one)
            for one in possible
            if any(one) and not any(other != one and all(np.array(other) >= one) for other in possible)
        ]
    return found
