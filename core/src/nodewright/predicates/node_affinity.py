"""NodeAffinity: nodeSelector and required node affinity."""

from collections.abc import Iterable

import numpy as np

from nodewright.model.pod import NodeSelectorTerm
from nodewright.predicates.node_selector import NAME_FIELD, demand_column, demand_of
from nodewright.predicates.predicate import Predicate, Texts
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass, per_class
from nodewright.snapshot.snapshot import Snapshot

REASON = "node(s) didn't match Pod's node affinity/selector"
CONFLICT_REASON = "pod affinity terms conflict"


@per_class
def named_nodes(pod: PodClass) -> frozenset[str] | None:
    """Return the names of the only nodes that PreFilter admits; None if a term does not restrict the name.

    A list of several names counts here, although the filter itself then refuses it.
    """
    selector = demand_of(pod).selector
    if selector is None or not selector.node_selector_terms:
        return None
    names: set[str] = set()
    for term in selector.node_selector_terms:
        named = _names_of_term(term)
        if named is None:
            return None
        names |= named
    return frozenset(names)


def _names_of_term(term: NodeSelectorTerm) -> set[str] | None:
    lists = [set(r.values) for r in term.match_fields if r.key == NAME_FIELD and r.operator == "In"]
    return set.intersection(*lists) if lists else None


def _concerns(pod: PodClass) -> bool:
    return not demand_of(pod).is_free


def _mask(snapshot: Snapshot, pod: PodClass, window: slice) -> Mask | None:
    demand, names = demand_of(pod), named_nodes(pod)
    if demand.is_free:
        return None
    if names is None:
        return demand_column(snapshot, demand)[window]
    # Each pod of a DaemonSet names one node: a column per pod would be mostly false.
    found = np.zeros(window.stop - window.start, dtype=np.bool_)
    for row in _rows_of(snapshot, names, window):
        found[row - window.start] = demand.mask(snapshot, slice(row, row + 1))[0]
    return found


def _rows_of(snapshot: Snapshot, names: Iterable[str], window: slice) -> list[int]:
    rows = (snapshot.find_row(name) for name in names)
    return [row for row in rows if row is not None and window.start <= row < window.stop]


def _explain(snapshot: Snapshot, pod: PodClass, row: int) -> Texts | None:
    return None if demand_of(pod).holds(snapshot.node(row)) else (REASON,)


def _refuse_pod(_: Snapshot, pod: PodClass) -> Texts | None:
    return (CONFLICT_REASON,) if named_nodes(pod) == frozenset() else None


PREDICATE = Predicate(
    name="NodeAffinity", mask=_mask, explain=_explain, refuse_pod=_refuse_pod, concerns=_concerns, static=True
)
