"""A certificate authority once for all tests, and a resource group of its own for each."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from attached import Stage
from azurecloud import Authority, AzureCloud
from azurecloud.cloud import SECRET
from cloud_world import START
from environment import only_variables
from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import connect
from nodewright_azure.provider import AzureProvider

Attach = Callable[..., Stage[AzureCloud]]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session", autouse=True)
def credentials() -> Iterator[None]:
    """A service principal's secret in the environment. Nothing of this machine's own account is seen."""
    with only_variables(("ARM_", "AZURE_"), {"ARM_CLIENT_SECRET": SECRET}):
        yield


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture
def cloud(authority: Authority, clock: FakeClock) -> Iterator[AzureCloud]:
    group = AzureCloud(authority, clock.now)
    yield group
    group.close()


@pytest.fixture
def attach(cloud: AzureCloud, clock: FakeClock) -> Attach:
    """``attach("0:10:web", discover="label:a=b", refresh_interval=0)``: a plugin that has read the cloud once."""

    def build(*nodes: str, discover: tuple[str, ...] = (), read: bool = True, **options: Any) -> Stage[AzureCloud]:
        context = ProviderContext(
            clock=clock,
            random=Random(1),
            options={**cloud.options, **options},
            node_group_specs=nodes,
            auto_discovery_specs=discover,
        )
        stage = Stage(clock=clock, cloud=cloud, client=connect("azure", AzureProvider(context), clock))
        if read:
            stage.later(0)
        return stage

    return build
