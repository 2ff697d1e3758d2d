"""Time as an argument: nothing below the engine reads a clock of its own."""

from typing import Protocol


class Clock(Protocol):
    """Where time comes from: the machine's in production, virtual in simulation and tests."""

    def now(self) -> float:
        """Seconds since the Unix epoch."""

    def sleep(self, seconds: float) -> None:
        """Return once that much time has passed on this clock."""
