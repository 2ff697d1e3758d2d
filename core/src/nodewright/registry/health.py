"""Is the cluster, is a group, in good enough shape to act on? (behaviour/up.md §2.5, seed S1 and S2)"""

from collections.abc import Iterable

from nodewright.model.settings import LoopSettings
from nodewright.registry.state import GroupState


def is_cluster_healthy(groups: Iterable[GroupState], nodes: int, settings: LoopSettings) -> bool:
    """Unhealthy when more nodes are unready than both the count and the share that are tolerated."""
    unready = sum(len(group.readiness.unready) for group in groups)
    share = settings.max_total_unready_percentage / 100
    return not (unready > settings.ok_total_unready_count and unready > share * nodes)


def is_group_healthy(group: GroupState, settings: LoopSettings) -> bool:
    """Unhealthy when too many of the nodes that should run do not.

    Machines that are upcoming, failed or withdrawn as overdue are no sign of ill health.
    """
    readiness = group.readiness
    failed = sum(failure.count for failure in group.seen.failed or ())
    expected = (group.seen.target or 0) - len(readiness.long_unregistered) - group.upcoming - group.timed_out - failed
    missing = max(0, expected - len(readiness.ready))
    share = settings.max_total_unready_percentage / 100
    return not (missing > settings.ok_total_unready_count and missing > share * readiness.registered)
