"""Groups that cannot be read now: what they count as, from when they last were and from what was done since."""

from collections.abc import Sequence
from dataclasses import replace

from nodewright.clusterstate.state import Memory
from nodewright.model.action import Done, Failed, IncreaseSize, Outcome
from nodewright.model.group import GroupRef, InstanceState
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import GroupSeen, Observation


def known_groups(seen: Observation, memory: Memory, settings: Settings) -> dict[GroupRef, GroupSeen]:
    """Every group, an Unknown one as it was when it could last be read; one that was only remembered is not known."""
    groups = dict(seen.groups)
    unread = [ref for ref, group in groups.items() if not group.is_known and _was_known(memory.last_known.get(ref))]
    for ref in unread:
        groups[ref] = memory.last_known[ref]
    if not unread or settings.size_correction != "prompt":
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
