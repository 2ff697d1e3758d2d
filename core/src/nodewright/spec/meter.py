"""PUBLIC, for plugins: count the calls to a cloud by result, limit them per minute, and read Retry-After headers."""

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from nodewright.model.clock import Clock
from nodewright.model.errors import ProviderError, ProviderUnavailable, Throttled
from nodewright.spec.diagnosis import ApiCalls

T = TypeVar("T")
# The longest wait that a response may ask for, in seconds: a wrong date must not stop a plugin for years.
LONGEST_RETRY_AFTER = 3600.0
# A diagnose of many calls begins none later than so many seconds after its start: with the call that is under way then, it
# ends before its deadline of 60 seconds.
EXAMINED_WITHIN = 25.0
# When, by the clock of the meter, this thread begins no further call.
_ENDS_AT: ContextVar[float] = ContextVar("ends_at", default=math.inf)


def read_retry_after(headers: Mapping[str, str]) -> float:
    """Return the header Retry-After of a response in seconds, from 0 to LONGEST_RETRY_AFTER; 0: missing or not readable.

    It is a number of seconds or a date (RFC 9110, 10.2.3). A date is compared with the response's own Date header, because the
    clocks of this machine and of the cloud may differ; without that header it is not readable. Names match in any case.
    """
    told = {name.lower(): text for name, text in headers.items()}
    text = told.get("retry-after", "")
    try:
        seconds = float(text)
    except ValueError:
        until, answered = _read_date(text), _read_date(told.get("date", ""))
        seconds = (until - answered).total_seconds() if until and answered else 0.0
    return min(seconds, LONGEST_RETRY_AFTER) if seconds > 0 else 0.0  # NaN gives 0, too


def _read_date(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text).replace(tzinfo=UTC)  # GMT, as HTTP demands
    except (ValueError, TypeError, IndexError, OverflowError):  # the parser raises each of them for some text
        return None


class Meter:
    """Counts calls, and refuses reads that exceed ``calls_per_minute``.

    Urgent calls (writes, and the reads that belong to them) are never refused, but count against the limit. Thread-safe.
    """

    def __init__(self, clock: Clock, calls_per_minute: int) -> None:
        self._clock = clock
        self._most = float(calls_per_minute)
        self._left = self._most
        self._filled_at = clock.now()
        self._made: dict[tuple[str, str], tuple[int, float]] = {}
        self._lock = threading.Lock()

    def call(self, operation: str, call: Callable[[], T], *, urgent: bool = False) -> T:
        """Make the call and return its result.

        Raise Throttled (``retry_after`` in seconds) without calling if the limit is reached and the call is not urgent.
        Raise ProviderUnavailable without calling if the time of ``within`` is over.
        """
        if self._clock.now() >= _ENDS_AT.get():
            raise ProviderUnavailable(f"{operation}: not asked, the calls before it took too long")
        self._pay(operation, urgent=urgent)
        started, result = self._clock.now(), "ok"
        try:
            return call()
        except ProviderError as error:
            result = error.code
            raise
        finally:
            self._record(operation, result, self._clock.now() - started)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Begin no call later than ``seconds`` from now: a hook of many calls ends before its deadline.

        This holds for the calling thread, and for the calls that it lets ``attempt_each`` make.
        """
        before = _ENDS_AT.set(self._clock.now() + seconds)
        try:
            yield
        finally:
            _ENDS_AT.reset(before)

    def made(self) -> tuple[ApiCalls, ...]:
        """Return the calls made so far, sorted by operation and result."""
        with self._lock:
            return tuple(
                ApiCalls(operation=operation, result=result, calls=calls, seconds=seconds)
                for (operation, result), (calls, seconds) in sorted(self._made.items())
            )

    def _pay(self, operation: str, *, urgent: bool) -> None:
        with self._lock:
            now = self._clock.now()
            self._left = min(self._most, self._left + max(0.0, now - self._filled_at) * self._most / 60)
            self._filled_at = now
            if self._left < 1 and not urgent:
                wait = (1 - self._left) * 60 / self._most
                raise Throttled(
                    f"{operation}: the budget of {self._most:g} calls per minute is used up", retry_after=wait
                )
            self._left -= 1

    def _record(self, operation: str, result: str, seconds: float) -> None:
        with self._lock:
            calls, spent = self._made.get((operation, result), (0, 0.0))
            self._made[operation, result] = (calls + 1, spent + seconds)
