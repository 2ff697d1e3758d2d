"""PUBLIC, for plugins: a cache for results of cloud calls, and a call that pauses after an error.

Each result expires after a random part of the cache time, so that the results do not all expire at once.
"""

from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from random import Random
from typing import Generic, TypeVar

from nodewright.model.clock import Clock
from nodewright.model.errors import CloudBusy, ProviderError, ProviderUnavailable

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
E = TypeVar("E", bound=ProviderError)

_EARLIEST = 0.5
_PASSING_SECONDS = 20.0
_FIRST_REST, _LONGEST_REST = 600.0, 6 * 3600.0


class NotYet(ProviderError):
    """The value is not known yet. The core does not retry after this error: only the next refresh can load the value."""


class ResultCache(Generic[K, V]):
    """Results of cloud calls by key. A ProviderError is cached like a result, and ``get`` raises it.

    ``seconds`` is the longest time for which a result is kept; the shortest is half of it. ``random`` chooses between.
    """

    def __init__(self, clock: Clock, random: Random, seconds: float) -> None:
        self._clock = clock
        self._random = random
        self._seconds = seconds
        self._answers: dict[K, tuple[float, V | ProviderError]] = {}

    def missing(self, keys: Iterable[K]) -> list[K]:
        """Return the keys that have no result or an expired one: each key once, in the given order."""
        now = self._clock.now()
        return [key for key in dict.fromkeys(keys) if key not in self._answers or self._answers[key][0] <= now]

    def load_missing(self, keys: Iterable[K], call: Callable[[K], V], at_once: int = 1) -> None:
        """Call ``call`` for each missing key, in ``at_once`` threads. A ProviderError is cached, not raised."""
        wanted = self.missing(keys)
        for key, answer in zip(wanted, attempt_each(call, wanted, at_once), strict=True):
            self.store(key, answer)

    def store(self, key: K, answer: V | ProviderError) -> None:
        """Cache a result or an error.

        A temporary error (CloudBusy, ProviderUnavailable, NotYet) does not replace a known result. It only delays the
        next call for this key by 20 seconds.
        """
        if isinstance(answer, CloudBusy | ProviderUnavailable | NotYet):
            known = self._answers.get(key, (0.0, not_yet(answer)))[1]
            self._answers[key] = (self._clock.now() + _PASSING_SECONDS, known)
            return
        lasts = self._seconds * self._random.uniform(_EARLIEST, 1.0)
        self._answers[key] = (self._clock.now() + lasts, answer)

    def get(self, key: K) -> V:
        """Return the cached result. Raise the cached ProviderError, or KeyError if the key was never loaded."""
        return unwrap(self._answers[key][1])

    def keep_only(self, keys: Iterable[K]) -> None:
        """Drop all results except those of ``keys``."""
        used = set(keys)
        self._answers = {key: answer for key, answer in self._answers.items() if key in used}


class RestingCall:
    """A call that may fail for long, such as one for prices. After an error it rests: 10 minutes, then longer each time.

    ``problem`` says why the last call failed; empty: it succeeded.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rests_until = 0.0
        self._pause = _FIRST_REST
        self.problem = ""

    @property
    def rests(self) -> bool:
        """Return whether the call must not be made now."""
        return self._clock.now() < self._rests_until

    def take(self, answer: V | ProviderError) -> V | None:
        """Return the answer; None for an error, after which the call rests."""
        if not isinstance(answer, ProviderError):
            self._pause, self.problem = _FIRST_REST, ""
            return answer
        self.problem = str(answer)
        self._rests_until = self._clock.now() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_REST)
        return None


def not_yet(error: ProviderError) -> NotYet:
    """Return a temporary error as NotYet, the error that ``get`` raises until the value is known."""
    return error if isinstance(error, NotYet) else NotYet(f"not known yet: {error}", code=error.code)


def attempt(call: Callable[[], V]) -> V | ProviderError:
    """Return the result of ``call``, or the ProviderError that it raised."""
    try:
        return call()
    except ProviderError as error:
        return error


def attempt_each(call: Callable[[K], V], keys: Iterable[K], at_once: int) -> list[V | ProviderError]:
    """Attempt ``call`` for each key, in ``at_once`` threads. Return the results in the order of the keys.

    Each call runs in a copy of the caller's context, so that ``Meter.within`` holds in these threads, too.
    """
    with ThreadPoolExecutor(at_once, thread_name_prefix="attempt") as pool:
        begun = [pool.submit(copy_context().run, attempt, partial(call, key)) for key in keys]
        return [one.result() for one in begun]


def unwrap(answer: V | ProviderError) -> V:
    """Return ``answer`` if it is a result. Raise a copy of it if it is a ProviderError."""
    if isinstance(answer, ProviderError):
        raise copy_error(answer)
    return answer


def copy_error(error: E) -> E:
    """Return a copy of the error. Without a copy, the core would add group and traceback to one object again and again."""
    fresh = type(error).__new__(type(error), *error.args)
    vars(fresh).update(vars(error))
    return fresh
