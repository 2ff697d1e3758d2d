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

    ``is_over`` tells that time is up: then none is given any more, and ``was_late`` says so.
    """

    def __init__(self, limit: int, is_over: IsOver = never) -> None:
        self._limit = limit
        self._is_over = is_over
        self.granted = 0
        self.was_late = False

    def grant(self, wanted: int) -> int:
        """Take up to ``wanted`` permissions; answers how many were given."""
        self.was_late = self.was_late or self._is_over()
        if self.was_late:
            return 0
        given = wanted if self._limit == UNLIMITED else min(wanted, max(0, self._limit - self.granted))
        self.granted += given
        return given
