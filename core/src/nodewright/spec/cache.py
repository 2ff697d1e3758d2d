"""PUBLIC, for plugins: answers that are kept for a while, each ended a little early by chance, so that they are not all
asked again at once.
"""

from collections.abc import Callable, Hashable, Iterable
from random import Random
from typing import Generic, TypeVar

from nodewright.model.clock import Clock
from nodewright.model.errors import ProviderError, ProviderUnavailable, Throttled

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

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

    def keep(self, key: K, answer: V | ProviderError) -> None:
        """Trouble that passes is kept for a moment only, and never in place of an answer."""
        if isinstance(answer, Throttled | ProviderUnavailable | NotYet):
            known = self._answers.get(key, (0.0, _later(answer)))[1]
            self._answers[key] = (self._clock.now() + _PASSING_SECONDS, known)
            return
        lasts = self._seconds * self._random.uniform(_EARLIEST, 1.0)
        self._answers[key] = (self._clock.now() + lasts, answer)

    def get(self, key: K) -> V:
        """Raises the refusal that was kept, and KeyError for what was never asked."""
        answer = self._answers[key][1]
        if isinstance(answer, ProviderError):
            # A new one each time: the core notes in an error whose group it was, and it would grow with every raise.
            raise type(answer)(str(answer), code=answer.code)
        return answer

    def forget_others(self, keys: Iterable[K]) -> None:
        """Drop what nobody asks for any more."""
        used = set(keys)
        self._answers = {key: answer for key, answer in self._answers.items() if key in used}


def _later(error: ProviderError) -> "NotYet":
    return error if isinstance(error, NotYet) else NotYet(f"not known yet: {error}", code=error.code)


def ask(question: Callable[[], V]) -> V | ProviderError:
    """The answer, or the refusal as a value."""
    try:
        return question()
    except ProviderError as error:
        return error
