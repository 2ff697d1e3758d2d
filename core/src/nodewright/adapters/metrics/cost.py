"""The metrics of what machines cost, and of the least that they could cost."""

import math
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nodewright.clusterstate.state import ClusterState
from nodewright.model.settings import Settings
from nodewright.planner.cost import cluster_bound, machines_now
from nodewright.snapshot.hourly_cost import hourly_cost

# The bound is computed at most so often, in seconds: it takes some 30 ms for 15,000 nodes with 150,000 pods of 500 shapes.
BOUND_INTERVAL = 60.0


class CostMetrics(Collector):
    """Of one engine; ``observe`` each loop. What is not known is absent. It registers itself."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._costs: Mapping[str, float] = {}
        self._bound: float | None = None
        self._bound_at = -math.inf
        registry.register(self)

    def observe(self, state: ClusterState, settings: Settings) -> None:
        groups = [group.seen for group in state.groups.values()]
        machines = machines_now(groups)
        costs = hourly_cost(groups, machines).by_group
        self._costs = {str(ref): cost for ref, cost in costs.items() if ref in machines}
        if not 0 <= state.now - self._bound_at < BOUND_INTERVAL:
            self._bound, self._bound_at = cluster_bound(state, settings) if groups else None, state.now

    def collect(self) -> Iterator[Metric]:
        costs = GaugeMetricFamily(
            "nodewright_cost_per_hour", "USD that the machines of a group cost in an hour.", labels=("group",)
        )
        for group, cost in self._costs.items():
            costs.add_metric((group,), cost)
        yield costs
        bound = GaugeMetricFamily(
            "nodewright_cost_lower_bound_per_hour",
            "The least USD that machines of the present groups could cost for all pods; absent: a price is missing.",
        )
        if self._bound is not None:
            bound.add_metric((), self._bound)
        yield bound
