"""Machines that became nodes since the last look, and what is learned of each group's provision time by them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

import msgspec

from nodewright.clusterstate.backoff import is_active
from nodewright.clusterstate.case import find_increases
from nodewright.clusterstate.learned import ArrivalHistory, Awaited, after_timeout, learned_deadline, observe_arrivals
from nodewright.clusterstate.membership import Membership
from nodewright.clusterstate.state import GroupState, Memory
from nodewright.model.action import Outcome
from nodewright.model.group import GroupRef, Instance, InstanceState
from nodewright.model.meta import Resources
from nodewright.model.node import Node
from nodewright.model.settings import FailureSettings
from nodewright.snapshot.observation import GroupSeen

Histories = Mapping[GroupRef, ArrivalHistory]


def find_arrived(group: GroupSeen, members: Membership, memory: Memory) -> list[str]:
    """Machines of the group that are nodes now and were not when it was last looked at.

    They are told by their ids: counts alone cannot tell an arrival from a withdrawal.
    """
    before = memory.last_known.get(group.ref)
    waited = any(ref == group.ref for ref, _ in memory.unregistered_since)
    if before is not None and before.is_known and not waited and before.instances == group.instances:
        return []
    known = _known_before(group, before)
    return [
        instance.id
        for instance in _nodes_of(group, members)
        if (group.ref, instance.id) in memory.unregistered_since or (known is not None and instance.id not in known)
    ]


def _known_before(group: GroupSeen, before: GroupSeen | None) -> set[str] | None:
    """The machines that were there already; None where nobody knows. A group that was made for pods, and is seen for the
    first time, had none: its machines may all have joined since.
    """
    if before is None:
        return set() if group.group.autoprovisioned else None
    return {instance.id for instance in before.instances or ()} if before.is_known else None


def learn_provision_times(
    memory: Memory,
    groups: Iterable[GroupSeen],
    members: Membership,
    outcomes: Sequence[Outcome],
    settings: FailureSettings,
    now: float,
) -> dict[GroupRef, ArrivalHistory]:
    """The history of every group of which there is any; none unless provision times are to be learned.

    A group whose provider says how long it may take is not learned about: what is said explicitly holds.
    """
    histories: dict[GroupRef, ArrivalHistory] = {}
    if not settings.learns_provision_time:
        return histories
    for group in groups:
        increases = find_increases(outcome for outcome in outcomes if outcome.action.group == group.ref)
        asked = [Awaited(increase.started, increase.machines) for increase in increases]
        if _is_explicit(group, settings) or (not asked and group.ref not in memory.arrivals):
            continue
        history = _current(group, memory)
        if asked or history.awaited:
            arrived, outstanding = len(find_arrived(group, members, memory)), _outstanding(group, members)
            history = observe_arrivals(history, asked, arrived, outstanding, settings, now)
        histories[group.ref] = history
    return histories


def with_patience(
    groups: Mapping[GroupRef, GroupSeen], histories: Histories, settings: FailureSettings, now: float
) -> dict[GroupRef, GroupSeen]:
    """The groups, each with the provision time learned of it. The only place where that enters."""
    changed = dict(groups)
    for ref, history in histories.items():
        deadline = learned_deadline(history, settings, now)
        if deadline is not None:
            options = msgspec.structs.replace(groups[ref].options, max_node_provision_seconds=deadline)
            changed[ref] = replace(groups[ref], options=options)
    return changed


def after_timeouts(
    histories: Histories, states: Iterable[GroupState], memory: Memory, settings: FailureSettings, now: float
) -> dict[GroupRef, ArrivalHistory]:
    """The histories when machines were given up in this loop; what follows during a backoff is the same failure."""
    changed = dict(histories)
    for state in states:
        timed_out = state.timed_out or state.newly_late
        if timed_out and state.ref in changed and not is_active(memory.backoffs.get(state.ref), now):
            changed[state.ref] = after_timeout(changed[state.ref], settings, now)
    return changed


def _is_explicit(group: GroupSeen, settings: FailureSettings) -> bool:
    return group.options.max_node_provision_seconds != settings.ordinary_provision_seconds


def _current(group: GroupSeen, memory: Memory) -> ArrivalHistory:
    """What is known of the group as it is: other machines may take another time."""
    history, before = memory.arrivals.get(group.ref), memory.last_known.get(group.ref)
    if history is not None and before is not None and before.template is group.template:
        return history
    template = _fingerprint(group.template)
    if history is None or (template and history.template != template):
        return ArrivalHistory(template=template)
    return history


def _fingerprint(template: Node | None) -> str:
    """Tells one template from another, also after a restart; empty without one."""
    if template is None:
        return ""
    taints = sorted((taint.key, taint.value, taint.effect) for taint in template.spec.taints)
    offered = (_amounts(template.status.capacity), _amounts(template.status.allocatable))
    said = repr((sorted(template.metadata.labels.items()), taints, offered))
    return sha256(said.encode()).hexdigest()[:16]


def _amounts(resources: Resources) -> list[tuple[str, int]]:
    return sorted((name, amount.nano) for name, amount in resources.items())


def _nodes_of(group: GroupSeen, members: Membership) -> Iterator[Instance]:
    """The group's machines that are nodes, but for those on their way out."""
    for instance in group.instances or ():
        known_as = (instance.id, instance.id.lower())
        if instance.state != InstanceState.DELETING and not members.registered.isdisjoint(known_as):
            yield instance


def _outstanding(group: GroupSeen, members: Membership) -> int:
    """Machines that may still come: those given up are among them while the cloud is still asked for them."""
    failed = sum(failure.count for failure in group.failed or ())
    return max(0, (group.target or 0) - sum(1 for _ in _nodes_of(group, members)) - failed)
