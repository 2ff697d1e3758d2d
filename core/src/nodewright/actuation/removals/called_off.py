"""Removals of a former engine that were called off: what the deletion budget was charged for them is given back."""

import math

from nodewright.actuation.budget import Machine
from nodewright.actuation.removals.cleanup import StaleTaints
from nodewright.clusterstate.quarantine import DELETION_SECONDS
from nodewright.clusterstate.state import ClusterState
from nodewright.model.group import InstanceState


class AbandonedRemovals:
    """Machines whose nodes were cleaned up. Nobody knows whether the former engine had asked for their deletion just
    before it died: only what still runs when no deletion would take longer has not been deleted.
    """

    def __init__(self) -> None:
        self._settled_at: dict[Machine, float] = {}

    def next_at(self) -> float:
        """When ``take_settled`` has more to tell (epoch seconds)."""
        return min(self._settled_at.values(), default=math.inf)

    def note(self, state: ClusterState, leftovers: StaleTaints) -> None:
        snapshot = state.observation.snapshot
        ids = {snapshot.node(snapshot.row(name)).spec.provider_id.lower() for name in leftovers.hard}
        deletions = (*state.memory.deletions, *state.memory.empty_deletions)
        charged = (machine for machine in deletions if machine[1].lower() in ids)
        self._settled_at |= dict.fromkeys(charged, state.now + DELETION_SECONDS)

    def take_settled(self, state: ClusterState) -> frozenset[Machine]:
        """Those that run after all that time, each once. One that somebody removes again stays charged."""
        due = [machine for machine, at in self._settled_at.items() if at <= state.now]
        for machine in due:
            del self._settled_at[machine]
        again = {(r.removal.group, r.removal.instance_id) for r in state.observation.removing.values()}
        return frozenset(machine for machine in due if machine not in again and _runs(machine, state))


def _runs(machine: Machine, state: ClusterState) -> bool:
    ref, instance_id = machine
    group = state.groups.get(ref)
    instances = (group.seen.instances or ()) if group is not None else ()
    return any(i.id == instance_id and i.state == InstanceState.RUNNING for i in instances)
