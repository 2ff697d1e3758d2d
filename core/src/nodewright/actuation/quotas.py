"""Writes what became of CapacityQuotas into their status; what is not written is written by the next loop."""

from collections.abc import Iterable

from nodewright.actuation.ports import NORMAL, WARNING, ClusterWrites, Event, status_not_written
from nodewright.model.capacity_quota import QUOTA_VALID, CapacityQuota
from nodewright.model.errors import KubeApiError

_KIND = "CapacityQuota"


def write_quotas(cluster: ClusterWrites, quotas: Iterable[CapacityQuota]) -> list[Event]:
    """Answers what there is to tell: quotas that are not enforced, or are again, and writes that failed."""
    events: list[Event] = []
    for quota in quotas:
        try:
            cluster.write_quota_status(quota)
        except KubeApiError as error:
            events.append(status_not_written(_KIND, quota.name, error))
            continue
        said = quota.condition(QUOTA_VALID)
        if said is not None:
            kind, text = (
                (NORMAL, "It is enforced") if said.is_true else (WARNING, f"It is not enforced: {said.message}")
            )
            reason = f"CapacityQuota{said.reason}"
            events.append(Event(kind=_KIND, name=quota.name, reason=reason, message=text, type=kind))
    return events
