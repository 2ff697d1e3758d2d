"""How much of a node is asked for (behaviour/down.md A5)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodewright.registry.accelerators import NO_ACCELERATORS, Accelerators
from nodewright.snapshot.column import Ids, Mask
from nodewright.snapshot.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class Measure:
    """How utilization is measured; ``now`` in epoch seconds, ``as_ca`` also where CA divides by zero."""

    now: float
    accelerators: Accelerators = NO_ACCELERATORS
    ignore_mirrors: bool = False
    as_ca: bool = False


class Utilization(NamedTuple):
    """The ratio of the scarcest resource, and its name; ``problem`` says why there is none, else empty."""

    ratio: float
    resource: str
    problem: str = ""


class Utilizations(NamedTuple):
    """``Utilization`` of many rows: ratios, and per row an index into ``resources`` and into ``problems``."""

    ratios: NDArray[np.float64]
    resource_ids: Ids
    resources: tuple[str, ...]
    problem_ids: Ids
    problems: tuple[str, ...]


def utilization_of(snapshot: Snapshot, row: int, measure: Measure, *, ignore_daemonsets: bool = False) -> Utilization:
    """Utilization of one node, pod by pod."""
    many = utilizations(snapshot, np.array([row]), measure, np.array([ignore_daemonsets]))
    return Utilization(float(many.ratios[0]), many.resources[many.resource_ids[0]], many.problems[many.problem_ids[0]])


def utilizations(snapshot: Snapshot, rows: Ids, measure: Measure, ignore_daemonsets: Mask) -> Utilizations:
    """Utilization of many nodes at once; ``ignore_daemonsets`` is said per row."""
    used, offered = snapshot.used[rows], snapshot.allocatable[rows]
    ratios = used[:, 1:3] / np.maximum(offered[:, 1:3], 1)
    nothing = np.zeros(len(rows), dtype=np.int64)
    return Utilizations(ratios.max(axis=1), ratios.argmax(axis=1), ("cpu", "memory"), nothing, ("",))
