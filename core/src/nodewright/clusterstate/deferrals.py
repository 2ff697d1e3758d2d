"""Groups that wait because the cloud was busy. Nothing is wrong with them: no failure, no backoff."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from nodewright.clusterstate.state import Deferral
from nodewright.model.action import (
    CreateNodeGroup,
    DecreaseTargetSize,
    DeleteInstances,
    DeletionCause,
    Failed,
    IncreaseSize,
    Outcome,
)
from nodewright.model.group import GroupRef

# The pause after the first busy answer; it doubles with each further one in a row, up to the longest. Seconds.
FIRST_PAUSE = 10.0
LONGEST_PAUSE = 120.0
# The cloud may ask for more than that; more than this is not granted. Seconds.
LONGEST_TOLD = 600.0
# A busy answer so long after the last pause has ended is a first one again. Seconds.
_FORGET = 600.0


def deferrals_after(
    held: Mapping[GroupRef, Deferral], outcomes: Iterable[Outcome], now: float
) -> dict[GroupRef, Deferral]:
    """Return the deferrals once these calls are known. Any other answer ends a group's deferral.

    The deletion that ends a drained removal does not count: the removal itself waits and asks again.
    """
    found = {ref: deferral for ref, deferral in held.items() if now <= deferral.until + _FORGET}
    for outcome in outcomes:
        if not _is_deferrable(outcome):
            continue
        ref = outcome.action.group
        if isinstance(outcome, Failed) and outcome.retry_after is not None:
            times = found[ref].times + 1 if ref in found else 1
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(times - 1, 10))
            pause = max(pause, min(outcome.retry_after, LONGEST_TOLD))
            found[ref] = Deferral(
                until=now + pause, pause=pause, times=times, code=outcome.code, message=outcome.message
            )
        else:
            found.pop(ref, None)
    return found


def _is_deferrable(outcome: Outcome) -> bool:
    action = outcome.action
    if isinstance(action, DeleteInstances):
        return action.cause != DeletionCause.REMOVAL
    return isinstance(action, (IncreaseSize, DecreaseTargetSize, CreateNodeGroup))


def is_deferred(deferral: Deferral | None, now: float) -> bool:
    return deferral is not None and now < deferral.until


def no_later(held: Deferral, now: float) -> Deferral:
    """Return the deferral as it would be had it begun no later than now."""
    return replace(held, until=min(held.until, now + held.pause))
