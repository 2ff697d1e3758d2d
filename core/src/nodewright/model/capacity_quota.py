"""Limits of what nodes of some kind may amount to (behaviour/up.md §6.3): the API's words, as CA knows them."""

from nodewright.model.condition import Condition, find_condition
from nodewright.model.meta import Kube, LabelSelector, Object

QUOTA_VALID = "cluster-autoscaler.kubernetes.io/valid"
RECONCILED = "Reconciled"


class QuotaAmounts(Kube, frozen=True, kw_only=True):
    """Amounts as somebody wrote them: one that is no quantity must not keep the others from being read."""

    resources: dict[str, str | int | float] = {}


class CapacityQuotaSpec(Kube, frozen=True, kw_only=True):
    """The most that all nodes together may have that ``selector`` chooses; without one, all nodes of the cluster."""

    selector: LabelSelector | None = None
    limits: QuotaAmounts = QuotaAmounts()


class CapacityQuotaStatus(Kube, frozen=True, kw_only=True):
    used: QuotaAmounts | None = None
    conditions: tuple[Condition, ...] = ()
    observed_generation: int = 0


class CapacityQuota(Object, frozen=True, kw_only=True):
    """One limit of the whole cluster."""

    spec: CapacityQuotaSpec = CapacityQuotaSpec()
    status: CapacityQuotaStatus = CapacityQuotaStatus()

    @property
    def id(self) -> str:
        """How CA calls it beside the limits of the flags."""
        return f"CapacityQuota/{self.name}"

    def condition(self, kind: str) -> Condition | None:
        return find_condition(self.status.conditions, kind)
