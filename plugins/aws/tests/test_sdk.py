"""The SDK's edges: credentials, regions, secrets, and what is imported when."""

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from awscloud import AwsCloud
from awscloud.cloud import CREDENTIALS
from awscloud.proxy import refuse
from mishaps import Mishap
from nodewright.spec import AccessDenied, ProviderContext, ProviderError, ProviderUnavailable
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import CallSettings, connect
from nodewright_aws.errors import refusal
from nodewright_aws.provider import AwsProvider
from repeats import requests_of
from secrecy import shown

Attach = Callable[..., Any]


def test_choosing_the_plugin_imports_no_sdk() -> None:
    program = (
        "import sys\n"
        "from nodewright.spec import ProviderContext\n"
        "from nodewright.testkit import FakeClock\n"
        "from nodewright_aws.provider import AwsProvider\n"
        "AwsProvider(ProviderContext(clock=FakeClock(), node_group_specs=('0:1:a',))).provider_info()\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'boto3', 'botocore', 'urllib3'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("code", ["InvalidClientTokenId", "UnrecognizedClientException", "ExpiredToken", "AuthFailure"])
def test_wrong_credentials_are_one_clear_error(cloud: AwsCloud, attach: Attach, code: str) -> None:
    stage = attach("0:10:a", read=False)
    cloud.refuse_once("DescribeAutoScalingGroups", code, "The security token is invalid", 403)
    with pytest.raises(AccessDenied, match=f"DescribeAutoScalingGroups: {code}: The security token is invalid"):
        stage.client.refresh()


def test_credentials_that_expire_and_are_renewed_need_no_restart(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}", refresh_interval=0)
    cloud.refuse_once("DescribeAutoScalingGroups", "ExpiredToken", "expired", 403)
    with pytest.raises(AccessDenied):
        stage.client.refresh()
    stage.later(5)
    assert stage.client.target_size(name) == 1


def test_no_credentials_at_all(cloud: AwsCloud) -> None:
    program = (
        "from nodewright.spec import ProviderContext\n"
        "from nodewright.testkit import FakeClock\n"
        "from nodewright.testkit.contract import connect\n"
        "from nodewright_aws.provider import AwsProvider\n"
        "clock = FakeClock()\n"
        f"options = {{'region': 'us-east-1', 'endpoints': {{'autoscaling': '{cloud.proxy.url}'}}}}\n"
        "context = ProviderContext(clock=clock, options=options, node_group_specs=('0:1:a',))\n"
        "try:\n"
        "    connect('aws', AwsProvider(context), clock).refresh()\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment = {**clean, "AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nonexistent"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.startswith("AccessDenied DescribeAutoScalingGroups: Unable to locate credentials")


def test_no_region_and_an_unknown_profile() -> None:
    with pytest.raises(ProviderError, match=r"no region: set providers\.aws\.options\.region, or AWS_REGION"):
        _client({}).refresh()
    with pytest.raises(AccessDenied, match=r"providers\.aws\.options\.profile: .*no-such-profile"):
        _client({"profile": "no-such-profile", "region": "us-east-1"}).refresh()


def test_a_region_that_does_not_answer_is_named() -> None:
    dead = {"autoscaling": "http://127.0.0.1:9"}
    with pytest.raises(ProviderUnavailable, match="DescribeAutoScalingGroups in mars-1: EndpointConnectionError"):
        _client({"region": "mars-1", "endpoints": dead, "connect_timeout": 1}).refresh()


def test_a_call_that_is_never_answered_ends_at_its_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoints = {"autoscaling": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        options = {"region": "us-east-1", "endpoints": endpoints, "read_timeout": 0.2}
        with pytest.raises(ProviderUnavailable, match="DescribeAutoScalingGroups in us-east-1: ReadTimeoutError"):
            _client(options).refresh()


def test_no_secret_shows(cloud: AwsCloud, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    endpoints = {"autoscaling": cloud.proxy.url}
    options = {"region": "us-east-1", "endpoints": endpoints}
    context = ProviderContext(clock=FakeClock(), options=options, node_group_specs=("0:1:a",))
    provider = AwsProvider(context)
    cloud.refuse_once("DescribeAutoScalingGroups", "ExpiredToken", "The security token is expired", 403)
    with pytest.raises(AccessDenied) as refused:
        provider.refresh(frozenset())
    provider.refresh(frozenset())
    said = shown(provider, refused.value) + caplog.text
    assert "us-east-1" in said
    assert CREDENTIALS["aws_secret_access_key"] not in said


@pytest.mark.parametrize(
    "mishap", [refuse("Throttling", "Rate exceeded"), refuse("InternalFailure", "oops", 500), Mishap.LOST]
)
def test_only_the_core_repeats_calls(cloud: AwsCloud, attach: Attach, mishap: Any) -> None:
    """The SDK sends each once: its own repetitions would multiply with the core's."""
    client = attach(f"0:10:{cloud.add_group(size=1)}", refresh_interval=0).client
    assert requests_of(cloud, "DescribeAutoScalingGroups", mishap, client.refresh) == CallSettings().read_attempts


def test_only_the_core_repeats_writes(cloud: AwsCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    client, broken = attach(f"0:10:{name}", refresh_interval=0).client, refuse("InternalFailure", "oops", 500)
    sent = requests_of(cloud, "SetDesiredCapacity", broken, lambda: client.increase_size(name, 1, 2))
    assert sent == 1 + CallSettings().write_repeats


@pytest.mark.parametrize(
    "date", ["", "tomorrow", "Fri, 99 Nov 2026 25:61:00 GMT", "Fri, 27 Nov 999999999 00:00:00 GMT"]
)
def test_a_date_that_is_none_stops_no_call(cloud: AwsCloud, attach: Attach, date: str) -> None:
    stage = attach(f"0:10:{cloud.add_group(size=1)}", read=False)
    cloud.mishaps.plan("DescribeAutoScalingGroups", refuse("Throttling", "Rate exceeded", headers={"Date": date}))
    stage.client.refresh()
    assert stage.client.node_groups()


def test_words_of_aws_are_kept_short() -> None:
    error = refusal("SetDesiredCapacity", "ValidationError", "x" * 10_000)
    assert len(str(error)) == 500


def test_labels_that_do_not_tell_groups_apart(attach: Attach) -> None:
    client = attach("0:10:a").client
    assert "topology.k8s.aws/zone-id" in client.ignored_labels()
    assert client.same_group_labels() == ()


def _client(options: dict[str, Any]) -> Any:
    clock = FakeClock()
    context = ProviderContext(clock=clock, random=Random(0), options=options, node_group_specs=("0:1:a",))
    return connect("aws", AwsProvider(context), clock)
