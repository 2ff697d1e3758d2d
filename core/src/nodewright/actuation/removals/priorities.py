"""The order in which the pods of a node are evicted (behaviour/down.md A14; CA's ``--drain-priority-config``)."""

from collections.abc import Iterable

from nodewright.model.limits import DrainRank, parse_drain_priorities
from nodewright.model.pod import Pod
from nodewright.model.settings import DrainSettings

_HIGHEST = 2**31 - 1


def find_ranks(settings: DrainSettings) -> tuple[DrainRank, ...]:
    """Those in force: without a configuration one for all pods."""
    return parse_drain_priorities(settings.drain_priority_config) or (
        DrainRank(_HIGHEST, settings.max_graceful_termination_sec),
    )


def sort_into(ranks: tuple[DrainRank, ...], pods: Iterable[Pod]) -> list[tuple[DrainRank, list[Pod]]]:
    """Each rank that has pods with its pods, lowest first; below the lowest rank counts as of it."""
    found: dict[DrainRank, list[Pod]] = {}
    for pod in pods:
        priority = pod.spec.priority or 0
        own = next((rank for rank in reversed(ranks) if rank.priority <= priority), ranks[0])
        found.setdefault(own, []).append(pod)
    return sorted(found.items())
