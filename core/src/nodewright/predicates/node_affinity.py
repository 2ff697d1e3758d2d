"""NodeAffinity: nodeSelector and required node affinity."""

from collections.abc import Iterable

import numpy as np

from nodewright.predicates.node_selector import NodeDemand, demand_column, demand_of
from nodewright.predicates.predicate import Predicate, Texts
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

REASON = "node(s) didn't match Pod's node affinity/selector"
CONFLICT_REASON = "pod affinity terms conflict"


def _concerns(pod: PodClass) -> bool:
    return not demand_of(pod).is_free


def _mask(snapshot: Snapshot, demand: NodeDemand, window: slice) -> Mask | None:
    if demand.is_free:
        return None
    if demand.names is None:
        return demand_column(snapshot, demand)[window]
    # Each pod of a DaemonSet names one node: a column per pod would be mostly false.
    found = np.zeros(window.stop - window.start, dtype=np.bool_)
    for row in _rows_of(snapshot, demand.names, window):
        found[row - window.start] = demand.mask(snapshot, slice(row, row + 1))[0]
    return found


def _rows_of(snapshot: Snapshot, names: Iterable[str], window: slice) -> list[int]:
    rows = (snapshot.find_row(name) for name in names)
    return [row for row in rows if row is not None and window.start <= row < window.stop]


def _explain(snapshot: Snapshot, pod: PodClass, row: int) -> Texts | None:
    return None if demand_of(pod).holds(snapshot.node(row)) else (REASON,)


def _refuse_pod(_: Snapshot, pod: PodClass) -> Texts | None:
    return (CONFLICT_REASON,) if demand_of(pod).names == frozenset() else None


PREDICATE = Predicate(
    name="NodeAffinity",
    reads=demand_of,
    mask=_mask,
    explain=_explain,
    refuse_pod=_refuse_pod,
    concerns=_concerns,
)
