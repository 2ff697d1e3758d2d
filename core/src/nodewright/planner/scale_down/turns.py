"""Which node takes the next pod: each in its turn, behind the last that took one."""

from collections.abc import Iterable
from itertools import chain

import numpy as np

from nodewright.planner.scale_down.room import Room
from nodewright.predicates import amounts_fit, feasible
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

# Nodes looked at first; a scan that finds nothing there looks at ever more at a time.
_FIRST_WINDOW = 256
_GROWTH = 8


class RoundRobinCursor:
    """Whose turn it is, over all candidates of a loop."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._cursor = 0

    def next_rows(
        self, board: Snapshot, open_rows: Mask, pod_class: PodClass, count: int, *, together: bool
    ) -> list[int]:
        """The next so many open nodes that take such a pod, fewer if there are no more; cordoned ones are passed by.

        ``together``: only amounts keep pods of the class apart, so that one here changes nothing for one there.
        """
        found = list[int]()
        admitted = self._room.admits(board, pod_class) if together else open_rows
        takes, schedulable = amounts_fit if together else feasible, board.schedulable
        rows, start = len(board), self._cursor % max(1, len(board))
        for window in chain(_windows(start, rows), _windows(0, start)):
            mask = open_rows[window] & schedulable[window] & admitted[window]
            if together or mask.any():  # other predicates cost more than a look
                mask &= takes(board, pod_class, window)
            found += (window.start + np.flatnonzero(mask)[: count - len(found)]).tolist()
            if len(found) == count:
                break
        if found:
            self._cursor = found[-1] + 1
        return found


def _windows(start: int, stop: int) -> Iterable[slice]:
    """Slices from ``start`` to ``stop``, each longer than the one before."""
    size = _FIRST_WINDOW
    while start < stop:
        yield slice(start, min(stop, start + size))
        start, size = start + size, size * _GROWTH
