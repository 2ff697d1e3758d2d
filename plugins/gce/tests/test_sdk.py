"""The SDK's edges: credentials, places, secrets, and what is imported when."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gcecloud import GceCloud
from gcecloud.cloud import PROJECT, SECRET, ZONE
from gcecloud.server import refuse
from mishaps import Mishap
from nodewright.spec import AccessDenied, ConfigError, ProviderContext, ProviderError, ProviderUnavailable
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import CallSettings
from nodewright_gce.errors import refusal
from nodewright_gce.options import load_options
from nodewright_gce.provider import GceProvider
from repeats import requests_of
from secrecy import shown

Attach = Callable[..., Any]
_KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_LIST, _CREATE = "instanceGroupManagers.list", "instanceGroupManagers.createInstances"


def test_choosing_the_plugin_imports_no_sdk() -> None:
    program = (
        "import sys\n"
        "from nodewright.spec import ProviderContext\n"
        "from nodewright.testkit import FakeClock\n"
        "from nodewright_gce.provider import GceProvider\n"
        "url = 'https://x/projects/p/zones/a-b/instanceGroups/g'\n"
        "GceProvider(ProviderContext(clock=FakeClock(), node_group_specs=(f'0:1:{url}',))).provider_info()\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'google', 'requests', 'grpc', 'urllib3'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_token_that_expires_is_renewed_without_a_word(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}", refresh_interval=0)
    cloud.expire_tokens()
    stage.later(5)
    assert cloud.calls["token"] == 2
    assert stage.client.target_size(name) == 1


def test_credentials_that_are_refused_are_one_clear_error_and_need_no_restart(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}", refresh_interval=0)
    cloud.expire_tokens(for_good=True)
    with pytest.raises(AccessDenied, match=r"instanceGroupManagers\.list: .*invalid_grant.*has expired"):
        stage.client.refresh()
    cloud.renew_tokens()
    stage.later(5)
    assert stage.client.target_size(name) == 1


def test_broken_files_of_credentials_are_named(cloud: GceCloud, attach: Attach, tmp_path: Path) -> None:
    name, good = cloud.add_group(), os.environ[_KEY_FILE]
    contents = {"broken.json": "{", "martian.json": json.dumps({"type": "martian"}), "absent.json": None}
    for file, content in contents.items():
        if content is not None:
            (tmp_path / file).write_text(content)
        os.environ[_KEY_FILE] = str(tmp_path / file)
        with pytest.raises(
            AccessDenied, match=f"no credentials: .*{file}.*; the README of nodewright-gce lists where "
        ):
            attach(f"0:10:{name}")
    os.environ[_KEY_FILE] = good


def test_no_credentials_at_all(cloud: GceCloud) -> None:
    group_id = cloud.add_group()
    program = (
        "from nodewright.spec import ProviderContext\n"
        "from nodewright.testkit import FakeClock\n"
        "from nodewright.testkit.contract import connect\n"
        "from nodewright_gce.provider import GceProvider\n"
        "clock = FakeClock()\n"
        f"options = {{'project': 'proj', 'endpoints': {{'compute': '{cloud.url}'}}}}\n"
        f"context = ProviderContext(clock=clock, options=options, node_group_specs=('0:1:{group_id}',))\n"
        "try:\n"
        "    connect('gce', GceProvider(context), clock).refresh()\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    clean = {name: value for name, value in os.environ.items() if name != _KEY_FILE}
    environment = {**clean, "NO_GCE_CHECK": "true", "HOME": "/nonexistent", "CLOUDSDK_CONFIG": "/nonexistent"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.startswith("AccessDenied no credentials: Your default credentials were not found.")


def test_a_call_that_is_never_answered_ends_at_its_time_limit(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    stage = attach(f"0:10:{name}", refresh_interval=0, call_timeout=0.2)
    for _ in range(4):
        cloud.stall_once(_LIST)
    with pytest.raises(ProviderUnavailable, match=r"instanceGroupManagers\.list: \w*Timeout"):
        stage.client.refresh()


def test_project_and_zone_are_the_machines_own(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group("pool-a", size=1)
    stage = attach(discover=("mig:namePrefix=pool,max=3",), project="", zones=[], read=False)
    os.environ["GCE_METADATA_HOST"] = cloud.server.address
    stage.later(0)
    del os.environ["GCE_METADATA_HOST"]
    assert [group.id for group in stage.client.node_groups()] == [name]
    stage = attach(discover=("mig:namePrefix=pool,max=3",), zones=[], read=False)
    os.environ["GCE_METADATA_HOST"] = "127.0.0.1:9"
    with pytest.raises(ProviderError, match=r"no zones: set providers\.gce\.options\.zones"):
        stage.client.refresh()
    del os.environ["GCE_METADATA_HOST"]


def test_no_secret_shows(cloud: GceCloud, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the token nor what the template tells new machines."""
    caplog.set_level(logging.DEBUG)
    name = cloud.add_group(size=1)
    options = {"project": PROJECT, "zones": [ZONE], "endpoints": cloud.endpoints, "refresh_interval": 0}
    clock = FakeClock()
    provider = GceProvider(ProviderContext(clock=clock, options=options, node_group_specs=(f"0:1:{name}",)))
    provider.refresh(frozenset())
    cloud.refuse_once(_LIST, 403, "forbidden")
    with pytest.raises(AccessDenied) as refused:
        provider.refresh(frozenset())
    said = shown(provider, refused.value) + caplog.text
    assert name in said
    assert "token-1" not in said
    assert SECRET not in said


@pytest.mark.parametrize(
    "mishap", [refuse(429, "rateLimitExceeded", "slowly"), refuse(503, "backendError", "try later"), Mishap.LOST]
)
def test_only_the_core_repeats_calls(cloud: GceCloud, attach: Attach, mishap: Any) -> None:
    """The SDK sends each once: its own repetitions would multiply with the core's."""
    client = attach(f"0:10:{cloud.add_group(size=1)}", refresh_interval=0).client
    assert requests_of(cloud, _LIST, mishap, client.refresh) == CallSettings().read_attempts


def test_only_the_core_repeats_writes(cloud: GceCloud, attach: Attach) -> None:
    name = cloud.add_group(size=1)
    client, broken = attach(f"0:10:{name}", refresh_interval=0).client, refuse(503, "backendError", "try later")
    sent = requests_of(cloud, _CREATE, broken, lambda: client.increase_size(name, 1, 2))
    assert sent == 1 + CallSettings().write_repeats


def test_words_of_google_are_kept_short() -> None:
    assert len(str(refusal("instances.list", 400, "invalid", "x" * 10_000))) == 500


def test_labels_that_do_not_tell_groups_apart(cloud: GceCloud, attach: Attach) -> None:
    client = attach(f"0:10:{cloud.add_group()}").client
    assert client.ignored_labels() == ("topology.gke.io/zone",)
    assert client.same_group_labels() == ()


@pytest.mark.parametrize("url", ["http://compute.example.com", "http://127.0.0.1.example.com/", "ftp://localhost"])
@pytest.mark.parametrize("service", ["compute", "resource_manager"])
def test_tokens_do_not_travel_over_plain_http(service: str, url: str) -> None:
    context = ProviderContext(clock=FakeClock(), options={"endpoints": {service: url}})
    with pytest.raises(ConfigError, match=rf"endpoints\.{service}: must be an https:// URL"):
        load_options(context)


@pytest.mark.parametrize("url", ["https://compute.example.com", "compute.example.com", "http://localhost:8080"])
def test_private_endpoints_over_tls_are_taken(url: str) -> None:
    context = ProviderContext(clock=FakeClock(), options={"endpoints": {"compute": url}})
    assert load_options(context).endpoints == {"compute": url}
