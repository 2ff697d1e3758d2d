"""Compute Engine for the failover table."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine_play import CHEAP
from environment import only_variables
from failover_stage import END, Stage
from gcecloud.cloud import GceCloud
from gcecloud.play import QUOTA, GcePlay
from nodewright.testkit import FakeClock


@contextmanager
def open_stage(settings: Mapping[str, Any], *, tells: bool) -> Iterator[Stage]:
    """A server of its own; a key that the SDK's chain finds."""
    clock = FakeClock()
    cloud = GceCloud(clock.now)
    with TemporaryDirectory() as folder:
        key = {"GOOGLE_APPLICATION_CREDENTIALS": str(cloud.write_credentials(Path(folder)))}
        with only_variables(("GOOGLE_APPLICATION_CREDENTIALS",), key):
            play = GcePlay(cloud, clock, {"detect_failures": tells}, end=END, settings=settings)
            cheap = play.names[CHEAP]
            yield Stage(
                play=play,
                shortage=lambda left: cloud.limit(cheap, left),
                quota=lambda: cloud.limit(cheap, 0, QUOTA),
                calls=cloud.calls.total,
            )
    cloud.close()
