"""The fold: what was known, what is seen now and how calls ended become the state of the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nodewright.model.action import Outcome
from nodewright.model.group import GroupRef
from nodewright.model.settings import Settings
from nodewright.registry.backoff import without_stale
from nodewright.registry.failures import Failure, after_increases, backed_off, failed_instances, refused, timed_out
from nodewright.registry.health import is_cluster_healthy, is_group_healthy
from nodewright.registry.nodes import Membership, find_members, sort_readiness, unregistered_ids
from nodewright.registry.requests import Requests, settled, split_overdue, without
from nodewright.registry.samples import learn_samples
from nodewright.registry.state import ClusterState, GroupState, Memory, Readiness
from nodewright.snapshot.observation import GroupSeen, Observation


def fold(memory: Memory, seen: Observation, outcomes: Sequence[Outcome], settings: Settings) -> ClusterState:
    """The state of the cluster at ``seen.now``. Pure: the same arguments give the same state."""
    groups = {ref: _known(group, memory.last_known) for ref, group in seen.groups.items()}
    nodes = [node for _, node in seen.snapshot.nodes()]
    members = find_members(nodes, groups, seen.providers)
    since = _unregistered_since(memory, groups, members, seen.now)
    requests = after_increases(memory.requests, outcomes, groups)
    failures = refused(outcomes) + failed_instances(groups.values(), memory.seen_failures)
    states: dict[GroupRef, GroupState] = {}
    for ref, group in groups.items():
        readiness = sort_readiness(group, members, since, settings, seen.now)
        states[ref] = _judge(group, readiness, requests.get(ref, ()), memory, settings, seen.now)
        if states[ref].timed_out:
            failures.append(timed_out(ref, states[ref].timed_out))
    return _conclude(_Findings(seen, states, members, since, failures), memory, settings)


@dataclass(frozen=True)
class _Findings:
    """What one fold found out, group by group."""

    seen: Observation
    states: Mapping[GroupRef, GroupState]
    members: Membership
    since: Mapping[tuple[GroupRef, str], float]
    failures: list[Failure]


def _known(group: GroupSeen, last_known: Mapping[GroupRef, GroupSeen]) -> GroupSeen:
    """An Unknown group as it was when it could last be read."""
    return group if group.is_known else last_known.get(group.ref, group)


def _unregistered_since(
    memory: Memory, groups: Mapping[GroupRef, GroupSeen], members: Membership, now: float
) -> dict[tuple[GroupRef, str], float]:
    return {
        (ref, instance_id): memory.unregistered_since.get((ref, instance_id), now)
        for ref, group in groups.items()
        for instance_id in unregistered_ids(group, members)
    }


def _judge(
    group: GroupSeen, readiness: Readiness, requests: Requests, memory: Memory, settings: Settings, now: float
) -> GroupState:
    """One group: what is upcoming, what is overdue, and whether it is well."""
    failures = group.failed or ()
    new = tuple(f for f in failures if (group.ref, f.failure_id) not in memory.seen_failures)
    present = len(readiness.ready) + len(readiness.unready) + len(readiness.long_unregistered)
    owed = max(0, (group.target or 0) - present - sum(failure.count for failure in failures))
    requests = without(requests, sum(failure.count for failure in new))
    requests = settled(requests, owed, now, group.options.max_node_provision_seconds)
    requests, overdue = split_overdue(requests, now)
    judged = GroupState(
        seen=group,
        readiness=readiness,
        upcoming=owed - overdue,
        timed_out=overdue,
        requests=requests,
        new_failures=new,
    )
    return replace(judged, healthy=is_group_healthy(judged, settings.loop))


def _conclude(found: _Findings, memory: Memory, settings: Settings) -> ClusterState:
    """The state of the cluster, and what is remembered of it."""
    seen = found.seen
    groups = {ref: state.seen for ref, state in found.states.items()}
    backoffs = without_stale(memory.backoffs, settings.failures, seen.now)
    backoffs = backed_off(backoffs, found.failures, groups, settings.failures, seen.now)
    states = {ref: replace(state, backoff=backoffs.get(ref)) for ref, state in found.states.items()}
    failure_ids = {(ref, failure.failure_id) for ref, group in groups.items() for failure in group.failed or ()}
    remembered = Memory(
        requests={ref: state.requests for ref, state in states.items() if state.requests},
        backoffs=backoffs,
        unregistered_since=found.since,
        seen_failures=frozenset(failure_ids),
        samples=learn_samples(memory.samples, found.members, groups, seen, settings),
        last_known={ref: group for ref, group in groups.items() if group.is_known},
    )
    return ClusterState(
        observation=seen,
        memory=remembered,
        groups=states,
        group_of_node=found.members.group_of_node,
        healthy=is_cluster_healthy(states.values(), len(found.members.group_of_node), settings.loop),
    )
