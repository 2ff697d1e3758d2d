"""Saved state that is damaged while the engine is away."""

import pytest

from nodewright.clusterstate.memory import Memory
from nodewright.clusterstate.requests import opened
from nodewright.model.group import GroupRef
from nodewright_simulator.crash import Tripwire
from nodewright_simulator.store import MemoryStore

GROUP = GroupRef("fake", "a")


def memory(asked: float) -> Memory:
    return Memory(requests={GROUP: (opened(1, asked, 900.0),)})


def saved_twice() -> MemoryStore:
    store = MemoryStore(Tripwire())
    store.save_if_changed(memory(60.0))
    store.save_if_changed(memory(120.0))
    return store


def test_state_that_is_missing_is_that_of_a_first_start() -> None:
    store = saved_twice()
    store.damage("missing")
    assert store.load() == MemoryStore(Tripwire()).load()
    assert not store.load().memory.requests


def test_old_state_is_what_was_saved_first() -> None:
    store = saved_twice()
    store.damage("old")
    assert store.load().memory.requests == memory(60.0).requests


@pytest.mark.parametrize("how", ["truncated", "newer"])
def test_state_that_cannot_be_read_is_told(how: str) -> None:
    store = saved_twice()
    store.damage(how)
    loaded = store.load()
    assert loaded.warning.startswith("saved state is not used")
    assert not loaded.memory.requests


def test_state_of_another_cluster_names_other_groups() -> None:
    store = saved_twice()
    store.damage("foreign")
    assert list(store.load().memory.requests) == [GroupRef("fake", "elsewhere-a")]
