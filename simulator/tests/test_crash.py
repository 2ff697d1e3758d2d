"""The engine can be killed at any write, before it or right after its effect, and at each point between two steps."""

from typing import Any, cast

import pytest

from nodewright.clusterstate.memory import Memory
from nodewright.model.group import GroupRef
from nodewright_simulator.crash import Boundary, EngineCrashed, Tripwire
from nodewright_simulator.store import MemoryStore


class Provider:
    def __init__(self) -> None:
        self.targets: list[int] = []

    def target_size(self, group_id: str) -> int:
        return len(group_id)

    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        assert group_id == "a"
        self.targets.append(target)
        return target - expected_target


@pytest.mark.parametrize(("after_effect", "expected"), [(False, [1, 2]), (True, [1, 2, 3])])
def test_dies_at_the_named_write(after_effect: bool, expected: list[int]) -> None:
    provider, wire = Provider(), Tripwire()
    guarded = wire.guard(cast("Any", provider))
    assert guarded.increase_size("a", 0, 1) == 1
    wire.arm(2, after_effect=after_effect)
    assert guarded.target_size("abc") == 3
    guarded.increase_size("a", 1, 2)
    with pytest.raises(EngineCrashed):
        guarded.increase_size("a", 2, 3)
    assert provider.targets == expected
    assert guarded.increase_size("a", 3, 4) == 1


def remembered(count: int) -> Memory:
    return Memory(given_up={GroupRef("p", "g"): count})


def test_a_save_is_two_boundaries_if_it_changes_anything() -> None:
    wire = Tripwire()
    store = MemoryStore(wire)
    for count in (1, 1, 2):
        store.save_if_changed(remembered(count))
    assert wire.passed == [Boundary("save", "before"), Boundary("save", "after")] * 2


@pytest.mark.parametrize(("boundary", "saved", "asked"), [(1, 0, []), (2, 1, []), (3, 1, []), (4, 1, [1])])
def test_dies_once_at_the_boundary_of_that_number(boundary: int, saved: int, asked: list[int]) -> None:
    provider, wire = Provider(), Tripwire()
    store, guarded = MemoryStore(wire), wire.guard(cast("Any", provider))
    wire.arm_boundary(boundary)
    with pytest.raises(EngineCrashed):
        live(store, guarded)
    assert store.load().memory == (remembered(saved) if saved else Memory())
    assert provider.targets == asked
    live(store, guarded)


def live(store: MemoryStore, provider: Any) -> None:
    store.save_if_changed(remembered(1))
    provider.increase_size("a", 0, 1)
