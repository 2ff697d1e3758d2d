"""The azure plugin keeps the provider contract, over TLS against a resource group of our own."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from azurecloud import Authority, AzureCloud
from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import ContractOutcome, ContractWorld, ProviderContract, connect, run_contract
from nodewright_azure.provider import AzureProvider

START = 1_780_000_000.0


class AzureWorld(ContractWorld):
    """One set with two machines; what is asked for comes when it is told to."""

    def __init__(self, authority: Authority, options: dict[str, Any]) -> None:
        self.clock = FakeClock(START)
        self.cloud = AzureCloud(authority, self.clock.now)
        self.group_id = self.cloud.add_set(capacity=2)
        self.cloud.hold(self.group_id)
        self._options = {**self.cloud.options, "prices_per_hour": {"Standard_D2s_v3": 0.096}, **options}
        self.set_minimum(self.group_id, 0)

    def set_minimum(self, group_id: str, size: int) -> None:
        specs = (f"{size}:10:{group_id}",)
        context = ProviderContext(clock=self.clock, random=Random(1), options=self._options, node_group_specs=specs)
        self.client = connect("azure", AzureProvider(context), self.clock)

    def machines(self, group_id: str) -> frozenset[str]:
        return self.cloud.machines(group_id)

    def set_target(self, group_id: str, target: int) -> None:
        self.cloud.set_target(group_id, target)

    def arrive(self, group_id: str) -> str:
        return self.cloud.arrive(group_id)

    def fail_creation(self, group_id: str) -> None:
        self.cloud.fail(group_id)

    def before_write(self, happening: Callable[[], object]) -> None:
        self.cloud.before_write(happening)

    def pass_time(self, seconds: float) -> None:
        self.clock.sleep(seconds)


class Worlds:
    """Makes worlds, and ends them."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._made: list[AzureWorld] = []

    def make(self, prepare: Callable[[AzureWorld], object] | None = None, **options: Any) -> AzureWorld:
        self._made.append(AzureWorld(self._authority, options))
        if prepare is not None:
            prepare(self._made[-1])
        return self._made[-1]

    def close(self) -> None:
        for world in self._made:
            world.cloud.close()


@pytest.fixture
def worlds(authority: Authority) -> Iterator[Worlds]:
    made = Worlds(authority)
    yield made
    made.close()


class TestAzure(ProviderContract):
    @pytest.fixture(autouse=True)
    def _worlds(self, worlds: Worlds) -> None:
        self.worlds = worlds

    def contract_world(self) -> ContractWorld:
        return self.worlds.make()


@pytest.mark.parametrize(
    ("prepare", "options"),
    [
        (None, {"force_delete": True}),
        (lambda world: setattr(world.cloud.set(world.group_id), "delete_seconds", 0.0), {"refresh_interval": 0}),
        (None, {"detect_failures": False}),
    ],
    ids=["forced deletions", "no interval", "no failures"],
)
def test_variants_keep_the_contract(
    worlds: Worlds, prepare: Callable[[AzureWorld], object] | None, options: dict[str, Any]
) -> None:
    results = run_contract(lambda: worlds.make(prepare, **options))
    assert [r for r in results if r.outcome == ContractOutcome.FAILED] == []
