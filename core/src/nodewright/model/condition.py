"""Conditions in the status of Kubernetes objects."""

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from nodewright.model.meta import Kube, Time

# The longest message that the API server accepts, in characters.
MOST_TEXT = 32_768


class Condition(Kube, frozen=True, kw_only=True):
    """One condition of an object."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None
    observed_generation: int = 0

    @property
    def is_true(self) -> bool:
        return self.status == "True"

    @property
    def since(self) -> float:
        """Return the time of the last change of status, in seconds since the epoch; 0 if it is not given."""
        return self.last_transition_time.timestamp() if self.last_transition_time is not None else 0.0


def as_of(now: float, fresh: Condition, held: Condition | None) -> Condition:
    """Return the condition with its transition time, and its message cut to MOST_TEXT.

    The transition time is ``now`` (seconds since the epoch). If ``held`` has the same status, it is the time of
    ``held``, but not later than ``now``.
    """
    since = datetime.fromtimestamp(now, tz=UTC)
    if held is not None and held.status == fresh.status:
        since = min(since, held.last_transition_time or since)
    return replace(fresh, message=fresh.message[:MOST_TEXT], last_transition_time=since)


def find_condition(held: Sequence[Condition], kind: str) -> Condition | None:
    """Return the condition of this type; None if there is none."""
    return next((one for one in held if one.type == kind), None)


def with_condition(held: tuple[Condition, ...], fresh: Condition) -> tuple[Condition, ...]:
    """Return the conditions with ``fresh`` added, or in place of the one of the same type."""
    if find_condition(held, fresh.type) is None:
        return (*held, fresh)
    return tuple(fresh if one.type == fresh.type else one for one in held)
