"""moto's server, once for all tests, and a separate account for each."""

from collections.abc import Iterator

import pytest

from attached import Attach
from awscloud import AwsCloud, MotoServer
from awscloud.cloud import ENVIRONMENT
from cloud_world import START
from environment import only_variables
from nodewright.testkit import FakeClock
from nodewright_aws.provider import AwsProvider


@pytest.fixture(scope="session")
def moto() -> Iterator[MotoServer]:
    with MotoServer() as server:
        yield server


@pytest.fixture(scope="session", autouse=True)
def credentials() -> Iterator[None]:
    """What the SDK's chain finds first: the environment. Nothing of this machine's own account is seen."""
    with only_variables(("AWS_",), ENVIRONMENT):
        yield


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture
def cloud(moto: MotoServer, clock: FakeClock) -> Iterator[AwsCloud]:
    account = AwsCloud(moto.port, clock.now)
    yield account
    account.clear()
    account.close()


@pytest.fixture
def attach(cloud: AwsCloud, clock: FakeClock) -> Attach[AwsCloud]:
    return Attach("aws", AwsProvider, cloud, clock, cloud.options)
