"""The machine's own clock: the only place that reads it."""

import time


class SystemClock:
    """Real time, for what is no simulation."""

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        return time.time()  # noqa: TID251 - this is the clock that everything else takes as an argument

    def sleep(self, seconds: float) -> None:
        """Return once that much time has passed."""
        time.sleep(max(0.0, seconds))  # noqa: TID251 - as above
