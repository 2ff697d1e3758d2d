"""Decide whether a write to a cloud may start: only while this process is leader and the saved state covers the call."""

import math
from collections.abc import Callable, Iterable

from nodewright.model.group import GroupRef

# No write starts when the lease lasts no longer than this.
LEAST_SECONDS = 1.0


class WriteFence:
    """Checked right before each write; ``cover`` says for which writes the saved state is sufficient.

    ``now`` is a clock that continues while the machine sleeps or the process is frozen, so that a process that wakes up
    does not write. ``remaining`` returns the seconds for which no other process can become leader. By default time stands
    still and this process leads, as in a simulation. Thread-safe.
    """

    def __init__(self, now: Callable[[], float] = float, remaining: Callable[[], float] = lambda: math.inf) -> None:
        self.now = now
        self._remaining = remaining
        self._until: dict[GroupRef, float] = {}

    def cover(self, groups: Iterable[GroupRef], until: float) -> None:
        """Note that the saved state allows for writes to these groups until the time ``until``, on the clock ``now``."""
        self._until |= dict.fromkeys(groups, until)

    def seconds_covered(self, group: GroupRef) -> float:
        """Return for how many seconds the saved state covers a write to the group."""
        return max(0.0, self._until.get(group, -math.inf) - self.now())

    def why_not(self, group: GroupRef | None, seconds: float) -> str:
        """Return why a write that may take ``seconds`` must not start now; empty: it may start.

        For a write without a ``group`` only the lease counts.
        """
        if self._remaining() <= LEAST_SECONDS:
            return "this process does not lead, or will not for much longer"
        if group is not None and self.seconds_covered(group) < seconds:
            return f"the saved state covers no write to {group} that may take {seconds:g} s"
        return ""
