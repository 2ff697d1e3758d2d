"""The clock interface. Code below the engine never reads the machine's clock: it gets a Clock or a time."""

from typing import Protocol


class Clock(Protocol):
    """A source of time: the machine's clock in production, a virtual clock in simulations and tests."""

    def now(self) -> float:
        """Return the time in seconds since the Unix epoch."""

    def sleep(self, seconds: float) -> None:
        """Return after ``seconds`` have passed on this clock."""
