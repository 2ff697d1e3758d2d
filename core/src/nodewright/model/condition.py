"""Conditions: how an object stands, as every Kubernetes status says it."""

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from nodewright.model.meta import Kube, Time

# The API server takes no longer message, in characters.
MOST_TEXT = 32_768


class Condition(Kube, frozen=True, kw_only=True):
    """One observation of an object."""

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
        """When it last changed (epoch seconds); 0 where it does not say."""
        return self.last_transition_time.timestamp() if self.last_transition_time is not None else 0.0


def as_of(now: float, fresh: Condition, held: Condition | None) -> Condition:
    """The condition as of now (epoch seconds), or as old as its status where ``held`` has the same one, and never of the
    future; no longer than the API server takes it.
    """
    since = datetime.fromtimestamp(now, tz=UTC)
    if held is not None and held.status == fresh.status:
        since = min(since, held.last_transition_time or since)
    return replace(fresh, message=fresh.message[:MOST_TEXT], last_transition_time=since)


def find_condition(held: Sequence[Condition], kind: str) -> Condition | None:
    """The condition of that type."""
    return next((one for one in held if one.type == kind), None)


def with_condition(held: tuple[Condition, ...], fresh: Condition) -> tuple[Condition, ...]:
    """Those with that condition in place of the one of its type, or added."""
    if find_condition(held, fresh.type) is None:
        return (*held, fresh)
    return tuple(fresh if one.type == fresh.type else one for one in held)
