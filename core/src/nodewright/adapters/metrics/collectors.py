"""Metrics of nodes, groups, costs, and calls of the API server and of providers."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nodewright.adapters.metrics.waits import RunningWaits
from nodewright.clusterstate.backoff import is_active, is_deferred
from nodewright.clusterstate.readiness import STATUS_PREFIX, is_startup_taint
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.group import GroupRef
from nodewright.model.node import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT
from nodewright.model.plan import Plan
from nodewright.model.settings import Settings, TemplateSettings
from nodewright.planner.cost import cluster_bound, machines_now
from nodewright.snapshot.observation import hourly_cost

_OWN_KEYS = (TO_BE_DELETED_TAINT, DELETION_CANDIDATE_TAINT)
_SYSTEM_PREFIX = "node.kubernetes.io/"
_FIRST_SECONDS, _FACTOR, _STEPS = 1.0, 1.5, 19


class NodeMetrics:
    """Metrics of the nodes of one engine; call ``observe`` in each loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._taints = Gauge(
            "cluster_autoscaler_node_taints_count", "Taints of all nodes by type.", ("type",), registry=registry
        )
        self._latency = Histogram(
            "cluster_autoscaler_node_removal_latency_seconds",
            "How long nodes were unneeded until they were removed, or needed again.",
            ("deleted", "delay_reason"),
            buckets=tuple(_FIRST_SECONDS * _FACTOR**step for step in range(_STEPS)),
            registry=registry,
        )
        for deleted in ("true", "false"):
            self._latency.labels(deleted, "")
        self._unneeded: dict[str, float] = {}

    def observe(self, state: ClusterState, plan: Plan | None, settings: TemplateSettings) -> None:
        self._taints.clear()
        counts: Counter[str] = Counter()
        for _, node in state.observation.snapshot.nodes():
            counts.update(taint_type(taint.key, settings) for taint in node.spec.taints)
        for kind, count in counts.items():
            self._taints.labels(kind).set(count)
        if plan is not None:
            self._observe_unneeded(state, plan)

    def _observe_unneeded(self, state: ClusterState, plan: Plan) -> None:
        """Count unneeded nodes, including those that are being removed."""
        going = state.observation.removing
        kept = {
            name: at for name, at in self._unneeded.items() if name in going and name not in plan.scale_down.unneeded
        }
        now_unneeded = {**plan.scale_down.unneeded, **kept}
        for name in self._unneeded.keys() - now_unneeded.keys():
            deleted = str(name not in state.observation.snapshot).lower()
            self._latency.labels(deleted, "").observe(max(0.0, state.now - self._unneeded[name]))
        self._unneeded = now_unneeded


def taint_type(key: str, settings: TemplateSettings) -> str:
    """Return the key of a taint of Kubernetes or an autoscaler; of other taints only the type, since there may be many keys."""
    if key in _OWN_KEYS or key.startswith(_SYSTEM_PREFIX):
        return key
    if is_startup_taint(key, settings):
        return "startup-taint"
    if key.startswith(STATUS_PREFIX) or key in settings.status_taint:
        return "status-taint"
    return "unlisted"


_CA, _OWN = "cluster_autoscaler", "nodewright"
# CA's word for node groups that the autoscaler created.
MADE = "autoprovisioned"


# The label for the sum of all groups that have no series of their own.
OTHERS = "others"


def name_groups(refs: Iterable[GroupRef], most: int) -> dict[GroupRef, str]:
    """Return the label of each group: its name for the first ``most`` groups by name, OTHERS for the rest."""
    return {
        ref: name if at < most else OTHERS for at, (name, ref) in enumerate(sorted((str(ref), ref) for ref in refs))
    }


class GroupMetrics(Collector):
    """Metrics of the node groups of one engine; call ``observe`` in each loop. It registers itself.

    The first ``most`` groups by name have series of their own, the others are added up. ``with_cas``: each of the former also
    has the gauges of cluster-autoscaler.
    """

    def __init__(self, registry: CollectorRegistry, most: int, *, with_cas: bool) -> None:
        self._registry = registry
        self._most = most
        self._groups = self._gauge("node_groups_count", "Node groups by type.", "node_group_type")
        self._most_nodes = self._gauge("max_nodes_count", "Nodes that the cluster may have.")
        self._backed_off = self._gauge(
            "groups_in_backoff", "Node groups that are not grown because of failures.", prefix=_OWN
        )
        self._deferred = self._gauge(
            "deferred_groups", "Node groups that wait because their cloud is busy.", prefix=_OWN
        )
        self._unhealthy = self._gauge("unhealthy_groups", "Node groups that are not healthy.", prefix=_OWN)
        self._full = self._gauge("groups_at_max", "Node groups that have reached their maximum.", prefix=_OWN)
        self._unknown = self._gauge(
            "unknown_groups",
            "Node groups that could not be read; a provider without any that is known counts as one.",
            prefix=_OWN,
        )
        self._cas = _GaugesOfCa(registry) if with_cas else None
        # The values, by metric name and group label.
        self._each: Mapping[str, Mapping[str, float]] = {name: {} for name in _OF_EACH_GROUP}
        registry.register(self)

    def observe(self, state: ClusterState, max_nodes_total: int) -> None:
        """Set the metrics of groups and nodes. ``max_nodes_total`` is as in the settings: 0 is no limit."""
        groups = tuple(state.groups.values())
        made = sum(bool(group.seen.group.autoprovisioned) for group in groups)
        self._groups.labels("autoscaled").set(len(groups) - made)
        self._groups.labels(MADE).set(made)
        most = sum(group.seen.group.max_size for group in groups)
        self._most_nodes.set(min(most, max_nodes_total) if max_nodes_total else most)
        seen = state.observation
        unknown = {ref for ref, group in seen.groups.items() if not group.is_known}
        listed = {ref.provider for ref in seen.groups}
        unlisted = sum(bool(provider.problem) and name not in listed for name, provider in seen.providers.items())
        self._unknown.set(len(unknown) + unlisted)
        self._backed_off.set(sum(is_active(group.backoff, state.now) for group in groups))
        self._deferred.set(sum(is_deferred(group.deferral, state.now) for group in groups))
        self._unhealthy.set(sum(not group.healthy for group in groups))
        self._full.set(sum((group.seen.target or 0) >= group.seen.group.max_size > 0 for group in groups))
        labels = name_groups(state.groups, self._most)
        self._each = _add_up(groups, labels, unknown, state.now)
        if self._cas is not None:
            self._cas.observe([group for group in groups if labels[group.ref] != OTHERS], state.now)

    def collect(self) -> Iterator[Metric]:
        for name, text in _OF_EACH_GROUP.items():
            family = GaugeMetricFamily(f"{_OWN}_group_{name}", text, labels=("group",))
            for label, value in self._each[name].items():
                family.add_metric((label,), value)
            yield family

    def _gauge(self, name: str, text: str, *labels: str, prefix: str = _CA) -> Gauge:
        return Gauge(f"{prefix}_{name}", text, labels, registry=self._registry)


_OF_EACH_GROUP = {
    "min_size": "Smallest size of a group, in machines.",
    "max_size": "Largest size of a group, in machines.",
    "target_size": "Target size of a group, in machines; absent while it cannot be read.",
    "ready_nodes": "Ready nodes of a group.",
    "upcoming_nodes": "Machines of a group that are on their way.",
    "unhealthy": "1 while a group is not healthy.",
    "in_backoff": "1 while a group is not grown, because it failed or its cloud is busy.",
}


def _add_up(
    groups: Iterable[GroupState], labels: Mapping[GroupRef, str], unknown: AbstractSet[GroupRef], now: float
) -> Mapping[str, Mapping[str, float]]:
    """Return the sum of each metric of _OF_EACH_GROUP for each label."""
    sums: dict[str, dict[str, float]] = {name: {} for name in _OF_EACH_GROUP}
    for group in groups:
        seen, label = group.seen, labels[group.ref]
        values = {
            "min_size": seen.group.min_size,
            "max_size": seen.group.max_size,
            "target_size": None if group.ref in unknown else seen.target,
            "ready_nodes": len(group.readiness.ready),
            "upcoming_nodes": group.upcoming,
            "unhealthy": not group.healthy,
            "in_backoff": is_active(group.backoff, now) or is_deferred(group.deferral, now),
        }
        for name, value in values.items():
            if value is not None:
                sums[name][label] = sums[name].get(label, 0.0) + value
    return sums


class _GaugesOfCa:
    """CA's gauges of single groups."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"{_CA}_node_group_{name}", text, ("node_group", *labels), registry=registry)

        self._minimum = gauge("min_count", "Smallest size.")
        self._maximum = gauge("max_count", "Largest size.")
        self._target = gauge("target_count", "Target size.")
        self._healthy = gauge("healthiness", "1 for a healthy group.")
        self._backoff = gauge("backoff_status", "1 while backed off.", "reason")

    def observe(self, groups: Sequence[GroupState], now: float) -> None:
        for gauge in (self._minimum, self._maximum, self._target, self._healthy, self._backoff):
            gauge.clear()  # drops groups that no longer exist
        for group in groups:
            name, seen = group.ref.group_id, group.seen
            self._minimum.labels(name).set(seen.group.min_size)
            self._maximum.labels(name).set(seen.group.max_size)
            if seen.target is not None:
                self._target.labels(name).set(seen.target)
            self._healthy.labels(name).set(group.healthy)
            backoff = group.backoff
            self._backoff.labels(name, backoff.code if backoff is not None else "").set(is_active(backoff, now))


class LeaseCounts(NamedTuple):
    """``remaining`` in seconds; None without leader election."""

    renewed: int = 0
    failed: int = 0
    remaining: float | None = None


class ProviderCalls(NamedTuple):
    """Calls of one operation with one result."""

    provider: str
    operation: str
    result: str
    calls: int
    seconds: float


def _no_requests() -> Mapping[tuple[str, str, int], int]:
    return {}


def _no_calls() -> tuple[ProviderCalls, ...]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Functions that return the current counts; ``running`` counts how long pods took until they ran.

    ``kube_requests`` counts by verb, resource and HTTP status, ``hooks`` the calls to plugins, ``cloud_calls`` the calls
    of plugins to their clouds, for the plugins that count them.
    """

    kube_requests: Callable[[], Mapping[tuple[str, str, int], int]] = _no_requests
    lease: Callable[[], LeaseCounts] = LeaseCounts
    hooks: Callable[[], tuple[ProviderCalls, ...]] = _no_calls
    cloud_calls: Callable[[], tuple[ProviderCalls, ...]] = _no_calls
    dropped_events: Callable[[], int] = int
    state_writes: Callable[[], int] = int
    running: RunningWaits = field(default_factory=RunningWaits)


class ClientMetrics(Collector):
    """Metrics of the calls to the API server, to plugins and to clouds, and of the lease. It registers itself."""

    def __init__(self, registry: CollectorRegistry, sources: Sources) -> None:
        self._sources = sources
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        yield from self._kube()
        yield from self._lease()
        yield from _calls("hook_calls", "Calls to plugins", self._sources.hooks())
        yield from _calls("cloud_api_calls", "Calls to clouds' APIs", self._sources.cloud_calls())

    def _kube(self) -> Iterator[Metric]:
        requests = _counter(
            "kube_requests", "Requests to the API server; code 0: no response.", "verb", "resource", "code"
        )
        for (verb, resource, code), count in sorted(self._sources.kube_requests().items()):
            requests.add_metric((verb, resource, str(code)), count)
        yield requests
        for name, text, count in (
            ("events_dropped", "Events that the API server did not take in time.", self._sources.dropped_events()),
            ("state_writes", "Writes of the ConfigMaps with the engine's memory.", self._sources.state_writes()),
        ):
            found = _counter(name, text)
            found.add_metric((), count)
            yield found

    def _lease(self) -> Iterator[Metric]:
        counts = self._sources.lease()
        renewals = _counter("lease_renewals", "Attempts to take or renew the lease.", "result")
        renewals.add_metric(("renewed",), counts.renewed)
        renewals.add_metric(("failed",), counts.failed)
        yield renewals
        remaining = GaugeMetricFamily(
            f"{_OWN}_lease_remaining_seconds",
            "Seconds for which no other replica may lead; absent without leader election.",
        )
        if counts.remaining is not None:
            remaining.add_metric((), counts.remaining)
        yield remaining


def _calls(name: str, text: str, found: tuple[ProviderCalls, ...]) -> Iterator[Metric]:
    labels = ("provider", "operation", "result")
    calls = _counter(name, f"{text}.", *labels)
    seconds = _counter(f"{name}_seconds", f"{text}: time spent in them.", *labels)
    for one in found:
        calls.add_metric((one.provider, one.operation, one.result), one.calls)
        seconds.add_metric((one.provider, one.operation, one.result), one.seconds)
    yield calls
    yield seconds


def _counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"{_OWN}_{name}", text, labels=labels)


# Seconds between computations of the bound. One takes about 30 ms for 15,000 nodes with 150,000 pods of 500 shapes.
BOUND_INTERVAL = 60.0


class CostMetrics(Collector):
    """Metrics of costs of one engine; call ``observe`` in each loop. Unknown costs are absent. It registers itself.

    The first ``most`` groups by name have series of their own, the others are added up.
    """

    def __init__(self, registry: CollectorRegistry, most: int) -> None:
        self._most = most
        self._costs: Mapping[str, float] = {}
        self._bound: float | None = None
        self._bound_at = -math.inf
        registry.register(self)

    def observe(self, state: ClusterState, settings: Settings) -> None:
        groups = [group.seen for group in state.groups.values()]
        machines = machines_now(groups)
        costs = hourly_cost(groups, machines).by_group
        labels, sums = name_groups(machines, self._most), dict[str, float]()
        for ref, cost in costs.items():
            if ref in machines:
                sums[labels[ref]] = sums.get(labels[ref], 0.0) + cost
        self._costs = sums
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
