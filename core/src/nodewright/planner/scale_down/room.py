"""Which nodes take plain pods: those that only amounts can keep apart, on the nodes that admit them."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from nodewright.predicates import is_admitted, static_key
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot


class Room:
    """What is asked of boards that differ by pods alone, or by nodes that came last."""

    def __init__(self) -> None:
        # By ``static_key``.
        self._admitted: dict[object, Mask] = {}

    def admits(self, board: Snapshot, pod_class: PodClass) -> Mask:
        """Which nodes take plain pods of a class, given room."""
        key = static_key(pod_class)
        known = self._admitted.get(key)
        if known is None or len(known) != len(board):
            known = self._admitted[key] = is_admitted(board, pod_class, slice(0, len(board)))
        return known

    def forget(self) -> None:
        """Of a board that is given up, with a node in it that others do not have, nothing holds for the next."""
        self._admitted.clear()

    def for_all(self, board: Snapshot, asked: Mapping[PodClass, Sequence[int]]) -> frozenset[int]:
        """The rows that take all the plain pods that are to go there (one row for each pod), whoever comes first."""
        rows = np.array(sorted(set(chain.from_iterable(asked.values()))), dtype=np.int64)
        needed = np.zeros((_width(board, asked), len(rows)), dtype=np.int64)
        fits = np.ones(len(rows), dtype=np.bool_)
        for pod_class, places in asked.items():
            counts = np.bincount(np.searchsorted(rows, places), minlength=len(rows))
            # What one pod needs at the most: as it comes, or once it runs there.
            most = np.maximum(board.request_row(pod_class), board.request_row(pod_class, placed=True))
            needed += most[:, None] * counts
            fits &= (counts == 0) | self.admits(board, pod_class)[rows]
        fits &= ((needed <= board.free[rows].T) | (needed == 0)).all(axis=0)
        return frozenset(rows[fits].tolist())


def _width(board: Snapshot, classes: Iterable[PodClass]) -> int:
    """How many resources there are with those that these classes ask for."""
    for pod_class in classes:
        for placed in (False, True):
            board.request_row(pod_class, placed=placed)
    width: int = board.free.shape[1]
    return width
