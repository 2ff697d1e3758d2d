"""Growable numpy columns that forks share until one of them writes."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
# Interned values, in numpy's index type.
Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]


def as_columns(counts: Mapping[int, int]) -> tuple[Ints, Ints]:
    """Return the rows of a mapping (row → count) and the counts, as two columns."""
    rows = np.fromiter(counts, dtype=np.int64, count=len(counts))
    return rows, np.fromiter(counts.values(), dtype=np.int64, count=len(counts))


class ColumnKey:
    """A composite name of a column, hashed once."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, *parts: Hashable) -> None:
        self._parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ColumnKey) and self._parts == other._parts)


class Column:
    """Rows of one dtype along the last axis; appending is amortised, forking is free.

    The first write after a fork copies. ``view`` holds the rows, to be read only.
    """

    __slots__ = ("_buffer", "_shared", "view")

    def __init__(self, rows: NDArray[Any]) -> None:
        self._buffer = self.view = rows
        self._shared = True  # the caller may still use the given rows

    def __len__(self) -> int:
        size: int = self.view.shape[-1]
        return size

    @property
    def writable(self) -> NDArray[Any]:
        """Return the rows for changing them in place."""
        if self._shared:
            self._reallocate(len(self))
        return self.view

    def extend(self, rows: NDArray[Any]) -> None:
        start, size = len(self), len(self) + rows.shape[-1]
        if self._shared or size > self._buffer.shape[-1]:
            self._reallocate(max(size, start + start // 2, 16))
        self._buffer[..., start:size] = rows
        self.view = self._buffer[..., :size]

    def fork(self) -> "Column":
        self._shared = True
        return Column(self.view)

    def _reallocate(self, capacity: int) -> None:
        size = len(self)
        grown = np.empty((*self._buffer.shape[:-1], capacity), dtype=self._buffer.dtype)
        grown[..., :size] = self.view
        self._buffer, self._shared = grown, False
        self.view = grown[..., :size]
