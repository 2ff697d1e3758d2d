"""The least price that the clusters of consolidation.py can come to for a number of evictions: the best that a goal for both can be.

``consolidation_frontier.py [FILE…]`` solves for each case the linear programme with which the search begins: parts of nodes are closed,
pods are split. No moves of whole nodes come to a lower price with as few evictions, as long as no pod of a node that stays is moved. One
line for each cost of an eviction: once the same in dollars for all cases, once in shares of each case's pool, as ``balanced`` counts it.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np

from consolidation_cases import SHARED, Cluster, read_clusters
from consolidation_market import Market
from nodewright.cli.settings.load import load_settings
from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.memory import Memory
from nodewright.model.settings import Settings
from nodewright.optimizer.closing import relax
from nodewright.optimizer.problem import Floats
from nodewright.planner import find_growth_context
from nodewright.planner.consolidation.problem import GroupsToGrow, make_problem
from nodewright.planner.consolidation.sources import find_sources

_DOLLARS = (0.0, 0.002, 0.004, 0.006, 0.008, 0.0085, 0.009, 0.01, 0.012, 0.015, 0.02)
_SHARES = (0.0, 0.1, 0.18, 0.2, 0.22, 0.25, 0.3, 0.4, 0.5)
# So that of two answers at one price the one with fewer evictions is found.
_TINY = 1e-7


class Relaxed:
    """A case as a linear programme. Raise ValueError if none of its nodes may go."""

    def __init__(self, case: Cluster, settings: Settings) -> None:
        state = fold(Memory(), Market(case, settings).look(), [], settings)
        context = find_growth_context(state, settings, Random(1))
        if context is None:
            raise ValueError(f"{case.name}: there is no context to plan in")
        sources = find_sources(context, 0.0, {})
        plan = make_problem(context, sources, GroupsToGrow(context), 0.0, len(sources.nodes), frozenset())
        if plan is None:
            raise ValueError(f"{case.name}: no node may go")
        self._problem = plan.problem
        self._price, self.bound = case.price_before, case.lp_bound_pinned
        rest = np.zeros(len(plan.rows) - len(sources.nodes))
        self._evictions = plan.problem.pods.sum(axis=0).astype(float)
        self._shares = np.concatenate([[node.disruption * sources.pool.rate for node in sources.nodes], rest])

    def at_dollars(self, cost: float) -> tuple[float, float]:
        """Return price at rest and evictions, if one eviction costs so many USD an hour."""
        return self._solved(self._evictions * cost)

    def at_share(self, weight: float) -> tuple[float, float]:
        """Return the same, if one disruption costs this part of the pool's price for each disruption."""
        return self._solved(self._shares * weight)

    def _solved(self, costs: Floats) -> tuple[float, float]:
        costs = costs + _TINY
        found = relax(replace(self._problem, costs=costs))
        if found is None:
            raise ValueError("the programme has no result: install nodewright[optimizer]")
        shares, gain = found
        return self._price - gain - float(costs @ shares), float(self._evictions @ shares)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="consolidation_frontier.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="JSON lines, or these compressed by gzip")
    given = parser.parse_args(words)
    settings = load_settings({"consolidation-policy": "balanced", "expander": "least-cost"}, {})
    cases = [Relaxed(case, settings) for case in read_clusters(given.files or [SHARED])]
    bound = sum(case.bound for case in cases)
    for unit, costs in (("$/h", _DOLLARS), ("shares", _SHARES)):
        for cost in costs:
            found = [case.at_dollars(cost) if unit == "$/h" else case.at_share(cost) for case in cases]
            price, evicted = (sum(values) for values in zip(*found, strict=True))
            print(f"{cost:>7} {unit:<6} price {price:8.2f}  ÷ bound {price / bound:.3f}  evicted {evicted:8.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
