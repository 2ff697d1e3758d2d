"""A snapshot with any history equals one built afresh, and a fork never changes its parent."""

from typing import Any

import numpy as np
from core.tests.predicates.strategies import FEATURES, SETTINGS, futures, worlds
from hypothesis import given
from hypothesis import strategies as st

from nodewright.predicates import feasible
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

EVERYTHING = tuple(FEATURES)


def rebuild(snapshot: Snapshot) -> tuple[Snapshot, list[int]]:
    """The same nodes and pods without the history, and the rows of the old snapshot in order of the new."""
    fresh, rows = snapshot.sibling(), [row for row, _ in snapshot.nodes()]
    fresh.context = snapshot.context
    fresh.add_nodes([node for _, node in snapshot.nodes()])
    for pod_class, placed in snapshot.placements():
        for row, count in placed.items():
            fresh.place(pod_class, rows.index(row), count)
    return fresh, rows


def columns(snapshot: Snapshot) -> dict[str, int]:
    """Resources of which some node has something."""
    known = list(snapshot.vocabulary.resources.items())[: snapshot.free.shape[1]]
    return {name: column for name, column in known if snapshot.free[:, column].any()}


def contents(snapshot: Snapshot, classes: list[PodClass]) -> tuple[Any, ...]:
    """Everything that can be seen of a snapshot."""
    # How many resources are known is common to a family; what a node has of them is its own.
    free = {name: snapshot.free[:, column].tolist() for name, column in columns(snapshot).items()}
    placed = {pod_class.id: dict(rows) for pod_class, rows in snapshot.placements()}
    masks = [feasible(snapshot, pod_class).tolist() for pod_class in classes]
    names = [node.name for _, node in snapshot.nodes()]
    return placed, masks, names, free, snapshot.alive.tolist()


@given(worlds(*EVERYTHING, length=20))
@SETTINGS
def test_counts_kept_equal_counts_made_afresh(world: tuple[Snapshot, list[PodClass]]) -> None:
    snapshot, classes = world
    fresh, rows = rebuild(snapshot)
    for pod_class in classes:
        assert feasible(snapshot, pod_class)[rows].tolist() == feasible(fresh, pod_class).tolist()
    snapshot.widen()
    assert np.array_equal(snapshot.free[rows], fresh.free)
    assert np.array_equal(snapshot.allocatable[rows], fresh.allocatable)


@given(worlds(*EVERYTHING), st.data())
@SETTINGS
def test_a_fork_never_changes_its_parent(world: tuple[Snapshot, list[PodClass]], data: st.DataObject) -> None:
    snapshot, classes = world
    fork = snapshot.fork()
    before = contents(snapshot, classes)
    data.draw(futures(fork, classes))
    contents(fork, classes)
    assert contents(snapshot, classes) == before


@given(worlds(*EVERYTHING), st.data())
@SETTINGS
def test_a_parent_never_changes_its_fork(world: tuple[Snapshot, list[PodClass]], data: st.DataObject) -> None:
    snapshot, classes = world
    fork = snapshot.fork()
    before = contents(fork, classes)
    data.draw(futures(snapshot, classes))
    assert contents(fork, classes) == before
