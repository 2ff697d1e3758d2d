"""Machines that are late: which upcoming machines the plan does not count on, and when a late machine is deleted.

The plan does not count on machines of groups that are silent or on probation (docs/adr/0022-hedging.md). The deadlines
of late machines are described in docs/adr/0011-late-machines.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from nodewright.clusterstate.backoff import allowance, is_active
from nodewright.clusterstate.provision_times import MARGIN, usual_time
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.duration import format_duration
from nodewright.model.group import GroupRef
from nodewright.model.policy import Policy
from nodewright.model.settings import FailureSettings


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
    """Return the groups with machines under way that are silent, on probation or hedged.

    A group counts as hedged until the hedge's machines arrive or it is withdrawn, even if one of its own machines comes.
    Zero-or-max groups and groups with an atomic request are left out.
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


# How many provision times a machine gets after it was first seen: the first number, or the second if other machines of
# its group have registered since.
_ALONE, _AMONG_OTHERS = 2, 4


def registration_deadlines(group: GroupState, state: ClusterState, policy: Policy) -> dict[str, float]:
    """Return when each machine that is long unregistered must be a node (epoch seconds), by its id; then it is deleted.

    After one provision time its pods go elsewhere; the machine itself gets more time. It gets no more with the rules ca
    and seed, or if the group is full and pods wait for another machine of it.
    """
    if not group.readiness.long_unregistered:
        return {}
    ordinary = state.observation.groups[group.ref].options.max_node_provision_seconds
    is_patient = policy.waits_for_late_machines and not _takes_a_wanted_place(group, state)
    joined = last_registered(group, state) if is_patient else 0.0
    ends = dict[str, float]()
    for instance_id in group.readiness.long_unregistered:
        since = state.memory.unregistered_since.get((group.ref, instance_id), 0.0)
        times = (_AMONG_OTHERS if joined > since else _ALONE) if is_patient else 1
        ends[instance_id] = since + times * ordinary
    return ends


def startup_deadlines(group: GroupState, state: ClusterState) -> dict[str, float]:
    """Return when each node that never became ready must be ready (epoch seconds), by its name; then it is deleted.

    It gets its group's startup time from its registration, multiplied as for the registration of a machine.
    """
    if not group.readiness.never_ready:
        return {}
    snapshot, ordinary = state.observation.snapshot, group.seen.options.max_node_startup_seconds
    is_patient = not _takes_a_wanted_place(group, state)
    started = max((snapshot.node(snapshot.row(name)).created for name in group.readiness.ready), default=0.0)
    ends = dict[str, float]()
    for name in group.readiness.never_ready:
        created = snapshot.node(snapshot.row(name)).created
        times = (_AMONG_OTHERS if started > created else _ALONE) if is_patient else 1
        ends[name] = created + times * ordinary
    return ends


def _takes_a_wanted_place(group: GroupState, state: ClusterState) -> bool:
    """Return whether pods are pending and the group is full, but not in backoff."""
    is_full = (group.seen.target or 0) >= group.seen.group.max_size
    return is_full and bool(state.observation.pending) and not is_active(group.backoff, state.now)


def last_registered(group: GroupState, state: ClusterState) -> float:
    """Return when the youngest node of the group registered (epoch seconds; 0: unknown)."""
    members = state.memory.members
    nodes = members.nodes.get(group.ref, ()) if members is not None else ()
    return max((node.created for node in nodes), default=0.0)
