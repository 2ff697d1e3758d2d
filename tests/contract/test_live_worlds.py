"""The suite on a cloud in use: it asks before it writes, and leaves the group as it was."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from nodewright.spec import Capability, ProviderContext, ProviderUnavailable, hookimpl
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import (
    ContractOutcome,
    ContractResult,
    LeakedMachines,
    LiveWorld,
    connect,
    run_contract,
)
from nodewright_fake import FakeProvider

_WRITES = {"increase_size", "decrease_target_size", "delete_instances", "atomic_increase_size", "provision"}
Variant = type[FakeProvider]


class Reality:
    """A fake cloud that two instances of a plugin share, as two processes share a real one."""

    def __init__(self, first: Variant = FakeProvider, *, cloud: dict[str, Any] | None = None, **group: Any) -> None:
        self.clock = FakeClock()
        self.leaked = LeakedMachines()
        whole = {"name": "a", "size": 2, "request_delay": "100h", "price_per_hour": 0.1, **group}
        options = {"groups": [whole], "switched_off": [Capability.SIMULATION.value], **(cloud or {})}
        context = ProviderContext(clock=self.clock, random=Random(1), options=options)
        plugin = first(context)
        self.cloud = plugin.cloud
        self.client = connect("fake", plugin, self.clock)
        self.other = connect("fake", FakeProvider(context, self.cloud), self.clock)

    def check(self, *, write: bool) -> list[ContractResult]:
        return run_contract(
            lambda: LiveWorld(self.client, self.other, "a", clock=self.clock, may_write=write, leaked=self.leaked),
        )

    def writes(self) -> set[str]:
        """Hooks that write and were called."""
        return _WRITES & {*self.client.stats(), *self.other.stats()}


class AsksForMoreThanItSays(FakeProvider):
    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        accepted = super().increase_size(group_id, expected_target, target)
        self.cloud.set_target(group_id, target + 1)
        self._look_again(group_id)
        return accepted


class DeniesEverything(FakeProvider):
    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        super().decrease_target_size(group_id, expected_target, expected_target)
        return target - target

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        super().delete_instances(group_id, (), expected_target)
        return instance_ids[:0]


def outcomes(results: list[ContractResult], outcome: ContractOutcome) -> dict[str, str]:
    return {result.check: result.reason for result in results if result.outcome == outcome}


def test_nothing_is_written_unless_it_is_asked_for() -> None:
    real = Reality()
    results = real.check(write=False)
    assert outcomes(results, ContractOutcome.FAILED) == {}
    assert len(outcomes(results, ContractOutcome.PASSED)) >= 15
    assert real.writes() == set()
    assert "--write" in outcomes(results, ContractOutcome.SKIPPED)["increase_is_granted"]


@pytest.mark.parametrize("request_delay", ["100h", "0s"], ids=["machines never come", "machines come at once"])
def test_a_group_is_left_as_it_was(request_delay: str) -> None:
    real = Reality(request_delay=request_delay)
    before = real.cloud.living("a")
    results = real.check(write=True)
    assert outcomes(results, ContractOutcome.FAILED) == {}
    assert "increase_is_granted" in outcomes(results, ContractOutcome.PASSED)
    assert (real.cloud.view("a").target, real.cloud.living("a")) == (2, before)


def test_a_resize_by_somebody_else_is_played_by_a_second_instance() -> None:
    passed = outcomes(Reality().check(write=True), ContractOutcome.PASSED)
    assert {"resize_from_outside_refuses_increase", "resize_from_outside_refuses_decrease"} <= set(passed)


def test_machines_that_were_there_are_never_named() -> None:
    real = Reality(request_delay="0s")
    before, named = real.cloud.living("a"), set[str]()

    class Watched(FakeProvider):
        @hookimpl
        def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
            named.update(instance_ids)
            return super().delete_instances(group_id, instance_ids, expected_target)

    context = ProviderContext(clock=real.clock, options={"groups": [{"name": "a"}]})
    real.client = connect("fake", Watched(context, real.cloud), real.clock)
    real.other = connect("fake", Watched(context, real.cloud), real.clock)
    real.check(write=True)
    assert named
    assert not named & before


@pytest.mark.parametrize(
    ("unfit", "reason"),
    [
        ({"max_size": 3}, "a has less than 2 machines left to its maximum"),
        ({"size": 0, "min_size": 0}, ""),
    ],
)
def test_a_group_without_room_is_not_resized(unfit: dict[str, Any], reason: str) -> None:
    results = Reality(**unfit).check(write=True)
    assert outcomes(results, ContractOutcome.FAILED) == {}
    assert outcomes(results, ContractOutcome.SKIPPED).get("increase_is_granted", "") == reason


def test_a_group_in_motion_is_left_alone() -> None:
    real = Reality()
    real.cloud.set_target("a", 4)
    skipped = outcomes(real.check(write=True), ContractOutcome.SKIPPED)
    assert skipped["increase_is_granted"] == "a does not have all its machines: 2 of 4"
    assert real.cloud.view("a").target == 4


def test_what_is_asked_for_too_much_is_told_and_taken_back() -> None:
    real = Reality(AsksForMoreThanItSays)
    failed = outcomes(real.check(write=True), ContractOutcome.FAILED)
    assert "left target_size at 5" in failed["increase_raises_the_target_exactly"]
    assert real.cloud.view("a").target == 2


def test_what_cannot_be_taken_back_is_told() -> None:
    real = Reality()
    context = ProviderContext(clock=real.clock, options={"groups": [{"name": "a"}]})
    real.other = connect("fake", DeniesEverything(context, real.cloud), real.clock)
    results = real.check(write=True)
    [reason] = outcomes(results, ContractOutcome.FAILED).values()
    assert reason == "a had the target 2 and has 3 now: set it to 2 by hand"
    assert real.leaked.target_off == 1
    assert "a check before it left something behind" in outcomes(results, ContractOutcome.SKIPPED).values()


def test_machines_that_cannot_be_removed_are_named() -> None:
    real = Reality(request_delay="0s", provision_delay="0s")
    context = ProviderContext(clock=real.clock, options={"groups": [{"name": "a"}]})
    real.other = connect("fake", DeniesEverything(context, real.cloud), real.clock)
    before = real.cloud.living("a")
    [reason] = outcomes(real.check(write=True), ContractOutcome.FAILED).values()
    made = real.cloud.living("a") - before
    assert made
    assert real.leaked.ids == made
    assert all(machine in reason for machine in made)


class FailsAfterItsFirstWrite(FakeProvider):
    """The cloud is out of order from then on."""

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        if self.cloud.view("a").target != 2:
            raise ProviderUnavailable("the cloud is out of order")
        return super().refresh(wanted)


def test_a_group_that_cannot_be_read_afterwards_is_told_as_left_behind() -> None:
    real = Reality(FailsAfterItsFirstWrite, request_delay="0s", provision_delay="0s")
    context = ProviderContext(clock=real.clock, options={"groups": [{"name": "a"}]})
    real.other = connect("fake", FailsAfterItsFirstWrite(context, real.cloud), real.clock)
    results = real.check(write=True)
    reasons = outcomes(results, ContractOutcome.FAILED).values()
    assert any(reason.startswith("a had the target 2, and cannot be read now:") for reason in reasons)
    assert real.cloud.view("a").target == 3
    assert real.leaked
    assert "out of order" in real.leaked.unknown
    assert "a check before it left something behind" in outcomes(results, ContractOutcome.SKIPPED).values()


@pytest.mark.parametrize("settles_after", [0, 10])
@pytest.mark.parametrize("request_delay", ["0s", "3s", "100h"])
@pytest.mark.parametrize("old", ["instances", "both"])
def test_late_listings_leave_nothing_behind(old: str, request_delay: str, settles_after: int) -> None:
    late = {"old_reads": [{"lag": "10s", "of": old}], "settles_after": settles_after}
    real = Reality(cloud=late, request_delay=request_delay, provision_delay="0s")
    before = real.cloud.living("a")
    results = real.check(write=True)
    real.clock.sleep(600)
    # Sizes that are late without being declared as late break promises; nothing is left behind even so.
    assert bool(outcomes(results, ContractOutcome.FAILED)) == (old == "both" and not settles_after)
    assert not real.leaked
    assert (real.cloud.view("a").target, real.cloud.living("a")) == (2, before)
