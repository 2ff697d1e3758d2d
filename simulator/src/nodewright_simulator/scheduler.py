"""A scheduler on the same predicates as the planner: it finds the node for one pod."""

from collections.abc import Callable
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from nodewright.predicates import feasible
from nodewright.snapshot.column import Ints, Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

Floats = NDArray[np.float64]
Feasible = Callable[[Snapshot, PodClass], Mask]

# Columns of a snapshot's resource matrices that are scored, as kube-scheduler does by default.
_SCORED = ("cpu", "memory")


class Preference(StrEnum):
    """Which of the nodes that take a pod gets it; ties go to the node that came first."""

    LEAST_ALLOCATED = "least-allocated"
    MOST_ALLOCATED = "most-allocated"
    FIRST_FIT = "first-fit"


class Scheduler:
    """Chooses a row for a pod class; changes nothing."""

    def __init__(self, preference: Preference = Preference.LEAST_ALLOCATED, fits: Feasible = feasible) -> None:
        self._preference = preference
        self._fits = fits

    def choose(self, snapshot: Snapshot, pod_class: PodClass) -> int | None:
        """Return the row that gets the next pod of the class; None if no node takes it."""
        rows = np.flatnonzero(self._fits(snapshot, pod_class))
        if not len(rows):
            return None
        if self._preference == Preference.FIRST_FIT or len(rows) == 1:
            return int(rows[0])
        used = _used_share(snapshot, rows)
        best = used.argmin() if self._preference == Preference.LEAST_ALLOCATED else used.argmax()
        return int(rows[best])


def _used_share(snapshot: Snapshot, rows: Ints) -> Floats:
    columns = np.array([snapshot.vocabulary.resources[name] for name in _SCORED])
    cells = np.ix_(rows, columns)
    shares: Floats = (snapshot.used[cells] / np.maximum(snapshot.allocatable[cells], 1)).mean(axis=1)
    return shares
