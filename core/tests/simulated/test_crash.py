"""The engine can be killed at any write, before it or right after its effect."""

from typing import Any, cast

import pytest

from nodewright.adapters.simulated.crash import EngineCrashed, Tripwire


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
