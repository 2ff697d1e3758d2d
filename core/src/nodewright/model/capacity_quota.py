"""CapacityQuota objects, which limit the total resources of some nodes. Names are those of CA's API."""

from nodewright.model.meta import Condition, Kube, LabelSelector, Object, find_condition

QUOTA_VALID = "cluster-autoscaler.kubernetes.io/valid"
RECONCILED = "Reconciled"


class QuotaAmounts(Kube, frozen=True, kw_only=True):
    """Amounts as the user wrote them. An invalid amount must not prevent reading the others."""

    resources: dict[str, str | int | float] = {}


class CapacityQuotaSpec(Kube, frozen=True, kw_only=True):
    """The limits for the total of all nodes that ``selector`` matches; None: all nodes of the cluster."""

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
        """Return the name that CA uses for the quota in messages."""
        return f"CapacityQuota/{self.name}"

    def condition(self, kind: str) -> Condition | None:
        return find_condition(self.status.conditions, kind)
