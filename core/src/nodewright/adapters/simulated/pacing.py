"""When the engine runs in virtual time: at every tick, or only at ticks that can matter."""

import math


class Pacing:
    """The grid of ticks on which loops fall, one scan interval apart, shifted by each loop that ran.

    A tick matters when the world changed since the last loop, when a timer has passed, or when the last loop
    left work unsettled. All others would change nothing, so that leaving them out gives the same outcome.
    """

    def __init__(self, start: float, interval: float, *, every_tick: bool = False) -> None:
        self._interval = interval
        self._every_tick = every_tick
        self._due = start
        self._changed = -math.inf
        self._timer = math.inf

    def changed(self, at: float) -> None:
        """The world changed."""
        self._changed = min(self._changed, at)

    def ran(self, due: float, *, settled: bool, timer: float) -> None:
        """A loop ran; the next tick is ``due``. ``timer``: see ``LoopReport.next_timer``."""
        self._due = due
        self._changed = math.inf if settled else -math.inf
        self._timer = timer

    def next_loop(self) -> float:
        """When the engine runs next, unless the world changes before; infinity: only if it does."""
        if self._every_tick:
            return self._due
        wake = math.inf
        if self._changed < math.inf:
            wake = self._tick(math.ceil((self._changed - self._due) / self._interval) if self._is_late() else 0)
        if self._timer < math.inf:
            wake = min(wake, self._tick(math.floor((self._timer - self._due) / self._interval) + 1))
        return wake

    def _is_late(self) -> bool:
        return self._changed > self._due

    def _tick(self, number: int) -> float:
        return self._due + max(0, number) * self._interval
