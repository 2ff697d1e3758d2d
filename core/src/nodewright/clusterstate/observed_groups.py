"""Correct what providers report about groups: disputed failures, unreadable groups, groups held for a former process.

The file also finds failed creations of autoprovisioned groups, and since when each of these has been empty.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from nodewright.clusterstate.membership import Membership
from nodewright.clusterstate.memory import Memory, WriteInFlight
from nodewright.clusterstate.readiness import is_reported_ready
from nodewright.clusterstate.state import Failure, GroupState
from nodewright.model.action import CreateNodeGroup, DeleteNodeGroup, Done, Failed, IncreaseSize, Outcome
from nodewright.model.errors import AccessDenied
from nodewright.model.group import ErrorClass, FailureScope, GroupRef, Instance, InstanceState, Machine
from nodewright.model.policy import Policy
from nodewright.snapshot.observation import GroupSeen, Observation


def with_evidence(seen: Observation, memory: Memory) -> Observation:
    """Return the observation with every machine that ran as an ordinary machine, even if the cloud calls it failed.

    A machine ran if it is a node, if the cloud listed it as running in the last loop, or if this is remembered. A
    machine that another group lists is no failed creation of this group either.
    """
    reported = {ref: group for ref, group in seen.groups.items() if group.failed and group.instances is not None}
    if not reported:
        return seen
    # Compare ids without case: sparing one machine too many does no harm.
    registered = {node.spec.provider_id.lower() for _, node in seen.snapshot.nodes()}
    owners = {instance.id.lower(): ref for ref, group in seen.groups.items() for instance in group.instances or ()}
    evaluated = {}
    for ref, group in reported.items():
        named = {failure.instance_id for failure in group.failed or () if failure.instance_id is not None}
        foreign = {one for one in named if owners.get(one.lower(), ref) != ref}
        ran = {one for one in named if one.lower() in registered or (ref, one) in memory.ran}
        ran |= _listed_as_running(memory.last_known.get(ref))
        evaluated[ref] = _with_machines(group, ran, foreign)
    return replace(seen, groups={**seen.groups, **evaluated})


def remember_ran(memory: Memory, groups: Mapping[GroupRef, GroupSeen]) -> frozenset[Machine]:
    """Return the machines that ran and are reported as failed creations.

    An unreadable group keeps its remembered ones.
    """
    reported = {(ref, one.instance_id) for ref, group in groups.items() for one in group.disputed if one.instance_id}
    unread = {ref for ref, group in groups.items() if not group.is_known}
    return frozenset(reported | {(ref, one) for ref, one in memory.ran if ref in unread})


def _listed_as_running(before: GroupSeen | None) -> set[str]:
    instances = before.instances or () if before is not None else ()
    return {instance.id for instance in instances if instance.state == InstanceState.RUNNING}


def _with_machines(group: GroupSeen, ran: Collection[str], foreign: Collection[str]) -> GroupSeen:
    """Return the group with failures about machines in ``ran`` or ``foreign`` moved to ``disputed``.

    Machines in ``ran`` become instances of the group.
    """
    instances, failures = group.instances or (), group.failed or ()
    going = {instance.id for instance in instances if instance.state == InstanceState.DELETING}
    spared = {*ran, *foreign} - going
    disputed = tuple(one for one in failures if one.instance_id in spared)
    if not disputed:
        return group
    named = dict.fromkeys(one.instance_id for one in disputed if one.instance_id and one.instance_id not in foreign)
    return replace(
        group,
        instances=(*(one for one in instances if one.id not in named), *(Instance(id=name) for name in named)),
        failed=tuple(one for one in failures if one.instance_id not in spared),
        disputed=disputed,
    )


def known_groups(seen: Observation, memory: Memory, policy: Policy) -> dict[GroupRef, GroupSeen]:
    """Return every group; an unreadable one as it was when it was last read."""
    groups = dict(seen.groups)
    unread = [ref for ref, group in groups.items() if not group.is_known and _was_known(memory.last_known.get(ref))]
    for ref in unread:
        groups[ref] = memory.last_known[ref]
    if not unread or not policy.forgets_lost_machines:
        return groups
    node_ids = {node.spec.provider_id.lower() for _, node in seen.snapshot.nodes()}
    return groups | {ref: _without_lost_nodes(groups[ref], memory, node_ids) for ref in unread}


def with_own_writes(memory: Memory, seen: Observation, outcomes: Sequence[Outcome]) -> Memory:
    """Return the memory of unreadable groups with the increases that were asked of them since they were last read."""
    last_known: dict[GroupRef, GroupSeen] = dict(memory.last_known)
    for outcome in outcomes:
        action, group = outcome.action, seen.groups.get(outcome.action.group)
        held = last_known.get(action.group)
        if not isinstance(action, IncreaseSize) or isinstance(outcome, Failed) or held is None:
            continue
        if group is not None and not group.is_known:
            target = action.expected_target + outcome.accepted if isinstance(outcome, Done) else action.target
            last_known[action.group] = replace(held, target=target)
    return replace(memory, last_known=last_known)


def _was_known(held: GroupSeen | None) -> bool:
    return held is not None and held.is_known


def _without_lost_nodes(group: GroupSeen, memory: Memory, node_ids: set[str]) -> GroupSeen:
    """Return the group without machines that were nodes when it was last read and are not nodes now.

    Their state is unknown. Pods must not wait for them, and the group must not be backed off because of them.
    """
    failed = {failure.instance_id for failure in group.failed or ()}
    kept = tuple(
        instance
        for instance in group.instances or ()
        if instance.id.lower() in node_ids
        or instance.id in failed
        or instance.state == InstanceState.DELETING
        or (group.ref, instance.id) in memory.unregistered_since
    )
    lost = len(group.instances or ()) - len(kept)
    return replace(group, target=max(0, (group.target or 0) - lost), instances=kept) if lost else group


HELD = "the process that led before may still be writing to it"

WritesInFlight = Mapping[GroupRef, WriteInFlight]


def unsettled(writes: WritesInFlight, seen: Observation) -> dict[GroupRef, WriteInFlight]:
    """Return the writes that may still take effect: their time is not over and their effect is not visible."""
    return {
        ref: write
        for ref, write in writes.items()
        if seen.now < write.until and not _has_effect(write, seen.groups.get(ref))
    }


def with_held_groups(seen: Observation, writes: WritesInFlight) -> Observation:
    """Return the observation with the groups of ``writes`` as unreadable, so that nothing is planned for them."""
    shut = {
        ref: replace(group, target=None, instances=None, problem=group.problem or HELD)
        for ref, group in seen.groups.items()
        if ref in writes
    }
    return replace(seen, groups={**seen.groups, **shut}) if shut else seen


def as_if_made(
    last_known: Mapping[GroupRef, GroupSeen], seen: Observation, writes: WritesInFlight
) -> dict[GroupRef, GroupSeen]:
    """Return the last known state of each group. A held group is as read now, with the machines of the write.

    So planning does not buy these machines a second time while the group is held.
    """
    made = {
        ref: replace(group, target=max(group.target, writes[ref].target or 0))
        for ref, group in seen.groups.items()
        if ref in writes and group.target is not None and group.instances is not None
    }
    return {**last_known, **made}


def _has_effect(write: WriteInFlight, group: GroupSeen | None) -> bool:
    if group is None or not group.is_known or write.target not in (None, group.target):
        return False
    return not {one.id for one in group.staying} & set(write.instance_ids)


NOT_MADE = "groupNotMade"


def any_new_group(provider: str) -> GroupRef:
    """Return the reference that stands for all groups that the provider could create.

    A backoff of it stops all creations of that provider.
    """
    return GroupRef(provider, "*")


def refused_creations(outcomes: Iterable[Outcome], groups: Mapping[GroupRef, GroupSeen]) -> list[Failure]:
    """Return a failure for each group that was to be created and does not exist.

    Without the permission or the account's quota no other group is tried either.
    """
    found = []
    for outcome in outcomes:
        if not isinstance(outcome.action, CreateNodeGroup) or isinstance(outcome, Done):
            continue
        ref = outcome.action.group
        if ref in groups or outcome.is_busy:
            continue
        code, message, error_class, reaches_all = NOT_MADE, getattr(outcome, "message", ""), ErrorClass.OTHER, False
        if isinstance(outcome, Failed):
            code, error_class = outcome.code, outcome.error_class
            reaches_all = outcome.scope == FailureScope.ACCOUNT or code == AccessDenied.code
        group = any_new_group(ref.provider) if reaches_all else ref
        found.append(Failure(group=group, at=outcome.started, error_class=error_class, code=code, message=message))
    return found


def find_empty_since(
    memory: Memory,
    states: Mapping[GroupRef, GroupState],
    listed: Mapping[GroupRef, GroupSeen],
    members: Membership,
    outcomes: Iterable[Outcome],
    now: float,
) -> Mapping[GroupRef, float]:
    """Return since when (epoch seconds) each autoprovisioned group has had no machines and a target of 0.

    A failed deletion starts the time again. A group with a Ready node is not empty, even if its provider lists no
    machine.
    """
    tried = {outcome.action.group for outcome in outcomes if isinstance(outcome.action, DeleteNodeGroup)}
    empty = [
        ref
        for ref, group in listed.items()
        if group.group.autoprovisioned and _is_empty(group, states[ref]) and not _has_ready_node(ref, members)
    ]
    return {ref: now if ref in tried else memory.empty_since.get(ref, now) for ref in empty}


def _has_ready_node(ref: GroupRef, members: Membership) -> bool:
    return any(is_reported_ready(node) for node in members.nodes.get(ref, ()))


def _is_empty(group: GroupSeen, state: GroupState) -> bool:
    """Return whether the group as read now is empty. An unreadable group is not."""
    return group.target == 0 and group.instances == () and not group.failed and not state.requests
