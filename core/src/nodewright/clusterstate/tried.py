"""Deletions that were tried and whose machines are still there: they rest for a while before they are tried again."""

from collections.abc import Mapping, Sequence

from nodewright.clusterstate.state import ClusterState, Memory
from nodewright.model.action import DeleteInstances, Outcome, Unknown
from nodewright.model.group import GroupRef
from nodewright.snapshot.observation import GroupSeen


def tried_deletions(
    memory: Memory, groups: Mapping[GroupRef, GroupSeen], outcomes: Sequence[Outcome]
) -> dict[tuple[GroupRef, str], float]:
    """Return when each machine or failure that is still there was last asked to be deleted, however the call ended.

    A call that a busy cloud refused does not count: the group waits as the cloud asked (registry/deferrals.py).
    A call without an answer took minutes: it rests the whole group, or the next machine would cost them again.
    """
    tried = dict(memory.deletion_tried)
    for outcome in outcomes:
        action = outcome.action
        if outcome.is_busy:
            continue
        if isinstance(action, DeleteInstances) and action.group in groups:
            hung = isinstance(outcome, Unknown)
            ids = _present(groups[action.group]) if hung else action.instance_ids
            tried |= {(action.group, instance_id): outcome.started for instance_id in ids}
    there = {ref: _present(groups[ref]) for ref in {ref for ref, _ in tried} if ref in groups}
    return {machine: at for machine, at in tried.items() if machine[1] in there.get(machine[0], ())}


def is_resting(state: ClusterState, ref: GroupRef, instance_id: str, pause: float) -> bool:
    """Whether the deletion was tried less than ``pause`` seconds ago."""
    tried = state.memory.deletion_tried.get((ref, instance_id))
    return tried is not None and not tried + pause < state.now


def _present(group: GroupSeen) -> set[str]:
    """What may be asked to be deleted: machines that are not on their way out, and failures."""
    there = {instance.id for instance in group.staying}
    return there | {failure.instance_id or failure.failure_id for failure in group.failed or ()}
