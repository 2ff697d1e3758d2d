"""How many nodes an estimation may add."""

from collections.abc import Iterable

UNLIMITED = 0


def node_limit(thresholds: Iterable[int]) -> int:
    """The smallest positive threshold; 0 means no limit and any negative one means none at all (CA's rule)."""
    found = list(thresholds)
    if any(threshold < 0 for threshold in found):
        return -1
    return min((threshold for threshold in found if threshold > 0), default=UNLIMITED)


class NodeBudget:
    """Permissions to add nodes, handed out one estimation at a time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.granted = 0

    def grant(self, wanted: int) -> int:
        """Take up to ``wanted`` permissions; answers how many were given."""
        given = wanted if self._limit == UNLIMITED else min(wanted, max(0, self._limit - self.granted))
        self.granted += given
        return given
