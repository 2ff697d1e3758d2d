"""What is measured of node groups: how many are how, and each by itself where that is wanted."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Gauge

from nodewright.clusterstate.backoff import is_active, is_deferred
from nodewright.clusterstate.state import ClusterState, GroupState

_CA, _OWN = "cluster_autoscaler", "nodewright"
# CA's word for node groups that were made on demand.
MADE = "autoprovisioned"


class GroupMetrics:
    """Of one engine; ``observe`` each loop. ``each``: every group has gauges of its own, too."""

    def __init__(self, registry: CollectorRegistry, *, each: bool) -> None:
        self._registry = registry
        self._groups = self._gauge("node_groups_count", "Node groups by type.", "node_group_type")
        self._most_nodes = self._gauge("max_nodes_count", "Nodes that the cluster may have.")
        self._backed_off = self._gauge("groups_in_backoff", "Node groups that are left alone for now.", prefix=_OWN)
        self._deferred = self._gauge(
            "deferred_groups", "Node groups that wait because their cloud is busy.", prefix=_OWN
        )
        self._unhealthy = self._gauge("unhealthy_groups", "Node groups that are not healthy.", prefix=_OWN)
        self._full = self._gauge("groups_at_max", "Node groups that may not grow any further.", prefix=_OWN)
        self._unknown = self._gauge("unknown_groups", "Node groups that could not be read.", prefix=_OWN)
        self._each = _Each(registry) if each else None

    def observe(self, state: ClusterState, max_nodes_total: int) -> None:
        """``max_nodes_total`` as in the settings: 0 is no limit."""
        groups = tuple(state.groups.values())
        made = sum(bool(group.seen.group.autoprovisioned) for group in groups)
        self._groups.labels("autoscaled").set(len(groups) - made)
        self._groups.labels(MADE).set(made)
        most = sum(group.seen.group.max_size for group in groups)
        self._most_nodes.set(min(most, max_nodes_total) if max_nodes_total else most)
        self._unknown.set(sum(group.seen.target is None for group in groups))
        self._backed_off.set(sum(is_active(group.backoff, state.now) for group in groups))
        self._deferred.set(sum(is_deferred(group.deferral, state.now) for group in groups))
        self._unhealthy.set(sum(not group.healthy for group in groups))
        self._full.set(sum((group.seen.target or 0) >= group.seen.group.max_size > 0 for group in groups))
        if self._each is not None:
            self._each.observe(groups, state.now)

    def _gauge(self, name: str, text: str, *labels: str, prefix: str = _CA) -> Gauge:
        return Gauge(f"{prefix}_{name}", text, labels, registry=self._registry)


class _Each:
    """CA's gauges of every group by itself."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"{_CA}_node_group_{name}", text, ("node_group", *labels), registry=registry)

        self._minimum = gauge("min_count", "Smallest size.")
        self._maximum = gauge("max_count", "Largest size.")
        self._target = gauge("target_count", "Target size.")
        self._healthy = gauge("healthiness", "1 for a healthy group.")
        self._backoff = gauge("backoff_status", "1 while backed off.", "reason")

    def observe(self, groups: Sequence[GroupState], now: float) -> None:
        for group in groups:
            name, seen = group.ref.group_id, group.seen
            self._minimum.labels(name).set(seen.group.min_size)
            self._maximum.labels(name).set(seen.group.max_size)
            if seen.target is not None:
                self._target.labels(name).set(seen.target)
            self._healthy.labels(name).set(group.healthy)
            backoff = group.backoff
            self._backoff.labels(name, backoff.code if backoff is not None else "").set(is_active(backoff, now))
