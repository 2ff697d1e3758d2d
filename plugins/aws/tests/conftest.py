"""moto's server, once for all tests, and an account of its own for each."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from attached import Stage
from awscloud import AwsCloud, MotoServer
from awscloud.cloud import ENVIRONMENT, REGION
from cloud_world import START
from environment import only_variables
from nodewright.adapters.provider import ProviderClient
from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import connect
from nodewright_aws.provider import AwsProvider

Attach = Callable[..., Stage[AwsCloud]]


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
    account.close()


@pytest.fixture
def attach(cloud: AwsCloud, clock: FakeClock) -> Attach:
    """``attach("0:10:web", discover="asg:tag=a", refresh_interval=0)``: a plugin that has read the cloud once."""

    def build(*nodes: str, discover: tuple[str, ...] = (), read: bool = True, **options: Any) -> Stage[AwsCloud]:
        stage = Stage(clock=clock, cloud=cloud, client=join(cloud, clock, *nodes, discover=discover, **options))
        if read:
            stage.later(0)
        return stage

    return build


def join(
    cloud: AwsCloud, clock: FakeClock, *nodes: str, discover: tuple[str, ...] = (), **options: Any
) -> ProviderClient:
    """A client of a plugin whose every service is behind the proxy."""
    endpoints = dict.fromkeys(("autoscaling", "ec2", "eks", "iam", "sts"), cloud.proxy.url)
    context = ProviderContext(
        clock=clock,
        random=Random(1),
        options={"region": REGION, "endpoints": endpoints, **options},
        node_group_specs=nodes,
        auto_discovery_specs=discover,
    )
    return connect("aws", AwsProvider(context), clock)
