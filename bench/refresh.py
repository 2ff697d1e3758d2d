"""What reading a cloud costs: ``refresh.py [--provider aws] [--groups 500] [--machines 10]``.

The plugin reads a server on this machine over HTTP (moto for AWS, ours for others), on virtual time; seconds are real and
are mostly the server's. What counts is the number of calls: none of them may be for one machine.
Exit code 1: more calls than the limit that stands with the provider.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from rich.console import Console
from rich.table import Table

from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import Client, connect

sys.path.append(str(Path(__file__).parents[1] / "tests" / "clouds"))

from awscloud import AwsCloud, MotoServer
from awscloud.cloud import CREDENTIALS, REGION
from azurecloud import Authority, AzureCloud
from azurecloud.cloud import SECRET
from gcecloud import GceCloud
from gcecloud.cloud import PROJECT, ZONE
from nodewright_aws.provider import AwsProvider
from nodewright_azure.provider import AzureProvider
from nodewright_gce.provider import GceProvider

_MINUTE = 61.0


class Stage(NamedTuple):
    """A client of a cloud that is full of machines; ``calls`` counts those to the cloud so far."""

    client: Client
    clock: FakeClock
    calls: Callable[[], int]
    group: str
    most_calls: int


@contextmanager
def aws(groups: int, machines: int) -> Iterator[Stage]:
    """One launch template for all; the first reading also learns types and permissions."""
    os.environ.update({name.upper(): value for name, value in CREDENTIALS.items()}, AWS_EC2_METADATA_DISABLED="true")
    clock, tag = FakeClock(), uuid4().hex
    with MotoServer() as moto:
        cloud = AwsCloud(moto.port, clock.now)
        launch = {"LaunchTemplateName": cloud.add_template(), "Version": "1"}
        for _ in range(groups):
            name = cloud.add_group(size=machines, tags={tag: "x"}, MaxSize=machines * 2, LaunchTemplate=launch)
        endpoints = dict.fromkeys(("autoscaling", "ec2", "eks"), cloud.proxy.url)
        context = ProviderContext(
            clock=clock, options={"region": REGION, "endpoints": endpoints}, auto_discovery_specs=(f"asg:tag={tag}",)
        )
        client = connect("aws", AwsProvider(context), clock)
        yield Stage(client, clock, lambda: sum(cloud.calls.values()), name, most_calls=-(-groups // 100) + 3)
        cloud.close()


@contextmanager
def azure(groups: int, machines: int) -> Iterator[Stage]:
    """Azure lists the machines of one set at a time: one call for each set at first, and then for those out of date."""
    os.environ["ARM_CLIENT_SECRET"] = SECRET
    clock = FakeClock()
    with tempfile.TemporaryDirectory() as folder:
        cloud = AzureCloud(Authority(Path(folder)), clock.now)
        sizes = {"a": "b", "min": "0", "max": str(machines * 2)}
        names = [cloud.add_set(capacity=machines, tags=sizes) for _ in range(groups)]
        context = ProviderContext(clock=clock, options=cloud.options, auto_discovery_specs=("label:a=b",))
        client = connect("azure", AzureProvider(context), clock)
        calls = groups + -(-groups // cloud.arm.page) + 1
        yield Stage(client, clock, lambda: cloud.calls.total() - cloud.calls["token"], names[-1], most_calls=calls)
        cloud.close()


@contextmanager
def gce(groups: int, machines: int) -> Iterator[Stage]:
    """Prepare groups at rest, in pages of 500 groups and 500 machines, with one template and one machine type."""
    clock = FakeClock()
    with tempfile.TemporaryDirectory() as folder:
        cloud = GceCloud(clock.now)
        os.environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(cloud.write_credentials(Path(folder)))
        template = cloud.add_template()
        names = [cloud.add_group(f"pool-{n}", size=machines, template=template) for n in range(groups)]
        context = ProviderContext(
            clock=clock,
            options={"project": PROJECT, "zones": [ZONE], "endpoints": cloud.endpoints},
            auto_discovery_specs=(f"mig:namePrefix=pool,max={machines * 2}",),
        )
        client = connect("gce", GceProvider(context), clock)
        calls = -(-groups // 500) + -(-groups * machines // 500) + 2
        yield Stage(client, clock, lambda: cloud.calls.total() - cloud.calls["token"], names[-1], most_calls=calls)
        cloud.close()


CLOUDS = {"aws": aws, "azure": azure, "gce": gce}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", choices=sorted(CLOUDS), default="aws")
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--machines", type=int, default=10)
    chosen = parser.parse_args()
    with CLOUDS[chosen.provider](chosen.groups, chosen.machines) as stage:
        steps: dict[str, Callable[[], None]] = {
            "first": lambda: read(stage, 0.0),
            "within the interval": lambda: read(stage, 10.0),
            "one group wanted": lambda: read(stage, 1.0, stage.group),
            "after the interval": lambda: read(stage, _MINUTE),
        }
        table = Table("refresh", "calls", "seconds", title=f"{chosen.provider}: {chosen.groups} × {chosen.machines}")
        counts = []
        for name, step in steps.items():
            before, started = stage.calls(), time.perf_counter()
            step()
            counts.append(stage.calls() - before)
            table.add_row(name, str(counts[-1]), f"{time.perf_counter() - started:.2f}")
        machines = sum(len(stage.client.instances(group.id)) for group in stage.client.node_groups())
    Console().print(table)
    print(f"{machines} machines seen")
    return int(max(counts) > stage.most_calls or machines != chosen.groups * chosen.machines)


def read(stage: Stage, seconds: float, *wanted: str) -> None:
    """Time passes, and everything is read as a loop does."""
    stage.clock.sleep(seconds)
    stage.client.refresh(frozenset(wanted))
    for group in stage.client.node_groups():
        stage.client.target_size(group.id)
        stage.client.instances(group.id)
        stage.client.failed_instances(group.id)
        stage.client.template_node(group.id)


if __name__ == "__main__":
    sys.exit(main())
