"""What is measured of nodes over several loops: their taints, and how long they were unneeded before they went."""

from collections import Counter

from prometheus_client import CollectorRegistry, Gauge, Histogram

from nodewright.clusterstate.readiness import STATUS_PREFIX, is_startup_taint
from nodewright.clusterstate.state import ClusterState
from nodewright.model.node import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT
from nodewright.model.settings import TemplateSettings
from nodewright.planner.plan import Plan

_OWN_KEYS = (TO_BE_DELETED_TAINT, DELETION_CANDIDATE_TAINT)
_SYSTEM_PREFIX = "node.kubernetes.io/"
_FIRST_SECONDS, _FACTOR, _STEPS = 1.0, 1.5, 19


class NodeMetrics:
    """Of one engine; ``observe`` each loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._taints = Gauge(
            "cluster_autoscaler_node_taints_count", "Taints of all nodes by type.", ("type",), registry=registry
        )
        self._latency = Histogram(
            "cluster_autoscaler_node_removal_latency_seconds",
            "How long nodes were unneeded until they went, or were needed again.",
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
        """A node that is being removed is unneeded until it is gone."""
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
    """Keys of Kubernetes and of autoscalers as they are; of all others only what they mean, for there may be many."""
    if key in _OWN_KEYS or key.startswith(_SYSTEM_PREFIX):
        return key
    if is_startup_taint(key, settings):
        return "startup-taint"
    if key.startswith(STATUS_PREFIX) or key in settings.status_taint:
        return "status-taint"
    return "unlisted"
