"""The aws plugin keeps the provider contract, over real HTTP against moto."""

from random import Random
from typing import Any

import pytest

from awscloud import AwsCloud, MotoServer
from cloud_world import START, CloudWorld
from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import ContractOutcome, ContractWorld, ProviderContract, connect, run_contract
from nodewright_aws.provider import AwsProvider


class AwsWorld(CloudWorld[AwsCloud]):
    """One group with two machines; what is asked for comes when it is told to."""

    def __init__(self, moto_port: int, group: dict[str, Any], options: dict[str, Any]) -> None:
        self.clock = FakeClock(START)
        self.cloud = AwsCloud(moto_port, self.clock.now)
        self.group_id = self.cloud.add_group(size=2, **group)
        self.cloud.hold(self.group_id)
        context = ProviderContext(
            clock=self.clock,
            random=Random(1),
            options={**self.cloud.options, "prices_per_hour": {"m5.large": 0.096}, **options},
            node_group_specs=(f"0:10:{self.group_id}",),
        )
        self.client = connect("aws", AwsProvider(context), self.clock)

    def close(self) -> None:
        self.cloud.close()


class TestAws(ProviderContract):
    @pytest.fixture(autouse=True)
    def _moto(self, moto: MotoServer) -> None:
        self.moto = moto

    def contract_world(self) -> ContractWorld:
        return AwsWorld(self.moto.port, {}, {})


@pytest.mark.parametrize(
    ("group", "options"),
    [
        ({"NewInstancesProtectedFromScaleIn": True}, {}),
        ({}, {"refresh_interval": 0}),
        ({}, {"detect_failures": False}),
    ],
    ids=["protected", "no interval", "no failures"],
)
def test_variants_keep_the_contract(moto: MotoServer, group: dict[str, Any], options: dict[str, Any]) -> None:
    results = run_contract(lambda: AwsWorld(moto.port, group, options))
    assert [r for r in results if r.outcome == ContractOutcome.FAILED] == []
