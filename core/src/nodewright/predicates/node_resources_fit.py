"""NodeResourcesFit: enough of every requested resource is free on the node, and it can hold one more pod."""

import numpy as np

from nodewright.predicates.predicate import Predicate, Texts, whole
from nodewright.snapshot.column import Ints, Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import PODS
from nodewright.snapshot.snapshot import Snapshot

TOO_MANY_PODS = "Too many pods"
_FIRST = ("cpu", "memory", "ephemeral-storage")
UNLIMITED = np.iinfo(np.int64).max


def _demand(snapshot: Snapshot, pod: PodClass) -> tuple[tuple[int, int], ...]:
    """Return the column and amount of every requested resource, pods first."""
    row = snapshot.request_row(pod)
    known: tuple[tuple[int, int], ...] | None = pod.compiled.get(_demand)
    if known is None:
        columns = (0, *(snapshot.vocabulary.resources[name] for name in pod.requests))
        known = pod.compiled[_demand] = tuple((column, int(row[column])) for column in columns)
    return known


def amounts_fit(snapshot: Snapshot, pod: PodClass, window: slice) -> Mask:
    """Return a mask of the rows that take one more pod, by resources and number of pods only."""
    (column, amount), *others = _demand(snapshot, pod)
    free = snapshot.free
    if pod.wants_devices:
        return _fit_or_devices(snapshot, pod, window)
    found: Mask = free[window, column] >= amount
    for column, amount in others:
        np.logical_and(found, free[window, column] >= amount, out=found)
    return found


def _fit_or_devices(snapshot: Snapshot, pod: PodClass, window: slice) -> Mask:
    """Return the same mask for a pod with devices: a DeviceClass may serve a resource on nodes that offer none of it."""
    names, columns = snapshot.context.device_resources, snapshot.vocabulary.resources
    served = {columns[name] for name in pod.requests if name in names}
    found: Mask = np.ones(window.stop - window.start, dtype=np.bool_)
    for column, amount in _demand(snapshot, pod):
        fits = snapshot.free[window, column] >= amount
        found &= (fits | (snapshot.allocatable[window, column] <= 0)) if column in served else fits
    return found


def amounts_room(snapshot: Snapshot, pod: PodClass, window: slice) -> Ints:
    """Return how many more pods the rows take, by resources and number of pods only."""
    placed = snapshot.request_row(pod, placed=True)
    demand = [(column, amount, snapshot.free[window, column]) for column, amount in _demand(snapshot, pod)]
    if any(free.max(initial=-1) < amount for _, amount, free in demand):
        return np.zeros(window.stop - window.start, dtype=np.int64)
    room: Ints | None = None
    for column, amount, free in demand:
        # After an in-place resize a running pod may hold another amount than it requested.
        held = int(placed[column])
        more = (free - amount) // held + 1 if held else np.full(len(free), UNLIMITED)
        more = np.where(free >= amount, more, 0) if held != amount else np.maximum(more, 0)
        room = more if room is None else np.minimum(room, more)
    assert room is not None, "every pod asks for a place among the node's pods"
    return room


def _explain(snapshot: Snapshot, pod: PodClass, row: int) -> Texts | None:
    snapshot.widen()
    columns, free = snapshot.vocabulary.resources, snapshot.free[row].tolist()
    reasons = [TOO_MANY_PODS] if free[columns[PODS]] < 1 else []
    names = sorted(pod.requests, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
    # No node offers a resource that has no column.
    if pod.wants_devices:
        offers, served = snapshot.allocatable[row].tolist(), snapshot.context.device_resources
        names = [name for name in names if name not in served or (name in columns and offers[columns[name]] > 0)]
    short = (name for name in names if pod.requests[name] > (free[columns[name]] if name in columns else 0))
    reasons.extend(f"Insufficient {name}" for name in short)
    return tuple(reasons) or None


PREDICATE = Predicate(name="NodeResourcesFit", reads=whole, mask=amounts_fit, explain=_explain)
