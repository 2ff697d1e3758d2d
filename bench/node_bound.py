"""The fewest node-hours, or dollars, that any autoscaler could have spent on what ran, moment by moment.

At each moment the pods that run may be cut into any fractions and spread over fractions of nodes: a linear programme
per distinct set of pods, solved by HiGHS. It knows amounts, shapes and how many nodes of each there may be, and
nothing of how nodewright packs. No schedule of whole pods on whole nodes needs fewer.

Thousands of moments may be averaged over windows of time first: the bound is a convex function of what runs, so that
the bound of an average is never above the average of bounds.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array

Amounts = tuple[int, ...]
_HOUR = 3600.0


class Shape(NamedTuple):
    """A kind of node: what it offers, how many there may be, and its price per hour (1: nodes are counted)."""

    offers: Amounts
    most: int
    price: float = 1.0


class Moment(NamedTuple):
    """From ``at`` (seconds) until the next moment this many pods of each size run."""

    at: float
    running: Mapping[Amounts, float]


class Programme(NamedTuple):
    """Nodes of each shape, then pods of each size on each shape that fits them: what is used ≤ 0, pods placed = running."""

    prices: NDArray[np.float64]
    most: NDArray[np.float64]
    used: csr_array
    placed: csr_array
    running: NDArray[np.float64]


def moments(changes: Sequence[tuple[float, Amounts, int]]) -> Iterator[Moment]:
    """Return the pods that run at each moment, from starts (+1) and ends (-1); changes at one instant are one moment."""
    running: Counter[Amounts] = Counter()
    ordered = sorted(changes, key=lambda change: change[0])
    for place, (at, asked, count) in enumerate(ordered):
        running[asked] += count
        if place + 1 == len(ordered) or ordered[place + 1][0] > at:
            yield Moment(at, {size: held for size, held in running.items() if held})


def averaged(history: Sequence[Moment], end: float, windows: int) -> list[Moment]:
    """Return ``windows`` moments of equal length, each with what ran on average in it."""
    start = history[0].at
    width = (end - start) / windows
    sums: list[Counter[Amounts]] = [Counter() for _ in range(windows)]
    for moment, until in zip(history, [*(later.at for later in history[1:]), end], strict=True):
        first, last = (min(windows - 1, int((at - start) / width)) for at in (moment.at, until))
        for window in range(first, last + 1):
            begins, ends = start + window * width, start + (window + 1) * width
            share = max(0.0, min(until, ends) - max(moment.at, begins)) / width
            for size, count in moment.running.items():
                sums[window][size] += share * count  # type: ignore[assignment]  # typeshed counts in whole numbers
    return [Moment(start + window * width, dict(running)) for window, running in enumerate(sums)]


class NodeBound:
    """The bound for given shapes, in nodes or by their prices in dollars; the same set of pods is solved once."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self._shapes = shapes
        self._known: dict[frozenset[tuple[Amounts, float]], float] = {}

    def nodes(self, running: Mapping[Amounts, float]) -> float:
        """How many nodes, in fractions, those pods need at least, or their price; ValueError where no number is enough."""
        key = frozenset(running.items())
        if key not in self._known:
            self._known[key] = self._solve(running) if running else 0.0
        return self._known[key]

    def node_hours(self, history: Sequence[Moment], end: float) -> float:
        """Return the bound over all moments; the last one lasts until ``end``."""
        ends = [moment.at for moment in history[1:]] + [end]
        spans = ((until - moment.at) * self.nodes(moment.running) for moment, until in zip(history, ends, strict=True))
        return sum(spans) / _HOUR

    def programme(self, running: Mapping[Amounts, float]) -> Programme:
        """Return the linear programme of one moment."""
        shapes, sizes = self._shapes, list(running)
        pairs = [(c, s) for c, size in enumerate(sizes) for s, shape in enumerate(shapes) if _fits(size, shape)]
        width, kinds = len(shapes) + len(pairs), len(shapes[0].offers)
        columns = len(shapes) + np.arange(len(pairs))
        placed = coo_array((np.ones(len(pairs)), ([c for c, _ in pairs], columns)), shape=(len(sizes), width))
        entries = [(s * kinds + k, s, -float(shape.offers[k])) for s, shape in enumerate(shapes) for k in range(kinds)]
        entries += [
            (s * kinds + k, int(column), float(sizes[c][k]))
            for (c, s), column in zip(pairs, columns, strict=True)
            for k in range(kinds)
        ]
        rows, at, values = zip(*entries, strict=True)
        used = coo_array((values, (rows, at)), shape=(len(shapes) * kinds, width))
        return Programme(
            prices=np.concatenate([[shape.price for shape in shapes], np.zeros(len(pairs))]),
            most=np.concatenate([[float(shape.most) for shape in shapes], np.full(len(pairs), np.inf)]),
            used=used.tocsr(),
            placed=placed.tocsr(),
            running=np.array([running[size] for size in sizes], dtype=float),
        )

    def _solve(self, running: Mapping[Amounts, float]) -> float:
        programme = self.programme(running)
        found = linprog(
            programme.prices,
            A_ub=programme.used,
            b_ub=np.zeros(programme.used.shape[0]),
            A_eq=programme.placed,
            b_eq=programme.running,
            bounds=np.column_stack([np.zeros_like(programme.most), programme.most]),
            method="highs",
        )
        if not found.success:
            raise ValueError(f"no packing of {sum(running.values()):g} pods: {found.message}")
        return float(found.fun)


def _fits(size: Amounts, shape: Shape) -> bool:
    return all(asked <= offered for asked, offered in zip(size, shape.offers, strict=True))
