"""A cloud of its own for each test, and credentials that come from it."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gcecloud import GceCloud
from gcecloud.cloud import PROJECT, ZONE
from nodewright.adapters.provider import ProviderClient
from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import connect
from nodewright_gce.provider import GceProvider

START = 1_780_000_000.0
_KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"


@dataclass
class Stage:
    """A cloud, its clock, and a client that has read it."""

    clock: FakeClock
    cloud: GceCloud
    client: ProviderClient

    def later(self, seconds: float, *wanted: str) -> None:
        """Time passes and the client reads the cloud."""
        self.clock.sleep(seconds)
        self.client.refresh(frozenset(wanted))
        self.client.node_groups()


Connect = Callable[..., Stage]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture
def cloud(clock: FakeClock, tmp_path: Path) -> Iterator[GceCloud]:
    """What was said over HTTP was of the API, on both sides; the credentials are those that the SDK's chain finds."""
    made = GceCloud(clock.now)
    before = os.environ.get(_KEY_FILE)
    os.environ[_KEY_FILE] = str(made.write_credentials(tmp_path))
    yield made
    made.close()
    os.environ.pop(_KEY_FILE)
    if before is not None:
        os.environ[_KEY_FILE] = before
    assert made.findings == []


@pytest.fixture
def attach(cloud: GceCloud, clock: FakeClock) -> Connect:
    """``attach("0:10:<id>", discover="mig:…", refresh_interval=0)``: a plugin that has read the cloud once."""

    def build(*nodes: str, discover: tuple[str, ...] = (), read: bool = True, **options: Any) -> Stage:
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
