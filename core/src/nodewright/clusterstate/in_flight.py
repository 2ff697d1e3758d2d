"""Writes that a former engine may have under way: their groups are held until these are over
(docs/adr/0025-a-short-lease.md).
"""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from nodewright.model.group import GroupRef
from nodewright.snapshot.observation import GroupSeen, Observation

HELD = "the process that led before may still be writing to it"


class WriteInFlight(msgspec.Struct, frozen=True, kw_only=True):
    """A write to a group that is about to be made. It is over by ``until`` (epoch seconds), ``seconds`` after this was
    saved.

    ``target`` is the group's target once it took effect (None: only machines are deleted; -1: the group is gone),
    ``instance_ids`` are the machines that are then gone or on their way out.
    """

    until: float
    seconds: float
    target: int | None = None
    instance_ids: tuple[str, ...] = ()


WritesInFlight = Mapping[GroupRef, WriteInFlight]


def unsettled(writes: WritesInFlight, seen: Observation) -> dict[GroupRef, WriteInFlight]:
    """Return the writes that may still take effect: neither is their time over, nor is their effect seen."""
    return {
        ref: write
        for ref, write in writes.items()
        if seen.now < write.until and not _has_effect(write, seen.groups.get(ref))
    }


def held(seen: Observation, writes: WritesInFlight) -> Observation:
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
