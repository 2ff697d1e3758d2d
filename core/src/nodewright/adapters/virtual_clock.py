"""Virtual time: it moves only when code sleeps or advances it."""


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
        """Return the virtual time in epoch seconds."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Move time on; raise DeadlinePassed at the earliest deadline on the way."""
        wakes = self._now + max(0.0, seconds)
        deadline = min(self._deadlines, default=wakes)
        self._now = max(self._now, min(wakes, deadline))
        if wakes > deadline:
            raise DeadlinePassed

    def advance_to(self, instant: float) -> None:
        """Move time on to ``instant``; time never runs backwards."""
        self.sleep(instant - self._now)

    def deadline(self, instant: float) -> "Deadline":
        """Within the block no sleep goes past ``instant``. Blocks nest: the earliest deadline holds."""
        return Deadline(self._deadlines, instant)


class Deadline:
    """One entry of a clock's stack of deadlines; plain, for it is on the way of every simulated call."""

    __slots__ = ("_instant", "_stack")

    def __init__(self, stack: list[float], instant: float) -> None:
        self._stack = stack
        self._instant = instant

    def __enter__(self) -> None:
        self._stack.append(self._instant)

    def __exit__(self, *_: object) -> None:
        self._stack.pop()
