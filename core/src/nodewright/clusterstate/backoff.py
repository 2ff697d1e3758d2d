"""How long a group is left alone after a failure."""

from collections.abc import Mapping

from msgspec.structs import replace

from nodewright.clusterstate.state import Backoff, Failure
from nodewright.model.group import GroupRef
from nodewright.model.settings import FailureSettings

# A group that only shares a scope with the one that failed is left alone for this part of a first backoff.
_SHARED_PART = 0.5


def after_failure(held: Backoff | None, settings: FailureSettings, failure: Failure) -> Backoff:
    """The backoff that a failure leaves: a first one starts short, one after an ended backoff doubles it.

    A failure while the backoff lasts changes what is shown, not how long it lasts from now. A group that had only shared
    another group's backoff fails for the first time.
    """
    asked = failure.asked
    if held is None or held.shared_from:
        duration = settings.initial_node_group_backoff_duration
    elif held.until < failure.at:
        duration = min(2 * held.duration, settings.max_node_group_backoff_duration)
    else:
        duration, asked = held.duration, max(asked, held.asked)
    return replace(_from(failure, duration), asked=asked)


def shared_backoff(settings: FailureSettings, failure: Failure) -> Backoff:
    """Return the backoff of a group that did not fail itself: it ends before the one of the group that failed."""
    part = _SHARED_PART * settings.initial_node_group_backoff_duration
    return replace(_from(failure, part), shared_from=str(failure.group))


def _from(failure: Failure, duration: float) -> Backoff:
    """Return a backoff of so many seconds that tells what failed."""
    return Backoff(
        until=failure.at + duration,
        duration=duration,
        last_failure=failure.at,
        error_class=failure.error_class,
        code=failure.code,
        message=failure.message,
    )


def is_active(backoff: Backoff | None, now: float) -> bool:
    return backoff is not None and not backoff.until < now


def without_stale(
    backoffs: Mapping[GroupRef, Backoff], settings: FailureSettings, now: float
) -> dict[GroupRef, Backoff]:
    """What is still remembered: an entry is forgotten a good while after its last failure."""
    reset = settings.node_group_backoff_reset_timeout
    return {ref: backoff for ref, backoff in backoffs.items() if not backoff.last_failure + reset < now}
