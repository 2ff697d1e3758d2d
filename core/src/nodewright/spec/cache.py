"""PUBLIC, for plugins: answers that are kept for a while, each ended a little early by chance, so that they are not all
asked again at once.
"""

from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Generic, TypeVar

from nodewright.model.clock import Clock
from nodewright.model.errors import CloudBusy, ProviderError, ProviderUnavailable

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
E = TypeVar("E", bound=ProviderError)

_EARLIEST = 0.5
_PASSING_SECONDS = 20.0


class NotYet(ProviderError):
    """The cloud did not tell so far. No kind of error for which the core would wait: only the next refresh can help."""


class Kept(Generic[K, V]):
    """Answers by key; a refusal is kept too, as an answer that raises."""

    def __init__(self, clock: Clock, random: Random, seconds: float) -> None:
        self._clock = clock
        self._random = random
        self._seconds = seconds
        self._answers: dict[K, tuple[float, V | ProviderError]] = {}

    def missing(self, keys: Iterable[K]) -> list[K]:
        """Each key once that has no answer, or one out of date, in their order."""
        now = self._clock.now()
        return [key for key in dict.fromkeys(keys) if key not in self._answers or self._answers[key][0] <= now]

    def learn(self, keys: Iterable[K], question: Callable[[K], V], at_once: int = 1) -> None:
        """Ask for what is missing, so many at a time. Nothing is raised: a refusal is kept."""
        wanted = self.missing(keys)
        for key, answer in zip(wanted, ask_each(question, wanted, at_once), strict=True):
            self.keep(key, answer)

    def keep(self, key: K, answer: V | ProviderError) -> None:
        """Trouble that passes is kept for a moment only, and never in place of an answer."""
        if isinstance(answer, CloudBusy | ProviderUnavailable | NotYet):
            known = self._answers.get(key, (0.0, not_yet(answer)))[1]
            self._answers[key] = (self._clock.now() + _PASSING_SECONDS, known)
            return
        lasts = self._seconds * self._random.uniform(_EARLIEST, 1.0)
        self._answers[key] = (self._clock.now() + lasts, answer)

    def get(self, key: K) -> V:
        """Raises the refusal that was kept, and KeyError for what was never asked."""
        return tell(self._answers[key][1])

    def forget_others(self, keys: Iterable[K]) -> None:
        """Drop what nobody asks for any more."""
        used = set(keys)
        self._answers = {key: answer for key, answer in self._answers.items() if key in used}


def not_yet(error: ProviderError) -> NotYet:
    """Trouble that passes, as it is told until the next refresh."""
    return error if isinstance(error, NotYet) else NotYet(f"not known yet: {error}", code=error.code)


def ask(question: Callable[[], V]) -> V | ProviderError:
    """The answer, or the refusal as a value."""
    try:
        return question()
    except ProviderError as error:
        return error


def ask_each(question: Callable[[K], V], keys: Iterable[K], at_once: int) -> list[V | ProviderError]:
    """``ask`` for each key, so many at a time; the answers in the keys' order."""
    with ThreadPoolExecutor(at_once, thread_name_prefix="ask") as pool:
        return list(pool.map(lambda key: ask(lambda: question(key)), keys))


def tell(answer: V | ProviderError) -> V:
    """The other way round: the answer, and a refusal is raised."""
    if isinstance(answer, ProviderError):
        raise anew(answer)
    return answer


def anew(error: E) -> E:
    """A new one each time: the core notes in an error whose group it was, and it would grow with every raise."""
    fresh = type(error).__new__(type(error), *error.args)
    vars(fresh).update(vars(error))
    return fresh
