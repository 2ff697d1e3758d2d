"""What the loop takes each group to be, where that differs from what its provider reports now."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from nodewright.clusterstate.memory import Memory, WriteInFlight
from nodewright.model.action import Done, Failed, IncreaseSize, Outcome
from nodewright.model.group import GroupRef, Instance, InstanceState
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import GroupSeen, Observation

Machine = tuple[GroupRef, str]


def with_evidence(seen: Observation, memory: Memory) -> Observation:
    """Return the observation in which every machine that ran is an ordinary machine, whatever the cloud's status says.

    Evidence of having run, any of which is enough: it is a node, for its kubelet has registered; the cloud listed it as
    running in the last loop; this was known of it before. A machine that another group lists is none of this group's
    failed creations either, and stays with that group.
    """
    reported = {ref: group for ref, group in seen.groups.items() if group.failed and group.instances is not None}
    if not reported:
        return seen
    # Ids compare without case: to spare a machine too many harms nothing.
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
    """Return the machines that ran and are reported as failed creations. A group that cannot be read keeps its own."""
    told = {(ref, one.instance_id) for ref, group in groups.items() for one in group.disputed if one.instance_id}
    unread = {ref for ref, group in groups.items() if not group.is_known}
    return frozenset(told | {(ref, one) for ref, one in memory.ran if ref in unread})


def _listed_as_running(before: GroupSeen | None) -> set[str]:
    instances = before.instances or () if before is not None else ()
    return {instance.id for instance in instances if instance.state == InstanceState.RUNNING}


def _with_machines(group: GroupSeen, ran: Collection[str], foreign: Collection[str]) -> GroupSeen:
    """Return the group with those of its failures that are about machines in ``ran`` or ``foreign`` set aside as disputed;
    the machines in ``ran`` are instances of it.
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


def known_groups(seen: Observation, memory: Memory, settings: Settings) -> dict[GroupRef, GroupSeen]:
    """Every group, an Unknown one as it was when it could last be read; one that was only remembered is not known."""
    groups = dict(seen.groups)
    unread = [ref for ref, group in groups.items() if not group.is_known and _was_known(memory.last_known.get(ref))]
    for ref in unread:
        groups[ref] = memory.last_known[ref]
    if not unread or not settings.policy.forgets_lost_machines:
        return groups
    node_ids = {node.spec.provider_id.lower() for _, node in seen.snapshot.nodes()}
    return groups | {ref: _without_lost_nodes(groups[ref], memory, node_ids) for ref in unread}


def with_own_writes(memory: Memory, seen: Observation, outcomes: Sequence[Outcome]) -> Memory:
    """The memory of groups that cannot be read now, with what was asked of them since they last were."""
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
    """The group without machines that were nodes when it was last read, and are none now.

    Nobody can tell what became of them. They are not awaited, or pods would wait for machines that are gone, and
    no failure to join, or the group would be backed off for what happened to it.
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
    """Return the writes that may still take effect: neither is their time over, nor is their effect seen."""
    return {
        ref: write
        for ref, write in writes.items()
        if seen.now < write.until and not _has_effect(write, seen.groups.get(ref))
    }


def with_held_groups(seen: Observation, writes: WritesInFlight) -> Observation:
    """Return the observation with the groups of ``writes`` as ones that cannot be read: nothing is planned for them."""
    shut = {
        ref: replace(group, target=None, instances=None, problem=group.problem or HELD)
        for ref, group in seen.groups.items()
        if ref in writes
    }
    return replace(seen, groups={**seen.groups, **shut}) if shut else seen


def as_if_made(
    last_known: Mapping[GroupRef, GroupSeen], seen: Observation, writes: WritesInFlight
) -> dict[GroupRef, GroupSeen]:
    """Return what each group was last known as, a held one as seen now with the machines that the write asks for.

    So nobody buys them a second time while the group is held.
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
