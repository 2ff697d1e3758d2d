"""After a deletion only those machines may be missing that were to go; else the group is left alone (issue 5).

As long as a machine of ours is leaving nothing else may leave. For the rest of the five minutes after a deletion,
a machine counts that leaves a group of more machines than its target: the deletion took too much off the target, and
the cloud makes up for it when it likes. Whoever deletes a machine by hand then does not look like that.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from nodewright.clusterstate.state import Memory, ScaleDownMemory
from nodewright.model.action import DeleteInstances, Failed, Outcome
from nodewright.model.group import GroupRef, InstanceState
from nodewright.model.removal import RemovalEnded, RemovalResult
from nodewright.snapshot.observation import GroupSeen

# For how long nothing is removed from a group in which something else died: time for somebody to look into it.
QUARANTINE_SECONDS = 1800.0
# No cloud takes longer to delete a machine (CA: MaxCloudProviderNodeDeletionTime); for so long a deletion is watched.
DELETION_SECONDS = 300.0

Machine = tuple[GroupRef, str]


class Verified(NamedTuple):
    """What is remembered of deletions, and the machines of each group that went although nobody asked."""

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

    That somebody else took a machine away just then (a spot machine, say) cannot be told apart, and counts too.
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
    """When machines were asked to go, whatever for, in calls that may have taken effect."""
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
    """Machines that ran, do not any more, and went with ours or after them for the target; none where nobody can
    tell.
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
