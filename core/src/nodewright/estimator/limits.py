"""Limits of an estimate: how many nodes it may add, and for how long it may run."""

from collections.abc import Callable, Iterable

UNLIMITED = 0
IsOver = Callable[[], bool]


def never() -> bool:
    """Return False: there is no time limit."""
    return False


def node_limit(thresholds: Iterable[int]) -> int:
    """Return the smallest positive threshold; 0: no limit; -1 if any threshold is negative: no node at all (CA's rule)."""
    found = list(thresholds)
    if any(threshold < 0 for threshold in found):
        return -1
    return min((threshold for threshold in found if threshold > 0), default=UNLIMITED)


class NodeBudget:
    """Counts the nodes that one estimate adds, and refuses those above the limit.

    Once ``is_over()`` is true, no nodes are granted and ``was_late`` is set. ``is_exhausted``: the last call of ``grant``
    returned less than ``wanted``.
    """

    def __init__(self, limit: int, is_over: IsOver = never) -> None:
        self._limit = limit
        self._is_over = is_over
        self.granted = 0
        self.was_late = False
        self.is_exhausted = False

    def grant(self, wanted: int) -> int:
        """Grant up to ``wanted`` more nodes; return how many."""
        self.was_late = self.was_late or self._is_over()
        left = wanted if self._limit == UNLIMITED else max(0, self._limit - self.granted)
        given = 0 if self.was_late else min(wanted, left)
        self.is_exhausted = given < wanted
        self.granted += given
        return given
