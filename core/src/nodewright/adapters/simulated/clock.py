"""Virtual time: it moves only when somebody sleeps or says so."""

from collections.abc import Iterator
from contextlib import contextmanager


class DeadlinePassed(BaseException):
    """Virtual time reached the deadline of the call at hand; ends the call, as abandoning it would.

    Not an Exception: a plugin that catches every Exception must not survive its deadline.
    """


class VirtualClock:
    """A clock for simulations and tests; deterministic, for one thread."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._deadlines: list[float] = []

    def now(self) -> float:
        """Seconds since the Unix epoch of this world."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Move time on; raises DeadlinePassed at the earliest deadline on the way."""
        wakes = self._now + max(0.0, seconds)
        deadline = min(self._deadlines, default=wakes)
        self._now = max(self._now, min(wakes, deadline))
        if wakes > deadline:
            raise DeadlinePassed

    def advance_to(self, instant: float) -> None:
        """Move time on to ``instant``; time never runs backwards."""
        self.sleep(instant - self._now)

    @contextmanager
    def deadline(self, instant: float) -> Iterator[None]:
        """Within the block no sleep goes past ``instant``. Blocks nest: the earliest deadline holds."""
        self._deadlines.append(instant)
        try:
            yield
        finally:
            self._deadlines.pop()
