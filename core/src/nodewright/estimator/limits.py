"""How many nodes an estimation may add."""

from collections.abc import Callable, Iterable

UNLIMITED = 0
IsOver = Callable[[], bool]


def never() -> bool:
    """Time is not counted."""
    return False


def node_limit(thresholds: Iterable[int]) -> int:
    """The smallest positive threshold; 0 means no limit and any negative one means none at all (CA's rule)."""
    found = list(thresholds)
    if any(threshold < 0 for threshold in found):
        return -1
    return min((threshold for threshold in found if threshold > 0), default=UNLIMITED)


class NodeBudget:
    """Permissions to add nodes, handed out one estimation at a time.

    ``is_over`` tells that time is up: then none is given any more, and ``was_late`` says so. ``is_exhausted``: the last
    time, less was given than was wanted.
    """

    def __init__(self, limit: int, is_over: IsOver = never) -> None:
        self._limit = limit
        self._is_over = is_over
        self.granted = 0
        self.was_late = False
        self.is_exhausted = False

    def grant(self, wanted: int) -> int:
        """Take up to ``wanted`` permissions; answers how many were given."""
        self.was_late = self.was_late or self._is_over()
        left = wanted if self._limit == UNLIMITED else max(0, self._limit - self.granted)
        given = 0 if self.was_late else min(wanted, left)
        self.is_exhausted = given < wanted
        self.granted += given
        return given
