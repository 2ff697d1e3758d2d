"""Groups that are silent or on probation: planning does not count on their upcoming machines (docs/adr/0022-hedging.md)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from nodewright.clusterstate.backoff import allowance
from nodewright.clusterstate.provision_times import MARGIN, usual_time
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.duration import format_duration
from nodewright.model.group import GroupRef
from nodewright.model.policy import Policy
from nodewright.model.settings import FailureSettings
from nodewright.planner.late_machines import last_registered


@dataclass(frozen=True, kw_only=True)
class Silence:
    """Upcoming machines of one group that are not counted on.

    ``asked``: when the first of them were asked for (epoch seconds). ``reason``: why they may not come. ``is_silent``:
    none came for longer than usual, so pods go to other groups if they can.
    """

    machines: int
    asked: float
    reason: str
    is_silent: bool = False


def find_silent(state: ClusterState, settings: FailureSettings, policy: Policy) -> dict[GroupRef, Silence]:
    """Return the groups that are silent or on probation with machines under way, and those that are hedged.

    A hedge holds until its machines arrive or it is over: one machine of the group does not bring the others.
    Zero-or-max groups and groups with reserved machines are left out.
    """
    if not policy.doubts_silent_groups:
        return {}
    hedged_at = _find_hedged(state)
    found = {}
    for ref, group in state.groups.items():
        is_whole = group.seen.options.zero_or_max_node_scaling or any(request.atomic for request in group.requests)
        if not group.requests or is_whole:
            continue
        silence = _doubt(group, state, settings, policy, hedged_at.get(ref, -math.inf))
        if silence is not None:
            found[ref] = silence
    return found


def silence_deadlines(state: ClusterState, settings: FailureSettings, policy: Policy) -> Iterator[float]:
    """Yield when each group with machines under way becomes silent (epoch seconds)."""
    if policy.hedges:
        for group in state.groups.values():
            if group.requests:
                yield _quiet_since(group, state) + _usual_seconds(group.ref, state, settings)


def _find_hedged(state: ClusterState) -> dict[GroupRef, float]:
    """Return when the last hedge under way for each group was bought (epoch seconds)."""
    found: dict[GroupRef, float] = {}
    for group in state.groups.values():
        for request in group.requests:
            for ref in request.hedge_for:
                found[ref] = max(found.get(ref, -math.inf), request.started)
    return found


def _doubt(
    group: GroupState, state: ClusterState, settings: FailureSettings, policy: Policy, hedged_at: float
) -> Silence | None:
    since = _quiet_since(group, state)
    is_silent = policy.hedges and since + _usual_seconds(group.ref, state, settings) < state.now
    probed_after = _probed_after(group, state, policy)
    requests = [
        request
        for request in group.requests
        if is_silent or request.started <= hedged_at or request.started > probed_after
    ]
    under_way = max(0, group.upcoming - len(group.readiness.not_started))
    machines = min(under_way, sum(request.increase for request in requests))
    if not machines:
        return None
    asked = min(request.started for request in requests)
    if is_silent or asked <= probed_after:
        reason = f"has been silent for {format_duration(round(state.now - since))}"
    else:
        reason = "is on probation after a failure"
    return Silence(machines=machines, asked=asked, reason=reason, is_silent=is_silent)


def _probed_after(group: GroupState, state: ClusterState, policy: Policy) -> float:
    """Return since when a group's requests are probes (epoch seconds); infinity if it is not on probation."""
    backoff = group.backoff
    if backoff is None or not policy.probes_after_backoff or allowance(backoff, state.now) is None:
        return math.inf
    return backoff.until


def _quiet_since(group: GroupState, state: ClusterState) -> float:
    """Return when the group last delivered a node, or when its oldest open request was made if that is later."""
    return max(min(request.started for request in group.requests), min(last_registered(group, state), state.now))


def _usual_seconds(ref: GroupRef, state: ClusterState, settings: FailureSettings) -> float:
    """Return how long machines of a group usually take at most, in seconds.

    It is the 99th percentile of its own arrivals, else that of its provider's other groups, else ``--hedging-delay``.
    If the provider sets the group's provision time, it is that time without the margin of a learned one.
    """
    said = state.observation.groups[ref].options.max_node_provision_seconds
    if said != settings.ordinary_provision_seconds:
        return said / MARGIN
    histories = state.memory.arrivals
    own = histories.get(ref)
    usual = usual_time([own]) if own is not None and own.held else None
    if usual is None:
        usual = usual_time(held for other, held in histories.items() if other.provider == ref.provider)
    return settings.hedging_delay if usual is None else max(usual, settings.min_learned_provision_time)
