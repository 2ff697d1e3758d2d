"""A write to a cloud starts only if the gate permits it; reads always start."""

from typing import Any

import pytest

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.provider import InlineRunner, ProviderClient, connect_provider
from nodewright.adapters.provider.runner import NotStarted
from nodewright.model.errors import ProviderUnavailable
from nodewright.model.group import GroupRef
from nodewright.model.write_fence import WriteFence

GROUP = GroupRef("scripted", "g")


class Lease:
    """How many seconds are left of it."""

    def __init__(self) -> None:
        self.left = 15.0

    def remaining(self) -> float:
        return self.left


@pytest.fixture
def lease() -> Lease:
    return Lease()


@pytest.fixture
def gate(clock: VirtualClock, lease: Lease) -> WriteFence:
    return WriteFence(clock.now, lease.remaining)


@pytest.fixture
def gated(scripted: Any, clock: VirtualClock, gate: WriteFence) -> ProviderClient:
    return connect_provider("scripted", scripted, clock=clock, runner=InlineRunner(clock), gate=gate)


def test_a_write_needs_the_lease_and_what_is_saved_for_as_long_as_the_call_may_take(
    gated: ProviderClient, scripted: Any, clock: VirtualClock, gate: WriteFence, lease: Lease
) -> None:
    with pytest.raises(NotStarted, match="covers no write to scripted/g that may take 60 s"):
        gated.increase_size("g", 2, 3)
    gate.cover([GROUP], clock.now() + 75)
    assert gated.increase_size("g", 2, 3) == 1
    clock.sleep(15)
    assert gated.increase_size("g", 3, 4) == 1
    clock.sleep(0.1)
    with pytest.raises(NotStarted, match="the saved state covers no write"):
        gated.increase_size("g", 4, 5)
    gate.cover([GROUP], clock.now() + 75)
    lease.left = 1.0
    with pytest.raises(NotStarted, match="does not lead"):
        gated.delete_instances("g", ["i-1"], 4)
    assert (scripted.target, scripted.ids) == (4, ["i-1", "i-2"])
    assert gated.target_size("g") == 4


def test_a_process_that_was_frozen_before_a_repeat_does_not_repeat(
    gated: ProviderClient, scripted: Any, clock: VirtualClock, gate: WriteFence, lease: Lease
) -> None:
    def freeze() -> None:
        clock.sleep(30)
        lease.left = 0.0
        raise ProviderUnavailable("reset")

    gate.cover([GROUP], clock.now() + 75)
    scripted.script["increase_size"] = [freeze]
    with pytest.raises(NotStarted):
        gated.increase_size("g", 2, 3)
    assert scripted.calls.count("increase_size") == 1


def test_a_write_to_no_group_needs_the_lease_alone(gate: WriteFence, lease: Lease) -> None:
    assert gate.why_not(None, 60.0) == ""
    lease.left = 0.5
    assert "does not lead" in gate.why_not(None, 60.0)


def test_in_a_simulation_nothing_is_in_the_way() -> None:
    gate = WriteFence()
    gate.cover([GROUP], 75.0)
    assert gate.why_not(GROUP, 60.0) == ""
