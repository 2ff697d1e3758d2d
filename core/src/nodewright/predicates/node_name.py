"""NodeName: a pod with ``spec.nodeName`` fits only on that node."""

import numpy as np

from nodewright.predicates.predicate import Predicate, Texts
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

REASON = "node(s) didn't match the requested node name"


def _names_node(pod: PodClass) -> bool:
    return bool(pod.spec.node_name)


def _named(pod: PodClass) -> str:
    return pod.spec.node_name


def _mask(snapshot: Snapshot, name: str, window: slice) -> Mask | None:
    if not name:
        return None
    found = np.zeros(window.stop - window.start, dtype=np.bool_)
    row = snapshot.find_row(name)
    if row is not None and window.start <= row < window.stop:
        found[row - window.start] = True
    return found


def _explain(snapshot: Snapshot, pod: PodClass, row: int) -> Texts | None:
    wanted = pod.spec.node_name
    return (REASON,) if wanted and wanted != snapshot.node(row).name else None


PREDICATE = Predicate(name="NodeName", reads=_named, mask=_mask, explain=_explain, concerns=_names_node)
