"""After a deletion only those machines may be missing that were to go; else the group is left alone (issue 5)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from nodewright.model.action import DeleteInstances, Outcome
from nodewright.model.group import GroupRef, InstanceState
from nodewright.model.removal import RemovalEnded, RemovalResult
from nodewright.registry.state import Memory, ScaleDownMemory
from nodewright.snapshot.observation import GroupSeen

# For how long nothing is removed from a group in which something else died: time for somebody to look into it.
QUARANTINE_SECONDS = 1800.0
# No cloud takes longer to delete a machine (CA: MaxCloudProviderNodeDeletionTime).
_DELETION_SECONDS = 300.0

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
    """Compare each group with how it was before, as long as machines that scale-down deleted are going.

    That somebody else took a machine away just then (a spot machine, say) cannot be told apart, and counts too.
    """
    held = memory.scale_down
    deleting = {machine: at for machine, at in held.deleting.items() if at + _DELETION_SECONDS > now}
    deleting |= {(e.removal.group, e.removal.instance_id): e.at for e in ended if e.result == RemovalResult.OK}
    if not deleting:
        return Verified(replace(held, deleting=deleting) if held.deleting else held, {})
    asked = {*deleting, *memory.deletions, *memory.unregistered_since, *_asked(outcomes)}
    vanished = {
        ref: gone
        for ref in dict.fromkeys(ref for ref, _ in deleting)
        if (gone := tuple(i for i in _gone(memory.last_known.get(ref), groups.get(ref)) if (ref, i) not in asked))
    }
    until = {**held.quarantined_until, **dict.fromkeys(vanished, now + QUARANTINE_SECONDS)}
    deleting = {machine: at for machine, at in deleting.items() if _may_be_there(machine, groups)}
    return Verified(replace(held, deleting=deleting, quarantined_until=until), vanished)


def _asked(outcomes: Sequence[Outcome]) -> Iterator[Machine]:
    for outcome in outcomes:
        if isinstance(outcome.action, DeleteInstances):
            yield from ((outcome.action.group, instance_id) for instance_id in outcome.action.instance_ids)


def _gone(before: GroupSeen | None, now: GroupSeen | None) -> list[str]:
    """Machines that ran and do not any more; none where nobody can tell."""
    if before is None or now is None or before.instances is None or now.instances is None:
        return []
    staying = {instance.id for instance in now.instances if instance.state != InstanceState.DELETING}
    return [i.id for i in before.instances if i.state == InstanceState.RUNNING and i.id not in staying]


def _may_be_there(machine: Machine, groups: Mapping[GroupRef, GroupSeen]) -> bool:
    ref, instance_id = machine
    group = groups.get(ref)
    if group is None:
        return False
    return group.instances is None or any(instance.id == instance_id for instance in group.instances)
