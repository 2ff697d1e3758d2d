"""Errors for the next calls, for the test servers of all clouds."""

import threading
from collections.abc import Callable
from email.utils import formatdate
from enum import Enum, auto
from typing import Generic, TypeVar

from nodewright.adapters.clocks import DeadlinePassed
from nodewright.model.clock import Clock

A = TypeVar("A")


def retry_headers(retry_after: str, now: float) -> dict[str, str]:
    """The headers of a refusal at ``now`` that asks for a pause, in seconds or until a date; none if empty."""
    return {"Retry-After": retry_after, "Date": formatdate(now, usegmt=True)} if retry_after else {}


class Mishap(Enum):
    """What happens in place of an answer."""

    LOST = auto()  # the call takes effect, and its answer is lost
    STALLS = auto()  # the call is never answered
    GIVEN_UP = auto()  # the caller hung up, tired of waiting: the call takes no effect


class Mishaps(Generic[A]):
    """Each happens once, in the order in which they were planned; ``A`` is an answer of the cloud. Safe for threads."""

    def __init__(self) -> None:
        self._coming: list[tuple[str, A | Mishap]] = []
        self._before: list[Callable[[], object]] = []
        # How many calls are spared before one alone meets what is planned; None: each call meets it.
        self._spared: int | None = None
        self._dawdle: Callable[[], bool] | None = None
        self._lock = threading.Lock()

    def plan(self, operation: str, what: A | Mishap) -> None:
        """The next call of the operation ends so."""
        with self._lock:
            self._coming.append((operation, what))

    def spare(self, calls: int) -> None:
        """Of all calls that something is planned for, these come through, and the one after them alone meets it."""
        with self._lock:
            self._spared = calls

    def before_write(self, happening: Callable[[], object]) -> None:
        """Takes place when the next write of a size has arrived and was not looked at yet."""
        self._before.append(happening)

    def slow(self, seconds: float, patience: float, clock: Clock) -> None:
        """From now on each answer takes that long on the clock. After ``patience`` seconds the caller hangs up."""

        def dawdle() -> bool:
            try:
                clock.sleep(min(seconds, patience))
            except DeadlinePassed:  # the core's patience ended before the caller's: its runner tells it (Punctual)
                return True
            return seconds > patience

        self._dawdle = dawdle

    def write_arrives(self) -> None:
        happenings, self._before = self._before, []
        for happening in happenings:
            happening()

    def take(self, operation: str) -> A | Mishap | None:
        """What happens to this call; None: nothing."""
        if self._dawdle is not None and self._dawdle():
            return Mishap.GIVEN_UP
        with self._lock:
            found = next((coming for coming in self._coming if coming[0] == operation), None)
            if found is None:
                return None
            if self._spared is not None:
                self._spared -= 1
                if self._spared >= 0:
                    return None
                self._coming, self._spared = [], None
                return found[1]
            self._coming.remove(found)
            return found[1]

    def forget(self) -> None:
        """Nothing of what was planned happens any more."""
        with self._lock:
            self._coming, self._before, self._spared, self._dawdle = [], [], None, None

    def left(self) -> list[str]:
        """Operations of which no call has come so far."""
        return [operation for operation, _ in self._coming]
