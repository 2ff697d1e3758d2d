"""The fake provider keeps the provider contract, with each capability on and off."""

from typing import Any

import pytest
from msgspec.structs import replace

from fake_world import FakeCloudWorld
from nodewright.spec import Capability
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import (
    CHECKS,
    ContractOutcome,
    ContractWorld,
    Level,
    ProviderContract,
    certify,
    reached,
    run_contract,
)
from nodewright.testkit.contract.reads import OPTIONAL_GROUP_HOOKS
from nodewright_fake import FakeProvider


class FakeWorld(FakeCloudWorld):
    """Group ``a``: two machines, room for more, and what is asked for comes when it is told to."""

    def __init__(self, own: dict[str, Any] | None = None, **options: Any) -> None:
        self.clock = FakeClock()
        self.group_id = "a"
        group = {"name": "a", "size": 2, "request_delay": "100h", "price_per_hour": 0.2, "delete_delay": "30s"}
        group |= own or {}
        full = {
            "groups": [group, {"name": "b"}],
            "machine_types": [{"name": "big", "cpu": 16}],
            "parallel_calls": True,
            "provisioning_classes": [{"name": "own.example", "group": "a"}],
            "settles_after": 5,
        }
        self.connect_to(FakeProvider, {**full, **options})


class TestFake(ProviderContract):
    def contract_world(self) -> ContractWorld:
        return FakeWorld()


def test_the_certificate_is_complete_and_not_without_a_control() -> None:
    results = run_contract(FakeWorld)
    assert reached(certify(results)) == Level.COMPLETE
    without_restart = [
        replace(one, outcome=ContractOutcome.SKIPPED) if one.check == "a_new_process_sees_the_same" else one
        for one in results
    ]
    assert reached(certify(without_restart)) == Level.FAILURES


@pytest.mark.parametrize("off", list(Capability))
def test_without_one_capability_the_rest_of_the_contract_holds(off: Capability) -> None:
    results = run_contract(lambda: FakeWorld(switched_off=[off.value]))
    assert [r for r in results if r.outcome == ContractOutcome.FAILED] == []
    skipped = {r.reason for r in results if r.outcome == ContractOutcome.SKIPPED}
    assert skipped == {f"{off.value} is not declared"}


@pytest.mark.parametrize("off", list(OPTIONAL_GROUP_HOOKS))
def test_a_capability_that_a_group_lacks_is_not_asked_of_it(off: Capability) -> None:
    results = run_contract(lambda: FakeWorld({"switched_off": {off.value: "not here"}}))
    assert [r for r in results if r.outcome == ContractOutcome.FAILED] == []
    skipped = {r.check: r.reason for r in results if r.outcome == ContractOutcome.SKIPPED}
    asking = (check.name for check in CHECKS if check.capability == off)
    assert skipped == dict.fromkeys(asking, f"{off.value} is switched off for a: not here")


@pytest.mark.parametrize(
    "options",
    [{"placeholder_failures": True}, {"refresh_interval": "10m"}, {"ignores_id_case": True}],
    ids=lambda options: next(iter(options)),
)
def test_variants_of_the_cloud_keep_the_contract(options: dict[str, Any]) -> None:
    results = run_contract(lambda: FakeWorld(**options))
    assert [r for r in results if r.outcome != ContractOutcome.PASSED] == []


def test_calls_that_must_not_overlap_are_not_made_to() -> None:
    results = run_contract(lambda: FakeWorld(parallel_calls=False))
    not_passed = {r.check: r.reason for r in results if r.outcome != ContractOutcome.PASSED}
    overlaps = ("reads_during_a_write_are_answered", "of_overlapping_increases_one_is_accepted")
    assert not_passed == dict.fromkeys(overlaps, "parallel_calls is not declared")
