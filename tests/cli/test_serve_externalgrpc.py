"""``nodewright serve-externalgrpc`` as a process, checked over its port by another nodewright, and what it refuses."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

Finished = subprocess.CompletedProcess[str]
Command = Callable[..., Finished]
Serve = Callable[..., tuple[subprocess.Popen[str], str]]

FAKE = {"fake": {"options": {"groups": [{"name": "a", "size": 2, "request_delay": "100h", "price_per_hour": 0.1}]}}}


def write(path: Path, providers: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump({"providers": providers}))
    return path


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """``serve()``: a process that serves a fake cloud, and its address."""
    started: list[subprocess.Popen[str]] = []

    def start(listen: str = "127.0.0.1:0", shown: str = "127.0.0.1") -> tuple[subprocess.Popen[str], str]:
        config = write(tmp_path / "served.yaml", FAKE)
        flags = ("--config", str(config), "--listen", listen, "--insecure")
        command = [sys.executable, "-m", "nodewright", "serve-externalgrpc", *flags]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
        started.append(process)
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith(f"Serving provider fake on {shown}:")
        assert said.endswith("in plaintext.\n")
        return process, said.split()[4]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_served_cloud_keeps_the_contract_for_two_clients(serve: Serve, command: Command, tmp_path: Path) -> None:
    process, address = serve()
    options = {"address": address, "insecure": True}
    file = write(tmp_path / "client.yaml", {"externalgrpc": {"options": options}})
    done = command(
        "provider", "check", "externalgrpc", "--settings", file, "--write", "--agree", "0", "--output", "json"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    checks = [check for promise in json.loads(done.stdout)["promises"] for check in promise["checks"]]
    passed = {check["check"] for check in checks if check["outcome"] == "passed"}
    assert {"increase_is_granted", "resize_from_outside_refuses_increase", "templates_parse"} <= passed
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_without_a_host_it_listens_everywhere(serve: Serve) -> None:
    _, address = serve(":0", shown="[::]")
    assert int(address.rpartition(":")[2]) > 0


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ((), "nodewright: --cert: needed for TLS; set insecure to use plaintext instead"),
        (("--insecure", "--cert", "x.pem"), "nodewright: --insecure: cannot be combined with cert"),
        (("--cert", "x.pem", "--key", "y", "--cacert", "z"), "nodewright: --cert: x.pem: No such file or directory"),
    ],
)
def test_wrong_certificates(command: Command, tmp_path: Path, flags: tuple[str, ...], sentence: str) -> None:
    config = write(tmp_path / "served.yaml", FAKE)
    done = command("serve-externalgrpc", "--config", config, "--listen", "127.0.0.1:0", *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr


@pytest.mark.parametrize("address", ["127.0.0.1:99999", "127.0.0.1", "127.0.0.1:http"])
def test_a_wrong_address(command: Command, tmp_path: Path, address: str) -> None:
    """gRPC takes a port modulo 65536, and listens on a port that no client expects."""
    config = write(tmp_path / "served.yaml", FAKE)
    done = command("serve-externalgrpc", "--config", config, "--listen", address, "--insecure")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"nodewright: --listen: '{address}' is not an address like 127.0.0.1:8085 or :8085\n"


def test_one_provider_is_served(command: Command) -> None:
    done = command("serve-externalgrpc", "--listen", "127.0.0.1:0", "--insecure")
    assert done.returncode == 2
    assert "--cloud-provider: serve-externalgrpc serves exactly one provider, but the settings have 0" in done.stderr
