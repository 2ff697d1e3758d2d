"""When a loop starts before the scan interval ends, because a deadline passes that pods wait for."""

import math

# A deadline has passed when the time is greater: so many seconds later it is, however clocks round.
_AFTER = 0.01
# The least pause between two loops that deadlines start, in seconds.
_LEAST_PAUSE = 1.0


class WakeUps:
    """Starts a loop right after each deadline, and never turns fast where deadlines remain due.

    Loops that deadlines start one right after the other are at least a second apart. Where such a loop does nothing, the
    pause after it is twice as long as the last one, up to the scan interval, until a deadline is further away.
    """

    def __init__(self) -> None:
        self._pause = 0.0
        self._wake_at = math.inf

    def next_at(self, deadline: float, *, started: float, did_something: bool, scan_interval: float) -> float:
        """Return when the deadline starts the next loop (epoch seconds); infinity: there is none.

        ``started`` is when the loop started that found the ``deadline``, and ``did_something`` whether that loop wrote.
        """
        if self._wake_at <= started:
            longer = _LEAST_PAUSE if did_something else max(_LEAST_PAUSE, 2 * self._pause)
            self._pause = min(longer, scan_interval)
        if deadline > started + self._pause:
            self._pause = 0.0
        self._wake_at = max(deadline + _AFTER, started + self._pause)
        return self._wake_at
