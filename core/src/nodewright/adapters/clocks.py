"""Clocks: steady time, which never follows jumps of the wall clock (docs/adr/0026-steady-time.md), and virtual time."""

import threading
import time
from collections.abc import Callable

# How much faster or slower than real time the clock runs while it follows a correction of the wall clock.
FOLLOWS = 0.1


class SteadyClock:
    """Implements Clock: wall time at the start and the time that has passed since, from any thread.

    ``wall`` is the time of day, which may be corrected; ``elapsed`` only goes on. The difference between the two is made
    up for by running a tenth faster or slower: no duration is wrong by more than a tenth.
    """

    def __init__(self, wall: Callable[[], float], elapsed: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._wall = wall
        self._elapsed = elapsed
        self._sleep = sleep
        self._lock = threading.Lock()
        # The time that was returned last, and the value of ``elapsed`` then.
        self._last = (wall(), elapsed())

    def start(self) -> None:
        """Adopt the wall clock's time at once, even an earlier one. Call it before anything depends on this clock."""
        with self._lock:
            self._last = (self._wall(), self._elapsed())

    def now(self) -> float:
        """Return the seconds since the Unix epoch; never less than before."""
        with self._lock:
            told, at = self._last
            elapsed = self._elapsed()
            passed = max(0.0, elapsed - at)
            most = FOLLOWS * passed
            ahead = min(most, max(-most, self._wall() - told - passed))
            now = told + passed + ahead
            self._last = (now, elapsed)
            return now

    def sleep(self, seconds: float) -> None:
        """Return once that much time has passed."""
        self._sleep(max(0.0, seconds))

    def behind(self) -> float:
        """Return by how many seconds the wall clock is ahead of this one; negative: this one is ahead."""
        return self._wall() - self.now()


class SystemClock:
    """Real time."""

    def now(self) -> float:
        """Return the seconds since the Unix epoch."""
        return time.time()  # noqa: TID251 - this is the clock that everything else takes as an argument

    def sleep(self, seconds: float) -> None:
        """Return once that much time has passed."""
        time.sleep(max(0.0, seconds))  # noqa: TID251 - as above


class ThreadAlarm:
    """Implements Alarm. Any thread may call ``ring``."""

    def __init__(self) -> None:
        self._rung = threading.Event()
        self._urgent = threading.Event()

    def ring(self) -> None:
        self._rung.set()

    def ring_urgently(self) -> None:
        self._urgent.set()
        self._rung.set()

    def take_urgent(self) -> bool:
        """Return whether ``ring_urgently`` was called since the last call."""
        is_urgent = self._urgent.is_set()
        if is_urgent:
            self._urgent.clear()
        return is_urgent

    def wait(self, seconds: float) -> bool:
        rung = self._rung.wait(max(0.0, seconds))
        self._rung.clear()
        return rung


class BootClock:
    """Seconds since the machine booted, including the time for which it was suspended. For leases."""

    def now(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def sleep(self, seconds: float) -> None:
        """Return once that much time has passed."""
        time.sleep(max(0.0, seconds))  # noqa: TID251 - as SystemClock


class DeadlinePassed(BaseException):
    """Virtual time reached the deadline of the current call. It ends the call, as ThreadRunner abandons one.

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
        """Let no sleep within the block go past ``instant``. Blocks nest: the earliest deadline holds."""
        return Deadline(self._deadlines, instant)


class Deadline:
    """One entry of a clock's stack of deadlines. A plain class for speed: every simulated call makes one."""

    __slots__ = ("_instant", "_stack")

    def __init__(self, stack: list[float], instant: float) -> None:
        self._stack = stack
        self._instant = instant

    def __enter__(self) -> None:
        self._stack.append(self._instant)

    def __exit__(self, *_: object) -> None:
        self._stack.pop()
