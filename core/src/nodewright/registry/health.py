"""Is the cluster, is a group, in good enough shape to act on? (behaviour/up.md §2.5, seed S1 and S2)"""

from nodewright.model.settings import LoopSettings
from nodewright.registry.state import Readiness


def is_cluster_healthy(unready: int, nodes: int, settings: LoopSettings) -> bool:
    """Unhealthy when more nodes are unready than both the count and the share that are tolerated."""
    share = settings.max_total_unready_percentage / 100
    return not (unready > settings.ok_total_unready_count and unready > share * nodes)


def is_group_healthy(readiness: Readiness, settings: LoopSettings) -> bool:
    """Unhealthy when too many of the nodes that should run do not.

    Machines that are upcoming, failed, given up or never registered are no sign of ill health: they have their
    own remedies.
    """
    unwell = len(readiness.unready)
    share = settings.max_total_unready_percentage / 100
    return not (unwell > settings.ok_total_unready_count and unwell > share * readiness.registered)
