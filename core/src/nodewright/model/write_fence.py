"""Whether a write to a cloud may start: only while this process leads, and while what is saved covers the call."""

import math
from collections.abc import Callable, Iterable

from nodewright.model.group import GroupRef

# Nothing is worth beginning with less of the lease.
LEAST_SECONDS = 1.0


class WriteFence:
    """Asked right before each write; ``cover`` tells it what is saved.

    ``now`` is a clock that goes on while the machine sleeps and the process is frozen: whoever wakes finds the gate
    shut. ``remaining`` are the seconds for which nobody else may lead. By default no time passes and nobody else leads,
    as in a simulation. For any number of threads.
    """

    def __init__(self, now: Callable[[], float] = float, remaining: Callable[[], float] = lambda: math.inf) -> None:
        self.now = now
        self._remaining = remaining
        self._until: dict[GroupRef, float] = {}

    def cover(self, groups: Iterable[GroupRef], until: float) -> None:
        """It is saved that writes to these groups may be under way until then, by ``now``."""
        self._until |= dict.fromkeys(groups, until)

    def seconds_covered(self, group: GroupRef) -> float:
        """Return for how long what is saved covers a write to the group."""
        return max(0.0, self._until.get(group, -math.inf) - self.now())

    def why_not(self, group: GroupRef | None, seconds: float) -> str:
        """Return why a write that may take so long must not start now; empty: it may.

        Without a ``group`` the write is to none, and only the lease counts.
        """
        if self._remaining() <= LEAST_SECONDS:
            return "this process does not lead, or will not for much longer"
        if group is not None and self.seconds_covered(group) < seconds:
            return f"what is saved covers no write to {group} that may take {seconds:g} s"
        return ""
