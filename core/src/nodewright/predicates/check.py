"""Check whether pods fit on nodes: all predicates together, in kube-scheduler's default order."""

from typing import Any

import numpy as np

from nodewright.model.pod import Pod
from nodewright.model.reason import Rejection
from nodewright.predicates import (
    dynamic_resources,
    inter_pod_affinity,
    node_affinity,
    node_declared_features,
    node_name,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    node_volume_limits,
    pod_topology_spread,
    taint_toleration,
    volume_binding,
    volume_restrictions,
    volume_zone,
)
from nodewright.predicates.node_selector import demand_of
from nodewright.predicates.predicate import Predicate, never
from nodewright.snapshot.column import ColumnKey, Ints, Mask
from nodewright.snapshot.pod_class import PodClass, per_class
from nodewright.snapshot.snapshot import Snapshot

FILTERS: tuple[Predicate[Any], ...] = (
    node_unschedulable.PREDICATE,
    node_name.PREDICATE,
    taint_toleration.PREDICATE,
    node_affinity.PREDICATE,
    node_ports.PREDICATE,
    node_resources_fit.PREDICATE,
    volume_restrictions.PREDICATE,
    node_volume_limits.PREDICATE,
    volume_binding.PREDICATE,
    volume_zone.PREDICATE,
    pod_topology_spread.PREDICATE,
    inter_pod_affinity.PREDICATE,
    dynamic_resources.PREDICATE,
    node_declared_features.PREDICATE,
)


# The ``reads`` of the static predicates. Looked up once, since thousands of pods may each have their own class.
_STATIC_READS = tuple(predicate.reads for predicate in FILTERS if predicate.is_static)
# The same of a pod that demands nothing of its node. Most pods share this one key.
_ANY_NODE_READS = tuple(read(PodClass(-1, Pod())) for read in _STATIC_READS)
_ANY_NODE = ColumnKey(*_ANY_NODE_READS)


# The names of the filters that depend on the pod, the node and the amounts in use alone.
NODE_FILTERS = frozenset(
    {node_resources_fit.PREDICATE.name, *(predicate.name for predicate in FILTERS if predicate.is_static)}
)


def feasible(snapshot: Snapshot, pod: PodClass, window: slice | None = None) -> Mask:
    """Return a mask of the live rows that take one more pod of the class. The caller may change the mask."""
    window = window or slice(0, len(snapshot))
    for predicate in _refusing(pod):
        if predicate.refuse_pod(snapshot, pod) is not None:
            return np.zeros(window.stop - window.start, dtype=np.bool_)
    found = static_fit(snapshot, pod, window)
    for predicate in _dynamic(pod):
        passing = predicate.mask(snapshot, pod, window)
        if passing is not None:
            found &= passing
    return found


def static_fit(snapshot: Snapshot, pod: PodClass, window: slice) -> Mask:
    """Return a mask of the live rows that pass all static predicates. The caller may change the mask."""
    found: Mask = snapshot.alive[window].copy()
    for predicate, read in _static(pod):
        passing = predicate.mask(snapshot, read, window)
        if passing is not None:
            found &= passing
    return found


def is_admitted(snapshot: Snapshot, pod: PodClass, window: slice) -> Mask:
    """Return a mask of the live rows that take pods of a plain class (``is_plain``) if resources are free."""
    if any(predicate.refuse_pod(snapshot, pod) is not None for predicate in _refusing(pod)):
        return np.zeros(window.stop - window.start, dtype=np.bool_)
    return static_fit(snapshot, pod, window)


@per_class
def static_key(pod: PodClass) -> ColumnKey:
    """Return a key: plain classes with the same key are admitted to the same nodes.

    It consists of everything that static predicates read of the pod, so that it covers all inputs of their masks.
    """
    reads = tuple([read(pod) for read in _STATIC_READS])
    return _ANY_NODE if reads == _ANY_NODE_READS else ColumnKey(*reads)


def capacity(snapshot: Snapshot, pod: PodClass, window: slice) -> Ints:
    """Return how many more pods of a plain class (``is_plain``) each row takes."""
    room = node_resources_fit.amounts_room(snapshot, pod, window)
    return np.where(feasible(snapshot, pod, window), room, 0) if room.any() else room


def explain(snapshot: Snapshot, pod: PodClass, row: int) -> Rejection | None:
    """Return why the node of a row does not take one more pod of the class; None if it does."""
    for predicate in _refusing(pod):
        reasons = predicate.refuse_pod(snapshot, pod)
        if reasons is not None:
            return Rejection(predicate=predicate.name, reasons=reasons)
    names = demand_of(pod).names
    if names is not None and snapshot.name(row) not in names:
        return Rejection(predicate=node_affinity.PREDICATE.name)
    for predicate in _concerned(pod):
        reasons = predicate.explain(snapshot, pod, row)
        if reasons is not None:
            return Rejection(predicate=predicate.name, reasons=reasons)
    return None


@per_class
def _concerned(pod: PodClass) -> tuple[Predicate[Any], ...]:
    return tuple(predicate for predicate in FILTERS if predicate.concerns(pod))


@per_class
def _static(pod: PodClass) -> tuple[tuple[Predicate[Any], Any], ...]:
    return tuple((predicate, predicate.reads(pod)) for predicate in _concerned(pod) if predicate.is_static)


@per_class
def _dynamic(pod: PodClass) -> tuple[Predicate[Any], ...]:
    return tuple(predicate for predicate in _concerned(pod) if not predicate.is_static)


@per_class
def _refusing(pod: PodClass) -> tuple[Predicate[Any], ...]:
    return tuple(predicate for predicate in _concerned(pod) if predicate.refuse_pod is not never)
