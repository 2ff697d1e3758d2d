"""Is the cluster, is a group, in good enough shape to act on? (behaviour/up.md §2.5, seed S1 and S2)"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nodewright.clusterstate.backoff import is_active
from nodewright.clusterstate.state import Backoff, GroupState, Readiness, UnhealthyCluster, has_resumed
from nodewright.model.group import GroupRef
from nodewright.model.settings import LoopSettings, Settings
from nodewright.model.timestamps import format_moment

_MOST_NAMED = 5
# Unready nodes of up to that share of the rest of an unhealthy cluster are a few: more, and no group explains the failure.
_FEW = 0.1


class _Counts(NamedTuple):
    """Nodes that should run, and how many of them do not.

    Nodes that never became ready after a scale-up are none of them: the scale-up failed, which has its own remedies.
    """

    unready: int
    nodes: int

    def is_tolerated(self, settings: LoopSettings) -> bool:
        """Return False where more are unready than both the count and the share that are tolerated."""
        return not (self.unready > settings.ok_total_unready_count and self.exceeds_share(settings))

    def are_few(self, settings: LoopSettings) -> bool:
        """Return whether so few are unready that it says nothing of the cluster."""
        return self.is_tolerated(settings) and self.unready <= max(settings.ok_total_unready_count, _FEW * self.nodes)

    def exceeds_share(self, settings: LoopSettings) -> bool:
        return self.unready > settings.max_total_unready_percentage / 100 * self.nodes


def is_group_healthy(readiness: Readiness, settings: LoopSettings) -> bool:
    """Unhealthy when too many of the nodes that should run do not.

    Machines that are upcoming, failed, given up, never registered or never ready are no sign of ill health: they have
    their own remedies.
    """
    never = len(readiness.never_ready)
    return _Counts(len(readiness.unready) - never, readiness.registered - never).is_tolerated(settings)


def find_unhealthy(
    groups: Mapping[GroupRef, GroupState],
    strangers: Sequence[str],
    held: UnhealthyCluster | None,
    settings: Settings,
    now: float,
) -> UnhealthyCluster | None:
    """Return what is wrong with the cluster, None while it is healthy.

    ``strangers`` are the classes of the nodes of no group, ``held`` is what was wrong in the last loop.
    """
    loop = settings.loop
    counts = {ref: _count(group.readiness) for ref, group in groups.items()}
    outside = _Counts(strangers.count("unready"), len(strangers))
    whole = _add([outside, *counts.values()])
    if whole.is_tolerated(loop):
        return None
    since = min(held.since, now) if held is not None else now
    at_fault = tuple(ref for ref, group in groups.items() if _is_at_fault(group.backoff, counts[ref], loop, now))
    rest = _add([outside, *(counts[ref] for ref in groups if ref not in at_fault)])
    resumes = settings.size_correction == "prompt" and len(at_fault) < len(groups) and rest.are_few(loop)
    return UnhealthyCluster(
        since=since,
        unready=whole.unready,
        nodes=whole.nodes,
        tolerated=max(loop.ok_total_unready_count, math.floor(loop.max_total_unready_percentage / 100 * whole.nodes)),
        at_fault=at_fault,
        resumes_at=since + loop.max_unhealthy_duration if resumes else 0.0,
    )


def describe_unhealthy(unhealthy: UnhealthyCluster, now: float) -> str:
    """Return one sentence: what is wrong, what is not done because of it, and what ends that."""
    counted = f"{unhealthy.unready} of {unhealthy.nodes} nodes are not ready, and {unhealthy.tolerated} may be"
    named = [str(ref) for ref in unhealthy.at_fault[:_MOST_NAMED]]
    more = len(unhealthy.at_fault) - len(named)
    others = f"groups other than {', '.join(named)}" + (f" and {more} more" if more else "")
    if has_resumed(unhealthy, now):
        return f"cluster is unhealthy: {counted}; only {others} are planned for until fewer are not ready"
    end = "nothing is planned until fewer are not ready"
    if unhealthy.resumes_at:
        end += f", or for {others} until {format_moment(unhealthy.resumes_at)}"
    return f"cluster is unhealthy: {counted}; {end}"


def _is_at_fault(backoff: Backoff | None, counts: _Counts, settings: LoopSettings, now: float) -> bool:
    """Return whether a group is to blame: too large a share of its nodes is unready, or it is backed off as well."""
    return counts.unready > 0 and (counts.exceeds_share(settings) or is_active(backoff, now))


def _count(readiness: Readiness) -> _Counts:
    """Count a group's nodes, those whose machines go included, as CA does."""
    never = len(readiness.never_ready)
    return _Counts(len(readiness.unready) - never, readiness.registered + len(readiness.deleted) - never)


def _add(counts: Sequence[_Counts]) -> _Counts:
    return _Counts(sum(one.unready for one in counts), sum(one.nodes for one in counts))
