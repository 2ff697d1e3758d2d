"""Leadership state of this process."""

import math

from nodewright.adapters.kube.lease import Leadership
from nodewright.adapters.logs import JsonLog
from nodewright.adapters.metrics import LeaseCounts
from nodewright.cli.daemon.debug_server import NO_LOOP


class LeaderState:
    """Tells whether this process leads, and how long it may write.

    Without ``leadership`` (no leader election) it always leads. With ``only_looks`` (dry run) it never writes.
    """

    def __init__(self, leadership: Leadership | None, log: JsonLog, *, only_looks: bool) -> None:
        self._leadership, self._log, self._only_looks = leadership, log, only_looks
        self._has_begun = self._is_over = False

    @property
    def leads(self) -> bool:
        return self._leadership is None or self._leadership.remaining() > 0

    @property
    def holder(self) -> str:
        """Return the process that leads; empty if not known."""
        return self._leadership.holder if self._leadership is not None else ""

    def begin(self, lease: str) -> bool:
        """Wait to become the leader; return False if the process is to end before."""
        if self._leadership is not None:
            self._log.say("waiting to become the leader", lease=lease)
            if not self._leadership.acquire() or self._is_over:
                return False
            self._log.say("leading")
        self._has_begun = True
        return True

    def stop(self) -> None:
        """Stop waiting for the lease; call it from any thread, but not from a signal handler. ``release`` ends a held lease."""
        self._is_over = True
        if self._leadership is not None and not self._has_begun:
            self._leadership.stop()

    def release(self) -> None:
        """Give up the lease."""
        if self._leadership is not None:
            self._leadership.release()

    def remaining(self) -> float:
        """Return for how many seconds this process may write; inf without leader election, 0 in a dry run."""
        if self._only_looks:
            return 0.0
        return self._leadership.remaining() if self._leadership is not None else math.inf

    def excuse(self) -> str:
        """Return why there was no loop yet."""
        if self._leadership is None or self._has_begun:
            return NO_LOOP
        return f"this replica does not lead, so it has no snapshot: ask {self.holder or 'again later'}"

    def counts(self) -> LeaseCounts:
        held = self._leadership
        return LeaseCounts(held.renewed, held.failed, held.remaining()) if held is not None else LeaseCounts()
