"""The memory of deletions: for budgets, for retries, and to detect machines that disappear without a request."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from nodewright.clusterstate.memory import Memory, MostNodes, ScaleDownMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import DeleteInstances, Failed, Outcome, Unknown
from nodewright.model.group import GroupRef, InstanceState, Machine
from nodewright.model.removal import RemovalEnded, RemovalResult
from nodewright.snapshot.observation import GroupSeen

# Seconds for which the largest number of nodes counts for limits that are a share of the cluster.
_MOST_NODES_SECONDS = 600.0


def recent_deletions(held: Mapping[Machine, float], window: float, now: float) -> dict[Machine, float]:
    """Return the deletions of the last ``window`` seconds."""
    return {machine: at for machine, at in held.items() if at + window > now}


def with_most_nodes(held: ScaleDownMemory, nodes: int, now: float) -> ScaleDownMemory:
    """Return the memory with the largest recent number of nodes."""
    most = held.most_nodes
    if most.nodes > nodes and most.at + _MOST_NODES_SECONDS > now:
        return held
    return replace(held, most_nodes=MostNodes(nodes, now))


def find_never_ran(
    memory: Memory, groups: Mapping[GroupRef, GroupSeen], unregistered: Iterable[Machine]
) -> frozenset[Machine]:
    """Return the machines without a node that were watched from their creation and never were a node.

    A machine that exists when its group is first read may have been a node before. It counts as one that ran, unless
    the cloud is still creating it.
    """
    return frozenset(
        machine
        for machine in unregistered
        if machine in memory.never_ran
        or (machine not in memory.unregistered_since and _begins(machine, memory.last_known, groups))
    )


def _begins(machine: Machine, before: Mapping[GroupRef, GroupSeen], groups: Mapping[GroupRef, GroupSeen]) -> bool:
    ref, instance_id = machine
    creating = InstanceState.CREATING
    if any(i.id == instance_id and i.state == creating for i in groups[ref].instances or ()):
        return True
    held = before.get(ref)
    if held is None or held.instances is None:
        return False
    return all(instance.id != instance_id for instance in held.instances)


def tried_deletions(
    memory: Memory, groups: Mapping[GroupRef, GroupSeen], outcomes: Sequence[Outcome]
) -> dict[Machine, float]:
    """Return when the deletion of each machine or failure that still exists was last requested.

    A call that a busy cloud refused does not count: the group is deferred. After a call without an answer the whole
    group rests, since the next call might take minutes again.
    """
    tried = dict(memory.deletion_tried)
    for outcome in outcomes:
        action = outcome.action
        if outcome.is_busy:
            continue
        if isinstance(action, DeleteInstances) and action.group in groups:
            hung = isinstance(outcome, Unknown)
            ids = _may_be_deleted(groups[action.group]) if hung else action.instance_ids
            tried |= {(action.group, instance_id): outcome.started for instance_id in ids}
    there = {ref: _may_be_deleted(groups[ref]) for ref in {ref for ref, _ in tried} if ref in groups}
    return {machine: at for machine, at in tried.items() if machine[1] in there.get(machine[0], ())}


def is_resting(state: ClusterState, ref: GroupRef, instance_id: str, pause: float) -> bool:
    """Return whether the deletion was requested less than ``pause`` seconds ago."""
    tried = state.memory.deletion_tried.get((ref, instance_id))
    return tried is not None and not tried + pause < state.now


def _may_be_deleted(group: GroupSeen) -> set[str]:
    """Return the ids of machines that are not being deleted, and of failures."""
    there = {instance.id for instance in group.staying}
    return there | {failure.instance_id or failure.failure_id for failure in group.failed or ()}


# Seconds for which nothing is removed from a group in which other machines disappeared: an operator can find out why.
QUARANTINE_SECONDS = 1800.0

# Seconds within which every cloud deletes a machine (CA: MaxCloudProviderNodeDeletionTime), and for which a deletion is
# watched.
DELETION_SECONDS = 300.0


class Verified(NamedTuple):
    """The memory of deletions, and the machines of each group that disappeared without a request."""

    memory: ScaleDownMemory
    vanished: Mapping[GroupRef, tuple[str, ...]]


def verify_deletions(
    memory: Memory,
    groups: Mapping[GroupRef, GroupSeen],
    outcomes: Sequence[Outcome],
    ended: Sequence[RemovalEnded],
    now: float,
) -> Verified:
    """Compare each group in which machines were deleted with how it was before.

    If another controller or the cloud took a machine away at the same time (a spot machine, for example), it counts
    too.
    """
    held = memory.scale_down
    over = {(e.removal.group, e.removal.instance_id): e.at for e in ended if e.result == RemovalResult.OK}
    deleting = {machine: at for machine, at in {**held.deleting, **over}.items() if at + DELETION_SECONDS > now}
    watched = {**held.watched, **over, **_asked(outcomes)}
    watched = {machine: at for machine, at in watched.items() if at + DELETION_SECONDS > now}
    if not watched and not held.watched:
        return Verified(held, {})
    asked = {*watched, *memory.deletions, *memory.empty_deletions, *memory.unregistered_since}
    vanished = {
        ref: gone
        for ref in dict.fromkeys(ref for ref, _ in watched)
        if (gone := _gone(ref, memory.last_known.get(ref), groups.get(ref), watched, asked))
    }
    until = {**held.quarantined_until, **dict.fromkeys(vanished, now + QUARANTINE_SECONDS)}
    deleting = {machine: at for machine, at in deleting.items() if _may_be_there(machine, groups)}
    return Verified(replace(held, deleting=deleting, watched=watched, quarantined_until=until), vanished)


def _asked(outcomes: Sequence[Outcome]) -> Mapping[Machine, float]:
    """Return when the deletion of each machine was requested in calls that may have taken effect."""
    return {
        (outcome.action.group, instance_id): outcome.started
        for outcome in outcomes
        if isinstance(outcome.action, DeleteInstances) and not isinstance(outcome, Failed)
        for instance_id in outcome.action.instance_ids
    }


def _gone(
    ref: GroupRef,
    before: GroupSeen | None,
    now: GroupSeen | None,
    watched: Mapping[Machine, float],
    asked: Collection[Machine],
) -> tuple[str, ...]:
    """Return machines that ran before, are gone now, and whose deletion was not requested.

    They count if a machine that nodewright deletes is leaving, or if the group had more machines than its target. Empty if
    one of the two observations is incomplete.
    """
    if before is None or now is None or before.instances is None or now.instances is None:
        return ()
    leaves = any((ref, instance.id) in watched for instance in before.instances)
    ran = [i.id for i in before.instances if i.state == InstanceState.RUNNING and (ref, i.id) not in asked]
    if not leaves and len(ran) <= (before.target or 0):
        return ()
    staying = {instance.id for instance in now.staying}
    return tuple(instance_id for instance_id in ran if instance_id not in staying)


def _may_be_there(machine: Machine, groups: Mapping[GroupRef, GroupSeen]) -> bool:
    ref, instance_id = machine
    group = groups.get(ref)
    if group is None:
        return False
    return group.instances is None or any(instance.id == instance_id for instance in group.instances)
