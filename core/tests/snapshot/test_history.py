"""A snapshot with any history equals one built afresh, and a fork never changes its parent."""

from typing import Any

import numpy as np
from core.tests.predicates.strategies import FEATURES, futures, worlds
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewright.predicates import feasible
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

EVERYTHING = tuple(FEATURES)


def rebuild(snapshot: Snapshot) -> tuple[Snapshot, list[int]]:
    """The same nodes and pods without the history, and the rows of the old picture in order of the new."""
    fresh, rows = snapshot.sibling(), [row for row, _ in snapshot.nodes()]
    fresh.context = snapshot.context
    fresh.add_nodes([node for _, node in snapshot.nodes()])
    for pod_class, placed in snapshot.placements():
        for row, count in placed.items():
            fresh.place(pod_class, rows.index(row), count)
    return fresh, rows


def picture(snapshot: Snapshot, classes: list[PodClass]) -> tuple[Any, ...]:
    """Everything that can be seen of a snapshot."""
    snapshot.widen()
    placed = {pod_class.id: dict(rows) for pod_class, rows in snapshot.placements()}
    masks = [feasible(snapshot, pod_class).tolist() for pod_class in classes]
    names = [node.name for _, node in snapshot.nodes()]
    return placed, masks, names, snapshot.free.tolist(), snapshot.alive.tolist()


@given(worlds(*EVERYTHING, length=20))
@settings(deadline=None)
def test_counts_kept_equal_counts_made_afresh(world: tuple[Snapshot, list[PodClass]]) -> None:
    snapshot, classes = world
    fresh, rows = rebuild(snapshot)
    for pod_class in classes:
        assert feasible(snapshot, pod_class)[rows].tolist() == feasible(fresh, pod_class).tolist()
    snapshot.widen()
    assert np.array_equal(snapshot.free[rows], fresh.free)
    assert np.array_equal(snapshot.allocatable[rows], fresh.allocatable)


@given(worlds(*EVERYTHING), st.data())
@settings(deadline=None)
def test_a_fork_never_changes_its_parent(world: tuple[Snapshot, list[PodClass]], data: st.DataObject) -> None:
    snapshot, classes = world
    fork = snapshot.fork()
    before = picture(snapshot, classes)
    data.draw(futures(fork, classes))
    picture(fork, classes)
    assert picture(snapshot, classes) == before


@given(worlds(*EVERYTHING), st.data())
@settings(deadline=None)
def test_a_parent_never_changes_its_fork(world: tuple[Snapshot, list[PodClass]], data: st.DataObject) -> None:
    snapshot, classes = world
    fork = snapshot.fork()
    before = picture(fork, classes)
    data.draw(futures(snapshot, classes))
    assert picture(fork, classes) == before
