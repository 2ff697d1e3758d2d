"""The machine's own ways of waiting: what the daemon takes as arguments."""

import threading
import time


class ThreadAlarm:
    """Implements Alarm. ``ring`` from any thread."""

    def __init__(self) -> None:
        self._rung = threading.Event()

    def ring(self) -> None:
        self._rung.set()

    def wait(self, seconds: float) -> bool:
        rung = self._rung.wait(max(0.0, seconds))
        self._rung.clear()
        return rung


class BootClock:
    """Seconds since the machine started, also those for which it slept: for what runs out."""

    def now(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def sleep(self, seconds: float) -> None:
        """Return once that much time has passed."""
        time.sleep(max(0.0, seconds))  # noqa: TID251 - as SystemClock
