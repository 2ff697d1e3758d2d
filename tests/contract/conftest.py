"""A world around any variant of the fake provider, so that the suite can be tried on faulty ones."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import CHECKS, ContractOutcome, ContractResult, ContractWorld, connect, run_check
from nodewright_fake import FakeProvider

Judge = Callable[[type[FakeProvider], str], ContractResult]


class VariantWorld(ContractWorld):
    """The fake cloud behind a variant of its provider."""

    def __init__(self, variant: type[FakeProvider]) -> None:
        self.clock = FakeClock()
        self.group_id = "a"
        group = {"name": "a", "size": 2, "request_delay": "100h", "price_per_hour": 0.2}
        options: dict[str, Any] = {"groups": [group], "machine_types": [{"name": "big"}], "parallel_calls": True}
        provider = variant(ProviderContext(clock=self.clock, random=Random(1), options=options))
        self.cloud = provider.cloud
        self.client = connect("fake", provider, self.clock)

    def machines(self, group_id: str) -> frozenset[str]:
        return self.cloud.living(group_id)

    def set_target(self, group_id: str, target: int) -> None:
        self.cloud.set_target(group_id, target)

    def arrive(self, group_id: str) -> str:
        return self.cloud.arrive_now(group_id)

    def fail_creation(self, group_id: str) -> None:
        self.cloud.fail_now(group_id)

    def set_minimum(self, group_id: str, size: int) -> None:
        group = self.cloud.group(group_id)
        group.config, group.seen = replace(group.config, min_size=size), None

    def before_write(self, happening: Callable[[], object]) -> None:
        self.cloud.before_write(happening)

    def pass_time(self, seconds: float) -> None:
        self.clock.sleep(seconds)


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

    return run
