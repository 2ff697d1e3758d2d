"""Answers that are kept for a while, each ended a little early by chance, so that they are not all asked again at once."""

from collections.abc import Callable, Hashable, Iterable
from random import Random
from typing import Generic, TypeVar

from nodewright.spec import Clock, ProviderError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_EARLIEST = 0.5


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
        lasts = self._seconds * self._random.uniform(_EARLIEST, 1.0)
        self._answers[key] = (self._clock.now() + lasts, answer)

    def get(self, key: K) -> V:
        """Raises the refusal that was kept, and KeyError for what was never asked."""
        answer = self._answers[key][1]
        if isinstance(answer, ProviderError):
            raise answer
        return answer

    def forget_others(self, keys: Iterable[K]) -> None:
        """Drop what nobody asks for any more."""
        used = set(keys)
        self._answers = {key: answer for key, answer in self._answers.items() if key in used}


def ask(question: Callable[[], V]) -> V | ProviderError:
    """The answer, or the refusal as a value."""
    try:
        return question()
    except ProviderError as error:
        return error
