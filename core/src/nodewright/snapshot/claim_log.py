"""The order in which a simulation placed pods with device claims: it decides which devices each pod gets."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodewright.snapshot.context import Context
from nodewright.snapshot.pod_class import PodClass


class ClaimLog:
    """A pod with claims was placed on a row (or was removed: ``leaves``) after all of ``parent``. Never changes.

    ``derived`` caches what predicates compute from the log so far.
    """

    __slots__ = ("departures", "depth", "derived", "leaves", "parent", "pod_class", "row")

    def __init__(self, parent: "ClaimLog | None", row: int, pod_class: PodClass, *, leaves: bool = False) -> None:
        self.parent, self.row, self.pod_class, self.leaves = parent, row, pod_class, leaves
        self.depth: int = parent.depth + 1 if parent is not None else 1
        self.departures: int = (parent.departures if parent is not None else 0) + leaves
        self.derived: Any = None

    def since(self, older: "ClaimLog | None") -> "list[ClaimLog] | None":
        """Return the entries after ``older``, oldest first; None if ``older`` is not part of this log."""
        found = list[ClaimLog]()
        entry: ClaimLog | None = self
        depth = older.depth if older is not None else 0
        while entry is not None and entry.depth > depth:
            found.append(entry)
            entry = entry.parent
        return found[::-1] if entry is older else None


@dataclass
class DeviceFits:
    """The rows that have devices for one more pod of a class, after the placements of a log: 1, 0, or -1 for not known yet."""

    context: Context
    log: ClaimLog | None
    rows: NDArray[np.int8]

    def copy(self) -> "DeviceFits":
        return DeviceFits(self.context, self.log, self.rows.copy())


def placed(log: ClaimLog | None, pod_class: PodClass, row: int, count: int) -> ClaimLog | None:
    """Return the log after ``count`` pods of a class were placed on a row. Pods that left it return first."""
    for _ in range(count):
        returned = _without_last(log, pod_class, row, leaves=True) if log is not None and log.departures else None
        log = returned[0] if returned is not None else ClaimLog(log, row, pod_class)
    return log


def unplaced(log: ClaimLog | None, pod_class: PodClass, row: int, count: int) -> ClaimLog | None:
    """Return the log without the last ``count`` pods of a class on a row; pods that ran there before it leave."""
    for _ in range(count):
        undone = _without_last(log, pod_class, row, leaves=False)
        log = undone[0] if undone is not None else ClaimLog(log, row, pod_class, leaves=True)
    return log


def _without_last(
    log: ClaimLog | None, pod_class: PodClass, row: int, *, leaves: bool
) -> tuple[ClaimLog | None] | None:
    """Return the log without the last such entry; None if there is none."""
    later = list[ClaimLog]()
    for entry in _backwards(log):
        if entry.row == row and entry.pod_class is pod_class and entry.leaves == leaves:
            kept = entry.parent
            for one in reversed(later):
                kept = ClaimLog(kept, one.row, one.pod_class, leaves=one.leaves)
            return (kept,)
        later.append(entry)
    return None


def _backwards(log: ClaimLog | None) -> Iterator[ClaimLog]:
    while log is not None:
        yield log
        log = log.parent
