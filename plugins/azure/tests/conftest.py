"""A certificate authority once for all tests, and a resource group of its own for each."""

from collections.abc import Iterator

import pytest

from attached import Attach
from azurecloud import Authority, AzureCloud
from azurecloud.cloud import SECRET
from cloud_world import START
from environment import only_variables
from nodewright.testkit import FakeClock
from nodewright_azure.provider import AzureProvider


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
def attach(cloud: AzureCloud, clock: FakeClock) -> Attach[AzureCloud]:
    return Attach("azure", AzureProvider, cloud, clock, cloud.options)
