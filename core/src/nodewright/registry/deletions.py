"""What deletion budgets remember (design.md §6): machines deleted of late, and which never ran."""

from collections.abc import Iterable, Mapping

from nodewright.model.group import GroupRef, InstanceState
from nodewright.registry.state import Memory
from nodewright.snapshot.observation import GroupSeen

Machine = tuple[GroupRef, str]


def recent_deletions(held: Mapping[Machine, float], window: float, now: float) -> dict[Machine, float]:
    """The deletions that still count: those within ``window`` seconds."""
    return {machine: at for machine, at in held.items() if at + window > now}


def find_never_ran(
    memory: Memory, groups: Mapping[GroupRef, GroupSeen], unregistered: Iterable[Machine]
) -> frozenset[Machine]:
    """Machines without a node that were watched from their beginning, and so never were one.

    A machine that is there when its group is first read may have been a node before: it counts as one that ran,
    unless the cloud is still creating it.
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
