"""TaintToleration: every NoSchedule and NoExecute taint of the node must be tolerated."""

import re
from collections.abc import Sequence

import numpy as np

from nodewright.model.node import Taint
from nodewright.model.pod import Toleration
from nodewright.predicates.predicate import Predicate, Texts
from nodewright.snapshot.column import ColumnKey, Ids, Mask
from nodewright.snapshot.node_table import NodeTable
from nodewright.snapshot.pod_class import PodClass, per_class
from nodewright.snapshot.snapshot import Snapshot

REASON = "node(s) had untolerated taint(s)"
HARD_EFFECTS = ("NoSchedule", "NoExecute")
_KIND = "hard taints"
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether one toleration covers one taint.

    An empty key matches every key, but Equal still compares values. Gt and Lt compare the taint's value with the
    toleration's: both must be whole numbers of 64 bits. The API server accepts them only where their feature gate is on.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    if toleration.operator in ("Gt", "Lt"):
        has, limit = _number(taint.value), _number(toleration.value)
        return has is not None and limit is not None and (has > limit if toleration.operator == "Gt" else has < limit)
    return toleration.operator == "Exists"


def tolerates_all(tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> bool:
    """Return whether all NoSchedule and NoExecute taints are tolerated."""
    return all(
        any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint.effect in HARD_EFFECTS
    )


class Tolerance:
    """The tolerations of a pod, checked once per set of taints. Equal tolerations share one column."""

    __slots__ = ("_hash", "key", "tolerations")

    def __init__(self, tolerations: tuple[Toleration, ...]) -> None:
        self.tolerations = tolerations
        self.key = ColumnKey("tolerance", tolerations)
        self._hash = hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tolerance) and self.key == other.key

    def mask(self, table: NodeTable, window: slice) -> Mask:
        """Return a mask of the rows whose hard taints are all tolerated."""
        sets, where = np.unique(_taint_sets(table)[window], return_inverse=True)
        known = table.vocabulary.values_of(_KIND)
        verdicts = [self._covers(known[index]) for index in sets.tolist()]
        found: Mask = np.array(verdicts, dtype=np.bool_)[where]
        return found

    def _covers(self, taints: tuple[tuple[str, str, str], ...]) -> bool:
        return all(
            any(tolerates(toleration, Taint(key=key, value=value, effect=effect)) for toleration in self.tolerations)
            for key, value, effect in taints
        )


_NO_TOLERANCE = Tolerance(())


def tolerance_of(pod: PodClass) -> Tolerance:
    """Return the tolerations of the pods of a class."""
    return _tolerance_of(pod) if pod.spec.tolerations else _NO_TOLERANCE


@per_class
def _tolerance_of(pod: PodClass) -> Tolerance:
    return Tolerance(pod.spec.tolerations)


def tolerance_column(table: NodeTable, tolerance: Tolerance) -> Mask:
    """Return a mask of the rows whose hard taints are tolerated; cached for all equal tolerations."""
    return table.column(tolerance.key, tolerance.mask)


def _number(text: str) -> int | None:
    """Return a value as a whole number; None if it is none, or has a plus, leading zeros or more than 64 bits."""
    if _WHOLE_NUMBER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _taint_sets(table: NodeTable) -> Ids:
    return table.column(_KIND, _taint_set_ids)


def _taint_set_ids(table: NodeTable, window: slice) -> Ids:
    ids = np.empty(window.stop - window.start, dtype=np.int64)
    for index, row in enumerate(range(window.start, window.stop)):
        taints = table.template(row).spec.taints
        hard = tuple((taint.key, taint.value, taint.effect) for taint in taints if taint.effect in HARD_EFFECTS)
        ids[index] = table.vocabulary.intern(_KIND, hard)
    return ids


def _mask(snapshot: Snapshot, tolerance: Tolerance, window: slice) -> Mask | None:
    return tolerance_column(snapshot, tolerance)[window]


def _explain(snapshot: Snapshot, pod: PodClass, row: int) -> Texts | None:
    return None if tolerates_all(pod.spec.tolerations, snapshot.node(row).spec.taints) else (REASON,)


PREDICATE = Predicate(name="TaintToleration", reads=tolerance_of, mask=_mask, explain=_explain)
