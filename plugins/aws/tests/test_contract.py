"""The aws plugin keeps the provider contract, over real HTTP against moto."""

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from awscloud import AwsCloud, MotoServer
from cloud_world import START, CloudWorld
from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import ContractOutcome, ContractWorld, ProviderContract, connect, run_contract
from nodewright_aws.options import load_options
from nodewright_aws.provider import AwsProvider
from nodewright_aws.sdk import Sdk

# The budget of calls is full again.
_BETWEEN_WORLDS = 3600.0


class Account(NamedTuple):
    """What all worlds share: making the SDK's clients takes longer than any check."""

    clock: FakeClock
    cloud: AwsCloud
    sdk: Sdk


@pytest.fixture(scope="module")
def account(moto: MotoServer) -> Iterator[Account]:
    clock = FakeClock(START)
    cloud = AwsCloud(moto.port, clock.now)
    yield Account(clock, cloud, Sdk(load_options(ProviderContext(clock=clock, options=cloud.options)), clock))
    cloud.close()


class AwsWorld(CloudWorld[AwsCloud]):
    """One group with two machines; what is asked for comes when it is told to."""

    def __init__(self, account: Account, group: dict[str, Any], options: dict[str, Any]) -> None:
        self.clock, self.cloud = account.clock, account.cloud
        self.clock.sleep(_BETWEEN_WORLDS)
        self.group_id = self.cloud.add_group(size=2, **group)
        self.cloud.hold(self.group_id)
        self.cloud.add_queue(self.group_id)
        context = ProviderContext(
            clock=self.clock,
            random=Random(1),
            options={
                **self.cloud.options,
                "prices_per_hour": {"m5.large": 0.096},
                "cluster": self.group_id,
                "interruption_queue": self.group_id,
                "autoprovisioning": {"like": self.group_id, "instance_types": ["m5.large"], "labels_from_tags": True},
                **options,
            },
            node_group_specs=(f"0:10:{self.group_id}",),
        )
        self.client = connect("aws", AwsProvider(context, account.sdk), self.clock)

    def interrupt(self, group_id: str) -> str:
        instance_id = min(self.machines(group_id))
        self.cloud.interrupt(self.group_id, instance_id.rpartition("/")[2])
        return instance_id

    def close(self) -> None:
        self.cloud.mishaps.forget()


class TestAws(ProviderContract):
    @pytest.fixture(autouse=True)
    def _account(self, account: Account) -> None:
        self.account = account

    def contract_world(self) -> ContractWorld:
        return AwsWorld(self.account, {}, {})


@pytest.mark.parametrize(
    ("group", "options"),
    [
        ({"NewInstancesProtectedFromScaleIn": True}, {}),
        ({}, {"refresh_interval": 0}),
        ({}, {"detect_failures": False}),
    ],
    ids=["protected", "no interval", "no failures"],
)
def test_variants_keep_the_contract(account: Account, group: dict[str, Any], options: dict[str, Any]) -> None:
    results = run_contract(lambda: AwsWorld(account, group, options))
    assert [r for r in results if r.outcome == ContractOutcome.FAILED] == []
