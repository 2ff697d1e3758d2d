"""Which node belongs to which group, and in what state each is (behaviour/up.md §2.2, §2.3)."""

from collections.abc import Mapping
from typing import NamedTuple

from nodewright.clusterstate.accelerators import NO_ACCELERATORS, Accelerators
from nodewright.clusterstate.membership import Basis, Membership
from nodewright.clusterstate.readiness import (
    is_being_deleted,
    is_ready,
    is_reported_ready,
    is_suspended,
    ready_condition,
    was_never_ready,
)
from nodewright.clusterstate.state import Memory, Readiness
from nodewright.model.group import GroupRef, InstanceState
from nodewright.model.node import Node
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import GroupSeen, ProviderSeen

# Two looks that are no further apart miss no node that becomes ready and breaks in between; a node that is no older is
# looked at for the first time.
CLOSE_SECONDS = 60.0
# Remembered instead of a moment, of a node that is not up and has been Ready, or was up although nothing on it tells.
READY_ONCE, SEEN_UP = 0.0, -1.0


def find_members(
    nodes: list[Node],
    groups: Mapping[GroupRef, GroupSeen],
    providers: Mapping[str, ProviderSeen],
    held: Mapping[str, GroupRef],
    before: Membership | None,
) -> Membership:
    """Match nodes to instances by providerID; ``held`` knows the group of instances that are gone.

    ``before`` is the answer of the last loop, where there is one.
    """
    basis = Basis.of(nodes, groups, providers)
    if before is not None and held is before.group_of_id and before.basis == basis:
        return before
    found = Membership(
        basis,
        group_of_id={i: ref for i, ref in held.items() if ref in groups},
        accelerators=Accelerators.of(providers.values()),
    )
    live: set[str] = set()
    for ref, group in groups.items():
        for instance in group.instances or ():
            known_as = _known_as(instance.id, ref, providers)
            found.group_of_id[known_as] = ref
            live.add(known_as)
            if instance.state == InstanceState.DELETING:
                found.going.add(known_as)
    for node in nodes:
        _assign(node, found, live)
    # What neither an instance nor a node goes by any more is forgotten.
    found.group_of_id = {i: ref for i, ref in found.group_of_id.items() if i in live or i in found.registered}
    return found


def sort_readiness(
    group: GroupSeen,
    members: Membership,
    since: Mapping[tuple[GroupRef, str], float],
    memory: Memory,
    settings: Settings,
    now: float,
) -> Readiness:
    """Every node and every instance without a node in exactly one class.

    An instance that is late stays late, also when a longer time is learned from it.
    """
    classes: dict[str, list[str]] = {
        name: [] for name in ("unready", "leaving", "not_started", "unregistered", "long_unregistered")
    }
    never_ready, just_overdue, never_up = list[str](), list[str](), dict[str, float]()
    prompt = settings.size_correction == "prompt"
    settled = members.keep((_settle, group.ref), settings.templates, lambda: _settle(group.ref, members, settings))
    for node in settled.others:
        found = class_of(node, group, settings, now, members.accelerators)
        was_up = prompt and _was_seen_up(node, group.ref, memory)
        starts = prompt and not was_up and _was_never_up(node, group.ref, memory, now)
        if starts:
            never_up[node.name] = _reported_at(node)
        elif was_up and was_never_ready(node):
            never_up[node.name] = SEEN_UP
        if found == "unready" and prompt and is_being_deleted(node):
            found = "leaving"
        elif found == "unready" and starts:
            never_ready.append(node.name)
            if _is_just_overdue(node, group, settings, now):
                just_overdue.append(node.name)
        classes[found].append(node.name)
    patience = group.options.max_node_provision_seconds
    for instance_id in unregistered_ids(group, members):
        key = (group.ref, instance_id)
        late = key in memory.late or since.get(key, now) + patience < now
        classes["long_unregistered" if late else "unregistered"].append(instance_id)
    return Readiness(
        ready=settled.ready,
        suspended=settled.suspended,
        deleted=settled.deleted,
        never_ready=tuple(never_ready),
        just_overdue=tuple(just_overdue),
        never_up=never_up,
        **{name: tuple(names) for name, names in classes.items()},
    )


class _Settled(NamedTuple):
    """Nodes by name of which time changes nothing, and those that are neither ready, asleep nor going."""

    ready: tuple[str, ...]
    suspended: tuple[str, ...]
    deleted: tuple[str, ...]
    others: tuple[Node, ...]


def _settle(ref: GroupRef, members: Membership, settings: Settings) -> _Settled:
    ready, suspended, deleted, others = list[str](), list[str](), list[str](), list[Node]()
    for node in members.nodes.get(ref, ()):
        if not members.going.isdisjoint(_names_of(node)):
            deleted.append(node.name)
        elif is_suspended(node):
            suspended.append(node.name)
        elif is_up(node, settings, members.accelerators):
            ready.append(node.name)
        else:
            others.append(node)
    return _Settled(tuple(ready), tuple(suspended), tuple(deleted), tuple(others))


def unregistered_ids(group: GroupSeen, members: Membership) -> list[str]:
    """Instances that should become nodes and have not: neither failed nor on their way out. To be read only."""
    of = (group.instances, group.failed)
    return members.keep((_unregistered_ids, group.ref), of, lambda: _unregistered_ids(group, members))


def _unregistered_ids(group: GroupSeen, members: Membership) -> list[str]:
    failed = {failure.instance_id for failure in group.failed or ()}
    return [
        instance.id
        for instance in group.instances or ()
        if instance.state != InstanceState.DELETING
        and instance.id not in failed
        and members.registered.isdisjoint((instance.id, instance.id.lower()))
    ]


def class_of(
    node: Node,
    group: GroupSeen | None,
    settings: Settings,
    now: float,
    accelerators: Accelerators = NO_ACCELERATORS,
) -> str:
    """Suspended, ready, not started within its start-up time, or unready; a node of no group has the default time.

    A node whose accelerators have not appeared yet is not ready.
    """
    if is_suspended(node):
        return "suspended"
    if is_up(node, settings, accelerators):
        return "ready"
    created = node.metadata.creation_timestamp
    default = settings.failures.max_node_startup_time
    limit = group.options.max_node_startup_seconds if group is not None else default
    return "not_started" if created is not None and created.timestamp() + limit > now else "unready"


def is_up(node: Node, settings: Settings, accelerators: Accelerators) -> bool:
    """Whether a node is ready, its accelerators included."""
    return is_ready(node, settings.templates) and not accelerators.are_missing(node)


def _was_seen_up(node: Node, ref: GroupRef, memory: Memory) -> bool:
    """Return whether a node that is not up was up when it was looked at: so briefly after it registered, perhaps, that
    its condition looks as if it never had been.
    """
    known = memory.never_up.get((ref, node.name))
    was_there = memory.members is not None and node.name in memory.members.group_of_node
    return known == SEEN_UP or (known is None and was_there and node.created <= memory.looked_at)


def _was_never_up(node: Node, ref: GroupRef, memory: Memory, now: float) -> bool:
    """Return whether a node that is not up now was never up before (seed 000, UC3).

    The node itself proves it, or it was so when it was last looked at and has reported no change since, or none that
    loops which follow closely could have missed. So a kubelet that falls silent is still known as one that never came
    up. A node that is Ready, and lacks devices or bears a startup taint, must have been looked at when it was new; it
    counts until it is up, or is no longer Ready.
    """
    known, reported = memory.never_up.get((ref, node.name)), _reported_at(node)
    is_close = memory.looked_at + CLOSE_SECONDS >= now
    if is_reported_ready(node):
        is_new = node.created > 0 and node.created + CLOSE_SECONDS >= now
        return is_new or (known is not None and (known == reported or is_close))
    if known == READY_ONCE:
        return False
    return was_never_ready(node) or (known is not None and (known == reported or is_close))


def _reported_at(node: Node) -> float:
    """Return when the condition ``Ready`` last changed (epoch seconds), READY_ONCE where it holds or is not dated."""
    said = ready_condition(node)
    changed = said.last_transition_time if said is not None else None
    return changed.timestamp() if changed is not None and not is_reported_ready(node) else READY_ONCE


def _is_just_overdue(node: Node, group: GroupSeen, settings: Settings, now: float) -> bool:
    """Overdue for less than a first backoff: an older failure is history when it is first seen."""
    patience = group.options.max_node_startup_seconds + settings.failures.initial_node_group_backoff_duration
    return node.created + patience > now


def _known_as(instance_id: str, ref: GroupRef, providers: Mapping[str, ProviderSeen]) -> str:
    provider = providers.get(ref.provider)
    return instance_id.lower() if provider is not None and provider.ignores_id_case else instance_id


def _assign(node: Node, found: Membership, live: set[str]) -> None:
    """Give a node to the group of its instance; one whose instance is gone stays with it, as deleted."""
    known_as = next((name for name in _names_of(node) if name in found.group_of_id), None)
    if known_as is None:
        found.strangers.append(node)
        return
    ref = found.group_of_id[known_as]
    found.nodes.setdefault(ref, []).append(node)
    found.group_of_node[node.name] = ref
    if known_as in found.registered:
        found.shared.add(known_as)
    found.registered.add(known_as)
    if known_as not in live:
        found.going.add(known_as)


def _names_of(node: Node) -> set[str]:
    """What a node's providerID may be known as; empty for a node without one."""
    provider_id = node.spec.provider_id
    return {provider_id, provider_id.lower()} if provider_id else set()
