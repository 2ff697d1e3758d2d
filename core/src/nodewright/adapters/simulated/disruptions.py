"""Disruption budgets of a simulated cluster: what the disruption controller says of them at any moment."""

from collections.abc import Iterable
from dataclasses import dataclass

from nodewright.adapters.simulated.cluster import SimulatedPod
from nodewright.model.cluster import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from nodewright.model.meta import LabelSelector, ObjectMeta
from nodewright.model.pod import Pod
from nodewright.predicates.selectors import parse_selector

IntOrPercent = int | str


@dataclass(frozen=True, kw_only=True)
class BudgetRule:
    """One budget: of ``min_available`` and ``max_unavailable`` (pods, or text like ``25%``) exactly one is given."""

    name: str
    namespace: str = "default"
    selector: LabelSelector
    min_available: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None

    def covers(self, pod: Pod) -> bool:
        if pod.metadata.namespace != self.namespace:
            return False
        selector = parse_selector(self.selector)
        return selector is not None and selector.matches(pod.metadata.labels)


def as_object(rule: BudgetRule, pods: Iterable[SimulatedPod]) -> PodDisruptionBudget:
    """The budget with what it allows now, given all pods that there are. A pod that is ending counts no more."""
    covered = [held for held in pods if not held.is_ending and rule.covers(held.pod)]
    healthy = sum(bool(held.node) for held in covered)
    if rule.min_available is not None:
        wanted = _count(rule.min_available, len(covered))
    else:
        wanted = len(covered) - _count(rule.max_unavailable or 0, len(covered))
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=rule.name, namespace=rule.namespace),
        spec=PodDisruptionBudgetSpec(selector=rule.selector),
        status=PodDisruptionBudgetStatus(disruptions_allowed=max(0, healthy - wanted)),
    )


def _count(amount: IntOrPercent, expected: int) -> int:
    """Pods; a share is rounded up, as Kubernetes does in both directions."""
    return amount if isinstance(amount, int) else -(-expected * int(amount.removesuffix("%")) // 100)
