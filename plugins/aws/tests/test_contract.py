"""The aws plugin keeps the provider contract, over real HTTP against moto."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from awscloud import AwsCloud, MotoServer
from awscloud.cloud import REGION
from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import ContractOutcome, ContractWorld, ProviderContract, connect, run_contract
from nodewright_aws.provider import AwsProvider

START = 1_780_000_000.0


class AwsWorld(ContractWorld):
    """One group with two machines; what is asked for comes when it is told to."""

    def __init__(self, moto_port: int, group: dict[str, Any], options: dict[str, Any]) -> None:
        self.clock = FakeClock(START)
        self.cloud = AwsCloud(moto_port, self.clock.now)
        self.group_id = self.cloud.add_group(size=2, **group)
        self.cloud.hold(self.group_id)
        endpoints = dict.fromkeys(("autoscaling", "ec2", "eks", "iam", "sts"), self.cloud.proxy.url)
        context = ProviderContext(
            clock=self.clock,
            random=Random(1),
            options={"region": REGION, "endpoints": endpoints, "prices_per_hour": {"m5.large": 0.096}, **options},
            node_group_specs=(f"0:10:{self.group_id}",),
        )
        self.client = connect("aws", AwsProvider(context), self.clock)

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

    def __init__(self, moto_port: int) -> None:
        self._moto_port = moto_port
        self._made: list[AwsWorld] = []

    def make(self, group: dict[str, Any] | None = None, **options: Any) -> AwsWorld:
        self._made.append(AwsWorld(self._moto_port, group or {}, options))
        return self._made[-1]

    def close(self) -> None:
        for world in self._made:
            world.cloud.close()


@pytest.fixture
def worlds(moto: MotoServer) -> Iterator[Worlds]:
    made = Worlds(moto.port)
    yield made
    made.close()


class TestAws(ProviderContract):
    @pytest.fixture(autouse=True)
    def _worlds(self, worlds: Worlds) -> None:
        self.worlds = worlds

    def contract_world(self) -> ContractWorld:
        return self.worlds.make()


@pytest.mark.parametrize(
    ("group", "options"),
    [
        ({"NewInstancesProtectedFromScaleIn": True}, {}),
        ({}, {"refresh_interval": 0}),
        ({}, {"detect_failures": False}),
    ],
    ids=["protected", "no interval", "no failures"],
)
def test_variants_keep_the_contract(worlds: Worlds, group: dict[str, Any], options: dict[str, Any]) -> None:
    results = run_contract(lambda: worlds.make(group, **options))
    assert [r for r in results if r.outcome == ContractOutcome.FAILED] == []
