"""What deletion budgets remember: machines deleted of late, how many nodes there were, and which machines never ran."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nodewright.clusterstate.state import Memory, MostNodes, ScaleDownMemory
from nodewright.model.group import GroupRef, InstanceState
from nodewright.snapshot.observation import GroupSeen

Machine = tuple[GroupRef, str]

# For so long the largest number of nodes is what a share of the cluster is taken of.
_MOST_NODES_SECONDS = 600.0


def recent_deletions(held: Mapping[Machine, float], window: float, now: float) -> dict[Machine, float]:
    """The deletions that still count: those within ``window`` seconds."""
    return {machine: at for machine, at in held.items() if at + window > now}


def with_most_nodes(held: ScaleDownMemory, nodes: int, now: float) -> ScaleDownMemory:
    """Return the memory with the largest number of nodes of late: that of ``now``, unless a recent one is larger."""
    most = held.most_nodes
    if most.nodes > nodes and most.at + _MOST_NODES_SECONDS > now:
        return held
    return replace(held, most_nodes=MostNodes(nodes, now))


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
