"""The clocks of the machine that the simulated engine runs on: somebody may set its wall clock."""

import math

from nodewright.adapters.simulated.clock import VirtualClock
from nodewright.adapters.steady_clock import SteadyClock
from nodewright.model.clock import Clock

# Where the engine's clock runs slower than ours, what is due is looked at again after this long at the least.
_STEP_SECONDS = 0.01


class EngineClock:
    """What time it is for the engine, beside the ``true`` time, which is that of the clouds and the cluster."""

    def __init__(self, true: VirtualClock) -> None:
        self._true = true
        self._ahead = 0.0
        self._jumps = False
        self._ours: Clock = true

    def expect_jumps(self) -> None:
        """Before the first engine starts; without jumps its time is exactly the true one."""
        self._jumps = True

    def jump(self, seconds: float) -> None:
        """Set the wall clock."""
        self._ahead += seconds

    def start(self) -> Clock:
        """Return the clock of an engine that starts now."""
        if self._jumps:
            self._ours = SteadyClock(lambda: self._true.now() + self._ahead, self._true.now, self._true.sleep)
        return self._ours

    def true_time(self, when: float) -> float:
        """Return when the engine's clock will say so, by the true time, as far as its pace is known."""
        if not self._jumps or math.isinf(when):
            return when
        wait = when - self._ours.now()
        return self._true.now() + (max(wait, _STEP_SECONDS) if wait > 0 else 0.0)
