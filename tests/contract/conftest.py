"""A world around any variant of the fake provider, so that the suite runs on faulty ones."""

from collections.abc import Callable
from typing import Any

import pytest

from fake_world import FakeCloudWorld
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import CHECKS, ContractOutcome, ContractResult, run_check
from nodewright_fake import FakeProvider

Judge = Callable[[type[FakeProvider], str], ContractResult]


class VariantWorld(FakeCloudWorld):
    """The fake cloud behind a variant of its provider."""

    def __init__(self, variant: type[FakeProvider]) -> None:
        self.clock = FakeClock()
        self.group_id = "a"
        group = {"name": "a", "size": 2, "request_delay": "100h", "price_per_hour": 0.2}
        served = {"name": "own.example", "group": "a"}
        options: dict[str, Any] = {
            "groups": [group],
            "machine_types": [{"name": "big"}],
            "parallel_calls": True,
            "provisioning_classes": [served],
            "settles_after": 5,
        }
        self.connect_to(variant, options)


@pytest.fixture
def judge() -> Judge:
    """Runs the check of that name on a provider."""
    named = {check.name: check for check in CHECKS}
    return lambda variant, check: run_check(named[check], lambda: VariantWorld(variant))


@pytest.fixture
def reject(judge: Judge) -> Callable[[type[FakeProvider], str], None]:
    """The check of that name rejects the provider and says why, and has nothing against one without its defect."""

    def run(faulty: type[FakeProvider], check: str) -> None:
        found = judge(faulty, check)
        assert found.outcome == ContractOutcome.FAILED, found
        assert found.reason.strip()
        assert "the world broke" not in found.reason
        assert judge(FakeProvider, check).outcome == ContractOutcome.PASSED

    return run
