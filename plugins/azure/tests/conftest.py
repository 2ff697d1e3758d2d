"""A certificate authority once for all tests, and a resource group of its own for each."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from azurecloud import Authority, AzureCloud
from azurecloud.cloud import SECRET
from nodewright.adapters.provider import ProviderClient
from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import connect
from nodewright_azure.provider import AzureProvider

START = 1_780_000_000.0


@dataclass
class Stage:
    """A cloud, its clock, and a client that has read it."""

    clock: FakeClock
    cloud: AzureCloud
    client: ProviderClient

    def later(self, seconds: float, *wanted: str) -> None:
        """Time passes and the client reads the cloud."""
        self.clock.sleep(seconds)
        self.client.refresh(frozenset(wanted))
        self.client.node_groups()


Attach = Callable[..., Stage]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session", autouse=True)
def credentials() -> Iterator[None]:
    """A service principal's secret in the environment. Nothing of this machine's own account is seen."""
    names = [name for name in os.environ if name.startswith(("ARM_", "AZURE_"))]
    before = {name: os.environ.pop(name) for name in names}
    os.environ["ARM_CLIENT_SECRET"] = SECRET
    yield
    del os.environ["ARM_CLIENT_SECRET"]
    os.environ.update(before)


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

    def build(*nodes: str, discover: tuple[str, ...] = (), read: bool = True, **options: Any) -> Stage:
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
