"""A group whose backoff has ended must prove itself: little is asked of it until it delivers (design.md §6)."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from nodewright.clusterstate.arrivals import find_arrived
from nodewright.clusterstate.backoff import is_active
from nodewright.clusterstate.case import find_increases
from nodewright.clusterstate.membership import Membership
from nodewright.clusterstate.state import Backoff, GroupState, Memory
from nodewright.model.action import Outcome
from nodewright.model.group import GroupRef

# One machine, then two, then four, then as many as are needed.
_STEPS = 3


def allowance(backoff: Backoff | None, now: float) -> int | None:
    """How many machines a group on probation may be asked for; None for one that is not.

    Probation ends when the group has proved itself, fails again, or the failure is forgotten. A group that only shared
    the backoff of another did not fail: it has nothing to prove.
    """
    if backoff is None or backoff.shared_from or is_active(backoff, now) or backoff.delivered >= _STEPS:
        return None
    return int(2**backoff.delivered)


def without_probation(backoffs: Mapping[GroupRef, Backoff]) -> dict[GroupRef, Backoff]:
    """The backoffs where nothing is probed: whoever reads them later finds every group proven."""
    return {
        ref: backoff if backoff.delivered >= _STEPS else replace(backoff, delivered=_STEPS)
        for ref, backoff in backoffs.items()
    }


def left_to_ask(group: GroupState, now: float) -> int | None:
    """What is left of the allowance: machines that are still owed use it up. None without probation."""
    most = allowance(group.backoff, now)
    return None if most is None else max(0, most - sum(request.increase for request in group.requests))


def after_deliveries(
    backoffs: Mapping[GroupRef, Backoff],
    memory: Memory,
    outcomes: Sequence[Outcome],
    states: Mapping[GroupRef, GroupState],
    members: Membership,
    now: float,
) -> dict[GroupRef, Backoff]:
    """The backoffs after requests that were made on probation have arrived in full.

    A failure in the same loop is stronger: with it the next backoff has begun.
    """
    changed = dict(backoffs)
    for ref, backoff in backoffs.items():
        group = states.get(ref)
        if group is None or allowance(backoff, now) is None:
            continue
        increases = find_increases(outcome for outcome in outcomes if outcome.action.group == ref)
        asked = {request.started for request in memory.requests.get(ref, ())} | {
            increase.started for increase in increases
        }
        settled = asked - {request.started for request in group.requests}
        delivered = sum(started > backoff.until for started in settled)
        if delivered and find_arrived(group.seen, members, memory):
            changed[ref] = replace(backoff, delivered=min(_STEPS, backoff.delivered + delivered))
    return changed
