"""Growable numpy columns that forks share until one of them writes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Ids = NDArray[np.int32]
Mask = NDArray[np.bool_]


class Column:
    """Rows of one dtype; appending is amortised, forking is free, the first write after a fork copies."""

    __slots__ = ("_buffer", "_shared", "_size")

    def __init__(self, rows: NDArray[Any]) -> None:
        self._buffer = rows
        self._size = len(rows)
        self._shared = True  # the rows given may belong to somebody else

    def __len__(self) -> int:
        return self._size

    @property
    def view(self) -> NDArray[Any]:
        """The rows, to be read only."""
        return self._buffer[: self._size]

    @property
    def writable(self) -> NDArray[Any]:
        """The rows, to be changed in place."""
        if self._shared:
            self._reallocate(self._size)
        return self._buffer[: self._size]

    def extend(self, rows: NDArray[Any]) -> None:
        size = self._size + len(rows)
        if self._shared or size > len(self._buffer):
            self._reallocate(max(size, self._size + self._size // 2, 16))
        self._buffer[self._size : size] = rows
        self._size = size

    def fork(self) -> "Column":
        self._shared = True
        forked = Column(self._buffer)
        forked._size = self._size
        return forked

    def _reallocate(self, capacity: int) -> None:
        grown = np.empty((capacity, *self._buffer.shape[1:]), dtype=self._buffer.dtype)
        grown[: self._size] = self._buffer[: self._size]
        self._buffer, self._shared = grown, False
