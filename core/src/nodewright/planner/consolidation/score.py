"""Score a move: its share of the pool's price against its share of the pool's disruption.

Karpenter's policy Balanced weighs them in the same way. The pool is all nodes of groups with a price. The eviction of a pod
counts more if its priority or its ``controller.kubernetes.io/pod-deletion-cost`` is higher. Each node counts like one more
pod.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from nodewright.model.pod import Pod
from nodewright.planner.capacity_buffers.pods import is_virtual

DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
# The least score of a move: its share of the savings is at least this part of its share of the disruption.
LEAST_SCORE = 0.5
# A move that evicts pods saves at least this part of the price of the pool.
LEAST_SHARE = 0.01
# The disruption of removing a node besides its pods, in evictions of ordinary pods.
NODE_DISRUPTION = 1.0
_COST_UNIT, _PRIORITY_UNIT = 2.0**27, 2.0**25
_MOST = 10.0


class PoolTotals(NamedTuple):
    """The price of all nodes of the pool in USD an hour, and the disruption if all of them were removed."""

    price: float
    disruption: float

    def score(self, savings: float, disruption: float) -> float:
        """Return the share of savings over the share of disruption."""
        if self.price <= 0 or disruption <= 0:
            return 0.0
        return (savings / self.price) / (disruption / self.disruption)

    @property
    def rate(self) -> float:
        """Return the price for each unit of disruption."""
        return self.price / self.disruption if self.disruption > 0 else 0.0


def disruption_of(pods: Iterable[Pod]) -> float:
    """Return the disruption of evicting these pods. DaemonSet pods, static pods and virtual pods are not evicted."""
    return sum(_eviction_cost(pod) for pod in pods if not (pod.is_daemonset_pod or pod.is_mirror or is_virtual(pod)))


def _eviction_cost(pod: Pod) -> float:
    text = pod.metadata.annotations.get(DELETION_COST_ANNOTATION, "")
    cost = 1.0 + (pod.spec.priority or 0) / _PRIORITY_UNIT
    with suppress(ValueError):
        cost += float(int(text)) / _COST_UNIT if text else 0.0
    return min(max(cost, 0.0), _MOST)
