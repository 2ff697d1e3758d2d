"""A separate cloud for each test, and credentials for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from attached import Attach
from cloud_world import START
from environment import only_variables
from gcecloud import GceCloud
from gcecloud.cloud import PROJECT, ZONE
from nodewright.testkit import FakeClock
from nodewright_gce.provider import GceProvider

_KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"


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
def attach(cloud: GceCloud, clock: FakeClock) -> Attach[GceCloud]:
    options = {"project": PROJECT, "zones": [ZONE], "endpoints": cloud.endpoints}
    return Attach("gce", GceProvider, cloud, clock, options)
