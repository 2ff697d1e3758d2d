"""The gce plugin keeps the provider contract, over real HTTP against a cloud held to Google's own types."""

from random import Random
from typing import Any

import pytest

from cloud_world import CloudWorld
from gcecloud import GceCloud
from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import ContractOutcome, ContractWorld, ProviderContract, connect, run_contract
from nodewright_gce.provider import GceProvider


class GceWorld(CloudWorld[GceCloud]):
    """One group with two machines; what is asked for comes when it is told to."""

    def __init__(self, cloud: GceCloud, clock: FakeClock, options: dict[str, Any]) -> None:
        self.clock = clock
        self.cloud = cloud
        self.group_id = cloud.add_group(size=2)
        cloud.hold(self.group_id)
        self._options = options
        self.set_minimum(self.group_id, 0)

    def set_minimum(self, group_id: str, size: int) -> None:
        context = ProviderContext(
            clock=self.clock,
            random=Random(group_id),  # no two processes send the same request ids
            options={"endpoints": self.cloud.endpoints, **self._options},
            node_group_specs=(f"{size}:10:{group_id}",),
        )
        self.client = connect("gce", GceProvider(context), self.clock)


class TestGce(ProviderContract):
    @pytest.fixture(autouse=True)
    def _cloud(self, cloud: GceCloud, clock: FakeClock) -> None:
        self.cloud, self.clock = cloud, clock

    def contract_world(self) -> ContractWorld:
        return GceWorld(self.cloud, self.clock, {})


@pytest.mark.parametrize(
    ("slow", "options"),
    [
        (0.0, {"refresh_interval": 0}),
        (0.0, {"detect_failures": False}),
        (0.0, {"atomic_resize": False}),
        (5.0, {}),
    ],
    ids=["no interval", "no failures", "no atomic resize", "slow operations"],
)
def test_variants_keep_the_contract(cloud: GceCloud, clock: FakeClock, slow: float, options: dict[str, Any]) -> None:
    cloud.state.operation_seconds = slow
    results = run_contract(lambda: GceWorld(cloud, clock, options))
    assert [r for r in results if r.outcome == ContractOutcome.FAILED] == []
