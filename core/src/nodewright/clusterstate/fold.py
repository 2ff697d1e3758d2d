"""The fold: memory, an observation and the outcomes of calls become the state of the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nodewright.clusterstate.backoff import (
    after_deliveries,
    backed_off,
    deferrals_after,
    without_probation,
    without_stale,
)
from nodewright.clusterstate.deletions import (
    find_never_ran,
    recent_deletions,
    tried_deletions,
    verify_deletions,
    with_most_nodes,
)
from nodewright.clusterstate.drift import note_templates
from nodewright.clusterstate.interruptions import find_notices, interrupted_nodes
from nodewright.clusterstate.late_devices import find_late_nodes, find_published_nodes
from nodewright.clusterstate.learned_templates import Learned, end_pauses, find_news, learn_templates
from nodewright.clusterstate.membership import Membership, find_members, unregistered_ids
from nodewright.clusterstate.memory import ArrivalHistory, Backoff, Deferral, Memory, ProvisioningMemory
from nodewright.clusterstate.node_samples import update_samples
from nodewright.clusterstate.observed_groups import (
    find_empty_since,
    known_groups,
    refused_creations,
    remember_ran,
    with_evidence,
    with_own_writes,
)
from nodewright.clusterstate.provision_times import after_timeouts, learn_provision_times, with_patience
from nodewright.clusterstate.purchases import without_old
from nodewright.clusterstate.readiness import ReadinessRules, class_of, find_unhealthy, sort_readiness
from nodewright.clusterstate.requests import find_arrived
from nodewright.clusterstate.reservations import FoldContext, SettledReservations, settle_reservations
from nodewright.clusterstate.rules.ca import evaluate_ca
from nodewright.clusterstate.rules.prompt import evaluate_prompt
from nodewright.clusterstate.rules.seed import evaluate_seed
from nodewright.clusterstate.scale_down_activity import with_activity
from nodewright.clusterstate.state import ClusterState, GroupContext, GroupState, Rule
from nodewright.model.action import Outcome
from nodewright.model.group import GroupRef, Machine
from nodewright.model.removal import RemovalEnded
from nodewright.model.settings import Settings, SizeCorrection
from nodewright.snapshot.observation import GroupSeen, Observation

_RULES: Mapping[SizeCorrection, Rule] = {"prompt": evaluate_prompt, "ca": evaluate_ca, "seed": evaluate_seed}


@dataclass(frozen=True)
class _Findings:
    """The results of one fold, before they are remembered."""

    seen: Observation
    states: Mapping[GroupRef, GroupState]
    members: Membership
    since: Mapping[Machine, float]
    arrivals: Mapping[GroupRef, ArrivalHistory]
    tried: Mapping[Machine, float]
    provisioning: ProvisioningMemory
    empty_since: Mapping[GroupRef, float]
    deferrals: Mapping[GroupRef, Deferral]
    vanished: Mapping[GroupRef, tuple[str, ...]]

    @property
    def groups(self) -> dict[GroupRef, GroupSeen]:
        return {ref: state.seen for ref, state in self.states.items()}


def fold(
    memory: Memory,
    seen: Observation,
    outcomes: Sequence[Outcome],
    settings: Settings,
    ended: Sequence[RemovalEnded] = (),
) -> ClusterState:
    """Return the state of the cluster at ``seen.now``.

    ``outcomes`` and ``ended`` arrived since the last fold. Pure: the same arguments give the same state.
    """
    if settings.policy.spares_machines_that_ran:
        seen = with_evidence(seen, memory)
    memory, vanished = _caught_up(memory, seen, outcomes, ended, settings)
    groups = known_groups(seen, memory, settings.policy)
    nodes = seen.snapshot.live_nodes()
    unread = frozenset(ref for ref, group in seen.groups.items() if not group.is_known)
    members = find_members(nodes, groups, seen.providers, memory.node_groups, memory.members, unread)
    members = members.with_devices(
        _late_nodes(members, groups, memory, seen, settings),
        find_published_nodes(nodes, members.accelerators, seen.snapshot.context),
    )
    since = _unregistered_since(memory, groups, members, seen.now)
    arrivals = learn_provision_times(memory, groups.values(), members, outcomes, settings.failures, seen.now)
    groups = with_patience(groups, arrivals, settings.failures, seen.now)
    context = FoldContext(
        seen=seen.groups,
        groups=groups,
        members=members,
        since=since,
        memory=memory,
        templates=settings.templates,
        policy=settings.policy,
        now=seen.now,
    )
    settled = _settle_reservations(context, outcomes)
    states = _evaluate_groups(context, outcomes, settled, settings)
    arrivals = after_timeouts(arrivals, states.values(), memory, settings.failures, seen.now)
    tried = tried_deletions(memory, groups, outcomes) if settings.policy.rests_failed_deletions else {}
    provisioning = replace(memory.provisioning, reservations=settled.reservations)
    empty = find_empty_since(memory, states, seen.groups, members, outcomes, seen.now)
    deferrals = deferrals_after(memory.deferrals, outcomes, seen.now)
    found = _Findings(seen, states, members, since, arrivals, tried, provisioning, empty, deferrals, vanished)
    state = _conclude(found, _backoffs(found, outcomes, memory, settings), memory, settings)
    return replace(state, ended=tuple(ended))


def _caught_up(
    memory: Memory,
    seen: Observation,
    outcomes: Sequence[Outcome],
    ended: Sequence[RemovalEnded],
    settings: Settings,
) -> tuple[Memory, Mapping[GroupRef, tuple[str, ...]]]:
    """Return the memory after our own writes and removals, and the machines that disappeared without a request."""
    activity = with_activity(memory.scale_down, seen, outcomes, ended, settings.scale_down, settings.policy)
    memory = replace(with_own_writes(memory, seen, outcomes), scale_down=activity)
    if not settings.policy.quarantines_groups:
        return memory, {}
    scale_down, vanished = verify_deletions(memory, seen.groups, outcomes, ended, seen.now)
    return replace(memory, scale_down=scale_down), vanished


def _late_nodes(
    members: Membership, groups: Mapping[GroupRef, GroupSeen], memory: Memory, seen: Observation, settings: Settings
) -> frozenset[str]:
    samples = {ref: sample.node.name for ref, sample in memory.samples.items()}
    young_since = seen.now - settings.failures.max_node_startup_time
    return find_late_nodes(members.nodes, groups, samples, memory.learned, seen.snapshot.context, young_since)


def _settle_reservations(context: FoldContext, outcomes: Sequence[Outcome]) -> SettledReservations:
    """Return the reservations after what happened since; none if the policy does not track them."""
    if not context.policy.tracks_reservations:
        return SettledReservations(reservations={})
    return settle_reservations(context, outcomes)


def _evaluate_groups(
    context: FoldContext, outcomes: Sequence[Outcome], settled: SettledReservations, settings: Settings
) -> dict[GroupRef, GroupState]:
    """Return the state of each group by the configured rule (--size-correction)."""
    memory, members, now = context.memory, context.members, context.now
    with_late = replace(memory, late=memory.late | settled.late)
    rules = ReadinessRules(
        templates=settings.templates,
        first_backoff=settings.failures.initial_node_group_backoff_duration,
        is_prompt=settings.policy.recognizes_never_ready_nodes,
    )
    evaluate = _RULES[settings.policy.rule]
    states: dict[GroupRef, GroupState] = {}
    for ref, group in context.groups.items():
        if _is_idle(group, members, memory, outcomes):
            states[ref] = GroupState(seen=group)
            continue
        of_group = GroupContext(
            seen=group,
            readiness=sort_readiness(group, members, context.since, with_late, rules, now),
            outcomes=tuple(outcome for outcome in outcomes if outcome.action.group == ref),
            memory=memory,
            loop=settings.loop,
            now=now,
            arrived=sum((ref, machine) not in memory.late for machine in find_arrived(group, members, memory)),
            shortfall=settled.shortfalls.get(ref),
        )
        states[ref] = evaluate(of_group)
    return states


def _is_idle(group: GroupSeen, members: Membership, memory: Memory, outcomes: Sequence[Outcome]) -> bool:
    """Return whether a group is empty and nothing was asked of it: nothing needs evaluation. Most groups are idle."""
    if group.target != 0 or group.instances or group.failed or group.ref in members.nodes:
        return False
    remembered = (memory.requests, memory.given_up, memory.withdrawn_at, memory.size_gaps)
    return not any(group.ref in held for held in remembered) and all(o.action.group != group.ref for o in outcomes)


def _unregistered_since(
    memory: Memory, groups: Mapping[GroupRef, GroupSeen], members: Membership, now: float
) -> dict[Machine, float]:
    return {
        (ref, instance_id): memory.unregistered_since.get((ref, instance_id), now)
        for ref, group in groups.items()
        for instance_id in unregistered_ids(group, members)
    }


def _backoffs(
    found: _Findings, outcomes: Sequence[Outcome], memory: Memory, settings: Settings
) -> dict[GroupRef, Backoff]:
    """Return the backoffs after this loop's failures and deliveries."""
    now = found.seen.now
    failures = [failure for state in found.states.values() for failure in state.failures]
    failures += refused_creations(outcomes, found.groups)
    backoffs = without_stale(memory.backoffs, settings.failures, now)
    backoffs = backed_off(backoffs, failures, found.groups, settings.failures)
    if not settings.policy.probes_after_backoff:
        return without_probation(backoffs)
    return after_deliveries(backoffs, memory, outcomes, found.states, found.members, now)


def _conclude(
    found: _Findings, backoffs: Mapping[GroupRef, Backoff], memory: Memory, settings: Settings
) -> ClusterState:
    """Return the state of the cluster, and what is remembered of it."""
    now = found.seen.now
    states = {
        ref: replace(state, backoff=backoffs[ref]) if ref in backoffs else state for ref, state in found.states.items()
    }
    states |= {ref: replace(states[ref], deferral=held) for ref, held in found.deferrals.items() if ref in states}
    states |= {ref: replace(states[ref], vanished=machines) for ref, machines in found.vanished.items()}
    nodes_without_group = [
        class_of(node, settings.templates, settings.failures.max_node_startup_time, now, found.members.accelerators)
        for node in found.members.nodes_without_group
    ]
    learned = learn_templates(memory, found.members, found.groups, found.seen, settings.templates, settings.policy)
    templates = note_templates(memory.templates, found.seen, settings.renewal, settings.templates)
    notices = find_notices(memory.notices, found.seen, found.members, settings.interruptions, settings.policy)
    unhealthy = find_unhealthy(states, nodes_without_group, memory.unhealthy, settings.loop, settings.policy, now)
    return ClusterState(
        observation=found.seen,
        memory=replace(
            _remember(found, backoffs, learned, memory, settings),
            unhealthy=unhealthy,
            notices=notices,
            templates=templates,
        ),
        groups=states,
        group_of_node=found.members.group_of_node,
        interrupted=interrupted_nodes(notices, found.members, settings.interruptions),
        wrong_templates=find_news(memory.learned, learned.templates),
    )


def _remember(
    found: _Findings, backoffs: Mapping[GroupRef, Backoff], learned: Learned, memory: Memory, settings: Settings
) -> Memory:
    groups, states = found.groups, found.states
    with_learned = replace(memory, learned=learned.templates)
    failure_ids = {(ref, failure.failure_id) for ref, group in groups.items() for failure in group.failed or ()}
    overdue = {ref: (*s.readiness.long_unregistered, *s.readiness.never_ready) for ref, s in states.items()}
    late = {(ref, name) for ref, names in overdue.items() for name in names}
    limits = settings.deletion_limits
    window, empty_window = limits.deletion_window, limits.empty_deletion_window
    nodes = len(found.members.group_of_node)
    return Memory(
        requests={ref: state.requests for ref, state in states.items() if state.requests},
        backoffs=backoffs,
        deferrals=found.deferrals,
        given_up={ref: state.given_up for ref, state in states.items() if state.given_up},
        withdrawn_at={ref: state.withdrawn_at for ref, state in states.items() if state.withdrawn_at},
        size_gaps={ref: state.size_gap for ref, state in states.items() if state.size_gap is not None},
        unregistered_since=found.since,
        late=frozenset(late),
        seen_failures=frozenset(failure_ids),
        never_ran=find_never_ran(memory, groups, found.since),
        ran=remember_ran(memory, found.seen.groups),
        deletions=recent_deletions(memory.deletions, window, found.seen.now),
        deletion_window=window,
        empty_deletions=recent_deletions(memory.empty_deletions, empty_window, found.seen.now),
        empty_deletion_window=empty_window,
        deletion_tried=found.tried,
        node_groups=found.members.group_of_id,
        members=found.members,
        samples=update_samples(with_learned, found.members, groups, found.seen, settings.templates, settings.policy),
        arrivals=found.arrivals,
        last_known=_last_known(found.seen.groups, memory),
        scale_down=with_most_nodes(memory.scale_down, nodes, found.seen.now),
        provisioning=found.provisioning,
        empty_since=found.empty_since,
        never_up={(ref, name): at for ref, s in states.items() for name, at in s.readiness.never_up.items()},
        looked_at=found.seen.now,
        writes_in_flight=memory.writes_in_flight,
        purchases=without_old(end_pauses(memory.purchases, memory.learned, learned.templates), found.seen.now),
        planned_pods=memory.planned_pods,
        moves=memory.moves,
        learned=learned.templates,
        young_nodes=learned.young_nodes,
        template_evidence=learned.evidence,
        named=memory.named | _named(found.seen),
    )


def _named(seen: Observation) -> frozenset[GroupRef]:
    """Return the groups of --nodes that their providers have now, by their names there."""
    return frozenset(GroupRef(held.name, name) for held in seen.providers.values() for name in held.named)


def _last_known(groups: Mapping[GroupRef, GroupSeen], memory: Memory) -> dict[GroupRef, GroupSeen]:
    """Return each group as its provider last described it, or as the saved state has it."""
    held = {ref: group if group.is_known else memory.last_known.get(ref) for ref, group in groups.items()}
    return {ref: group for ref, group in held.items() if group is not None}
