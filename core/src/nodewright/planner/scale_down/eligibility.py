"""Which candidates are worth a simulation, and why the others stay (behaviour/down.md A4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nodewright.model.reason import Unremovable
from nodewright.model.settings import Settings
from nodewright.planner.scale_down.utilization import Measure, utilizations
from nodewright.registry.state import ClusterState
from nodewright.snapshot.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class Eligibility:
    """``names`` may go as far as their use says, in the order given; why the others stay; ratios where measured."""

    names: tuple[str, ...] = ()
    utilization: Mapping[str, float] = field(default_factory=dict)
    unremovable: Mapping[str, Unremovable] = field(default_factory=dict)


def find_eligible(
    snapshot: Snapshot, candidates: Sequence[str], state: ClusterState, settings: Settings
) -> Eligibility:
    """Judge candidates (names of nodes) by what is in ``snapshot``; the first condition that holds decides.

    ``state`` tells the group of each node, its options, and since ``memory.scale_down.recheck_at`` when a node that
    could not go is looked at again.
    """
    rows = np.array([row for name in candidates if (row := snapshot.find_row(name)) is not None], dtype=np.int64)
    measured = utilizations(snapshot, rows, Measure(now=state.now), np.zeros(len(rows), dtype=np.bool_))
    names = [snapshot.name(row) for row in rows.tolist()]
    return Eligibility(names=tuple(names), utilization=dict(zip(names, measured.ratios.tolist(), strict=True)))
