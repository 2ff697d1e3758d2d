"""A cloud of its own for each test, and credentials that come from it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from attached import Stage
from cloud_world import START
from environment import only_variables
from gcecloud import GceCloud
from gcecloud.cloud import PROJECT, ZONE
from nodewright.adapters.provider import ProviderClient
from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import connect
from nodewright_gce.provider import GceProvider

_KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"


Attach = Callable[..., Stage[GceCloud]]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture
def cloud(clock: FakeClock, tmp_path: Path) -> Iterator[GceCloud]:
    """What was said over HTTP was of the API, on both sides; the credentials are those that the SDK's chain finds."""
    made = GceCloud(clock.now)
    with only_variables((_KEY_FILE,), {_KEY_FILE: str(made.write_credentials(tmp_path))}):
        yield made
    made.close()
    assert made.findings == []


@pytest.fixture
def attach(cloud: GceCloud, clock: FakeClock) -> Attach:
    """``attach("0:10:<id>", discover="mig:…", refresh_interval=0)``: a plugin that has read the cloud once."""

    def build(*nodes: str, discover: tuple[str, ...] = (), read: bool = True, **options: Any) -> Stage[GceCloud]:
        stage = Stage(clock=clock, cloud=cloud, client=join(cloud, clock, *nodes, discover=discover, **options))
        if read:
            stage.later(0)
        return stage

    return build


def join(
    cloud: GceCloud, clock: FakeClock, *nodes: str, discover: tuple[str, ...] = (), **options: Any
) -> ProviderClient:
    """A client of a plugin whose every service is that cloud's."""
    given = {"project": PROJECT, "zones": [ZONE], "endpoints": cloud.endpoints, **options}
    context = ProviderContext(
        clock=clock, random=Random(1), options=given, node_group_specs=nodes, auto_discovery_specs=discover
    )
    return connect("gce", GceProvider(context), clock)
