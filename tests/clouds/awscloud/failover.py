"""AWS for the failover table."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from awscloud.cloud import ENVIRONMENT, AwsCloud
from awscloud.moto_server import MotoServer
from awscloud.play import QUOTA, AwsPlay
from engine_play import CHEAP
from environment import only_variables
from failover_stage import END, Stage
from nodewright.testkit import FakeClock


@contextmanager
def open_stage(settings: Mapping[str, Any], *, tells: bool) -> Iterator[Stage]:
    """A moto server of its own; a quota is told by a failed launch, as AWS does."""
    clock = FakeClock()
    with only_variables(("AWS_",), ENVIRONMENT), MotoServer() as server:
        cloud = AwsCloud(server.port, clock.now)
        play = AwsPlay(cloud, clock, {"detect_failures": tells}, end=END, settings=settings)
        cheap = play.names[CHEAP]

        def quota() -> None:
            cloud.hold(cheap)
            cloud.before_write(lambda: cloud.fail(cheap, QUOTA))

        yield Stage(play=play, shortage=lambda left: cloud.limit(cheap, left), quota=quota, calls=cloud.calls.total)
        cloud.close()
