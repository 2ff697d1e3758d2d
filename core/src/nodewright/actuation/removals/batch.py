"""Which nodes go in one call, and when (behaviour/down.md A15). Pure."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from nodewright.actuation.removals.removal import ActiveRemoval
from nodewright.model.group import GroupRef


class Batch(NamedTuple):
    """Removals of one group that go together from ``due_at`` on (epoch seconds; infinity: when others have come)."""

    group: GroupRef
    members: tuple[ActiveRemoval, ...]
    due_at: float


def find_batches(under_way: Iterable[ActiveRemoval], interval: float) -> list[Batch]:
    """Every removal that is ready in one batch. ``interval`` is how long the first of a group waits for others.

    Of a zero-or-max group nothing goes before all that must go together are ready.
    """
    ready: dict[GroupRef, list[ActiveRemoval]] = {}
    for going in under_way:
        if going.is_ready:
            ready.setdefault(going.removal.group, []).append(going)
    batches: list[Batch] = []
    for group, members in ready.items():
        needed = max(going.removal.batch for going in members)
        if needed > 1:
            complete = len(members) >= needed
            due = max(going.ready_at for going in members) + interval if complete else math.inf
            batches.append(Batch(group, tuple(members), due))
        elif interval:
            batches.append(Batch(group, tuple(members), min(going.ready_at for going in members) + interval))
        else:
            batches += [Batch(group, (going,), going.ready_at) for going in members]
    return batches
