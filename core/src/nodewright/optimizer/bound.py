"""The lower bound of the price, and what each class of pods is worth.

Both come from a linear programme over fractions of pods and nodes. It spreads the pods of a class over kinds of nodes. Of
each kind it buys as many nodes as the resource needs of which the pods request the largest share. The dual variables are
the prices of one more pod of each class.
"""

import math
from dataclasses import dataclass

import numpy as np

from nodewright.optimizer.highs import Programme, is_installed
from nodewright.optimizer.problem import Bools, Floats, Ints, Problem

# The number of its cheapest kinds for which a class has columns before more are added.
_FIRST_KINDS = 1
_MOST_ROUNDS = 30
# No pod is worth less than this part of what it costs on its cheapest kind.
_LEAST_VALUE = 1e-3
# Small relative errors of the solver.
_TOLERANCE = 1e-7


@dataclass(frozen=True, eq=False)
class Values:
    """``of_pods`` (C): what a pod of each class is worth, in USD an hour. ``bound``: no mix is cheaper than that.

    ``cheapest`` (C): what a pod costs on the kind where its share of a node is cheapest. ``evened`` (C): what it is worth if
    each resource counts by how scarce it is. If only one resource is scarce, ``of_pods`` ignores the others, and nodes that
    are filled by it leave pods that pack badly together.
    """

    of_pods: Floats
    cheapest: Floats
    evened: Floats
    bound: float

    def mixed(self, part: float) -> Floats:
        """Return the value of each pod, of which this part is its evened value."""
        return (1.0 - part) * self.of_pods + part * self.evened


def find_values(problem: Problem) -> Values:
    """Return the values of pods and the bound. Every class must fit some kind."""
    costs = _costs(problem)
    cheapest = costs.min(axis=1)
    kinds = np.flatnonzero(undominated(problem))
    weights = _solved(problem, costs, kinds) if is_installed() else None
    prices, scarcity, spread = weights if weights is not None else _guessed(problem, kinds)
    # Any prices of resources give a bound if no node is worth more than it costs.
    worth = np.where(problem.fits[:, kinds], problem.requests @ prices.T, math.inf).min(axis=1)
    rooms = np.array([problem.rooms[kind] for kind in kinds], dtype=float)
    pods = np.array(problem.pods, dtype=float)
    bound = float(worth @ pods - np.where(scarcity > 0, scarcity * np.minimum(rooms, pods.sum()), 0.0).sum())
    evened = bound * _evened(problem, problem.free[kinds], spread)
    return Values(np.maximum(worth, _LEAST_VALUE * cheapest), cheapest, evened, max(0.0, bound))


def _evened(problem: Problem, free: Floats, spread: Floats) -> Floats:
    """Return the share of one pod of each class in all requests. Resources count by how much of the nodes they use."""
    pods = np.array(problem.pods, dtype=float)
    asked = np.maximum(pods @ problem.requests, 1e-12)
    needed = (spread.T @ problem.requests) / np.where(free > 0, free, np.inf)
    nodes = needed.max(axis=1, initial=0.0)
    offered = np.maximum(nodes @ free, 1e-12)
    weights = np.minimum(1.0, asked / offered) ** 3
    found: Floats = (problem.requests / asked) @ (weights / weights.sum())
    return found


def _costs(problem: Problem) -> Floats:
    """Return the price of the share of a node that one pod takes (C × K); infinity where it does not fit."""
    offered = np.where(problem.free > 0, problem.free, math.inf)
    share = np.zeros(problem.fits.shape)
    for resource in range(problem.free.shape[1]):
        np.maximum(share, problem.requests[:, resource, None] / offered[None, :, resource], out=share)
    found: Floats = np.where(problem.fits, share * problem.prices, math.inf)
    return found


def undominated(problem: Problem) -> Bools:
    """Return the kinds that no other kind replaces, in fractions of a node, for the same money or less."""
    prices, endless = problem.prices, np.array(problem.is_endless)
    with np.errstate(invalid="ignore"):
        replaces = endless[None, :] & (prices[None, :] * problem.times <= prices[:, None] * (1 + 1e-12))
    np.fill_diagonal(replaces, False)
    # Of kinds that replace each other the first stays.
    mutual = replaces & replaces.T
    earlier = np.tri(len(prices), k=-1, dtype=bool)
    kept: Bools = ~((replaces & ~mutual) | (mutual & earlier)).any(axis=1)
    return kept


def _solved(problem: Problem, costs: Floats, kinds: Ints) -> tuple[Floats, Floats, Floats] | None:
    """Return the prices of resources on each kind (K × R) and of the scarcity of kinds (K) by HiGHS; None without a result.

    Columns: nodes of a kind, then pods of a class on a kind. Rows: pods of a class, then a resource of a kind.
    """
    requests, free, fits = problem.requests, problem.free[kinds], problem.fits[:, kinds]
    prices, costs = problem.prices[kinds], costs[:, kinds]
    classes, resources = requests.shape
    pods = np.array(problem.pods, dtype=float)
    endless = np.array(problem.is_endless)[kinds]
    rows = len(kinds) * resources
    programme = Programme(np.concatenate([pods, np.full(rows, -math.inf)]), np.concatenate([pods, np.zeros(rows)]))
    programme.add(
        prices,
        np.where(endless, math.inf, np.array(problem.rooms, dtype=float)[kinds]),
        [[(classes + k * resources + r, -1.0) for r in range(resources) if free[k, r] > 0] for k in range(len(kinds))],
    )
    # Columns for pods that get no node because groups are at their maximum sizes.
    dear = 100.0 * float(costs[np.isfinite(costs)].max(initial=1.0))
    programme.add(np.full(classes, dear), np.full(classes, math.inf), [[(c, 1.0)] for c in range(classes)])
    share = np.where(free > 0, 1.0 / np.where(free > 0, free, 1.0), 0.0)
    wanted = _first_pairs(costs)
    known: Bools = np.zeros_like(fits)
    added: list[list[int]] = []
    for _ in range(_MOST_ROUNDS):
        pairs = np.argwhere(wanted & ~known)
        known |= wanted
        added += pairs.tolist()
        of_class, of_kind = pairs[:, 0], pairs[:, 1]
        asked = requests[of_class] * share[of_kind]
        column, resource = np.nonzero(asked)
        programme.add_entries(
            np.zeros(len(pairs)),
            np.full(len(pairs), math.inf),
            np.concatenate([np.arange(len(pairs)), column]),
            np.concatenate([of_class, classes + of_kind[column] * resources + resource]),
            np.concatenate([np.ones(len(pairs)), asked[column, resource]]),
        )
        found = programme.solve()
        if found is None:
            return None
        amounts = np.maximum(0.0, -found.duals[classes:].reshape(len(kinds), resources)) * share
        amounts = _raised(amounts, free, prices)
        spread = np.zeros(fits.shape)
        spread[tuple(np.array(added).T)] = found.values[len(kinds) + classes :]
        gain = np.where(fits & ~known, found.duals[:classes, None] - requests @ amounts.T, 0.0)
        best = gain.argmax(axis=1)
        worth_more = gain[np.arange(classes), best] > _TOLERANCE * np.maximum(1e-3, found.duals[:classes])
        if not worth_more.any():
            break
        wanted = np.zeros_like(fits)
        wanted[np.flatnonzero(worth_more), best[worth_more]] = True
    scarcity = np.maximum(0.0, (amounts * free).sum(axis=1) - prices)
    excess = endless & (scarcity > 0)
    amounts[excess] *= (prices[excess] / (prices[excess] + scarcity[excess]))[:, None]
    return amounts, np.where(endless, 0.0, scarcity), spread


def _raised(amounts: Floats, free: Floats, prices: Floats) -> Floats:
    """Return the prices of resources, raised on kinds of which a node is worth less than it costs.

    The dual variables are arbitrary there, and zero for kinds without a column: every pod would seem to be cheap on them.
    """
    worth = (amounts * free).sum(axis=1)
    base = np.where(worth[:, None] > 0, amounts, amounts.sum(axis=0))
    whole = (base * free).sum(axis=1)
    lacks = (worth < prices) & (whole > 0)
    return np.where(lacks[:, None], base * (prices / np.where(whole > 0, whole, 1.0))[:, None], amounts)


def _first_pairs(costs: Floats) -> Bools:
    """Return for each class its cheapest kinds."""
    chosen = np.zeros(costs.shape, dtype=bool)
    order = np.argsort(costs, axis=1, kind="stable")[:, :_FIRST_KINDS]
    np.put_along_axis(chosen, order, True, axis=1)
    return chosen & np.isfinite(costs)


def _guessed(problem: Problem, kinds: Ints) -> tuple[Floats, Floats, Floats]:
    """Return prices of resources without a solver: the price of each kind is split over its resources, alike for all kinds.

    Of some ways to split it the one with the highest bound is taken.
    """
    free, prices, fits = problem.free[kinds], problem.prices[kinds], problem.fits[:, kinds]
    resources = free.shape[1]
    share = np.where(free > 0, 1.0 / np.where(free > 0, free, 1.0), 0.0)
    pods = np.array(problem.pods, dtype=float)
    splits = [np.eye(resources)[r] for r in range(resources)]
    splits += [0.5 * a + 0.5 * b for n, a in enumerate(splits[:resources]) for b in splits[:n]]
    splits.append(np.full(resources, 1.0 / resources))
    best, most = np.zeros_like(free), -1.0
    for split in splits:
        amounts = prices[:, None] * split * share
        worth = np.where(fits, problem.requests @ amounts.T, math.inf).min(axis=1)
        if float(worth @ pods) > most:
            best, most = amounts, float(worth @ pods)
    first = np.where(fits, problem.requests @ best.T, math.inf).argmin(axis=1)
    spread = np.zeros(fits.shape)
    spread[np.arange(len(first)), first] = pods
    return best, np.zeros(len(kinds)), spread
