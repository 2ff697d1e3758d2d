"""A world around any variant of the fake provider, so that the suite can be tried on faulty ones."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import ContractOutcome, ContractWorld, connect, run_contract
from nodewright_fake import FakeProvider

Rejections = Mapping[str, str]
Judge = Callable[[type[FakeProvider]], Rejections]


class VariantWorld(ContractWorld):
    """The fake cloud behind a variant of its provider."""

    def __init__(self, variant: type[FakeProvider]) -> None:
        self.clock = FakeClock()
        self.group_id = "a"
        group = {"name": "a", "size": 2, "request_delay": "100h", "price_per_hour": 0.2}
        options: dict[str, Any] = {"groups": [group], "machine_types": [{"name": "big"}]}
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

    def before_write(self, happening: Callable[[], object]) -> None:
        self.cloud.before_write(happening)

    def pass_time(self, seconds: float) -> None:
        self.clock.sleep(seconds)


@pytest.fixture
def judge() -> Judge:
    """Runs the whole suite on a provider; answers the checks that reject it, with their sentences."""

    def run(variant: type[FakeProvider]) -> Rejections:
        results = run_contract(lambda: VariantWorld(variant))
        return {r.check: r.reason for r in results if r.outcome == ContractOutcome.FAILED}

    return run
