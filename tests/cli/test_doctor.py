"""``nodewright doctor`` with the fake provider: findings, exit codes, and what it refuses."""

import json
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodewright.adapters.store import FileStore
from nodewright.clusterstate.memory import Correction, LearnedTemplate, Memory, ShownNode
from nodewright.model.group import GroupRef

Finished = subprocess.CompletedProcess[str]
Command = Callable[..., Finished]
_RESIZE = {"do": "resize", "group": "a", "size": 3, "start": "10m"}


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    """A configuration of one fake cloud."""

    def write(group: dict[str, Any] | None = None, **options: Any) -> Path:
        path = tmp_path / "config.yaml"
        whole = {"groups": [{"name": "a", **(group or {})}], **options}
        path.write_text(yaml.safe_dump({"providers": {"fake": {"options": whole}}}))
        return path

    return write


def test_all_is_well(command: Command, config: Callable[..., Path]) -> None:
    done = command("doctor", "--config", config())
    assert done.returncode == 0, done.stderr
    assert "no other writer is configured" in done.stdout
    assert "Doctor made 1 call to the cloud's API." in done.stdout


def test_other_writers_and_lost_capabilities_are_warnings(command: Command, config: Callable[..., Path]) -> None:
    off = {"switched_off": {"pricing": "no permission for the price list"}}
    done = command("doctor", "--config", config(off, interference=[_RESIZE]), "--output", "json")
    assert done.returncode == 3
    [provider] = json.loads(done.stdout)["providers"]
    found = {finding["subject"]: finding for finding in provider["findings"]}
    assert found["pricing"]["message"] == "no permission for the price list"
    assert (found["other writers"]["level"], found["other writers"]["group_id"]) == ("warning", "a")
    assert provider["policy"]


PRICES = """
prices: [{type: old, per_hour: 1, as_of: 2020-01-01}]
"""


def test_a_missing_or_old_price_is_told_and_a_warning_where_prices_decide(
    command: Command, config: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "prices.yaml").write_text(PRICES)
    groups = [{"name": "a", "instance_type": "old"}, {"name": "b", "instance_type": "new", "price_per_hour": 1}]
    off = {"switched_off": {"pricing": "none here"}}
    path = config(groups=[*groups, {"name": "c", **off}, {"name": "d", **off}])

    def findings(*flags: str) -> dict[str, tuple[str, str]]:
        done = command("doctor", "--config", path, "--output", "json", "--prices", tmp_path / "prices.yaml", *flags)
        found = json.loads(done.stdout)["providers"][0]["findings"]
        return {one["message"]: (one["level"], one["group_id"]) for one in found if one["subject"] == "price"}

    told = findings("--expander=least-waste")
    [old] = [message for message in told if message.endswith("prices.yaml")]
    assert old.endswith(f"days (of 2020-01-01) old: {tmp_path}/prices.yaml")
    assert told == {
        old: ("ok", "a"),
        "2 groups: no price is known: it is planned without one, unless --assume-prices is set": ("ok", ""),
    }
    assert {level for level, _ in findings("--expander=price").values()} == {"warning"}
    # By default prices decide once no group lacks one; with the profile ca they never do.
    assert {level for level, _ in findings().values()} == {"warning"}
    assert {level for level, _ in findings("--profile=ca").values()} == {"ok"}
    [assumed] = [message for message in findings("--assume-prices") if "assumed" in message]
    assert assumed.startswith("2 groups: no price is known: it is assumed from ")


def test_a_price_for_a_group_that_does_not_exist_is_a_warning(
    command: Command, config: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "prices.yaml").write_text("prices: [{group: fake/a, per_hour: 1}, {group: b, per_hour: 1}]")
    done = command("doctor", "--config", config(), "--output", "json", "--prices", tmp_path / "prices.yaml")
    found = json.loads(done.stdout)["providers"][0]["findings"]
    said = f"{tmp_path}/prices.yaml: there is a price for group b, and no group of that name"
    assert [(one["level"], one["subject"]) for one in found if one["message"] == said] == [("warning", "price")]


def test_a_bad_file_of_prices_is_refused(command: Command, config: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text("prices: [{type: m, per_hour: .inf}]")
    done = command("doctor", "--config", config(), "--prices", tmp_path / "prices.yaml")
    assert done.returncode == 2
    assert f"{tmp_path}/prices.yaml: the price of type m is inf, not a finite number of at least 0" in done.stderr


def test_a_provider_without_node_groups_is_a_warning(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"providers": {"fake": {"options": {"groups": []}}}}))
    done = command("doctor", "--config", path, "--output", "json")
    assert done.returncode == 3, done.stderr
    [finding] = [one for one in json.loads(done.stdout)["providers"][0]["findings"] if one["level"] == "warning"]
    assert (finding["subject"], finding["message"][:13]) == ("node groups", "there is none")


def test_a_cloud_that_refuses_is_a_problem(command: Command, config: Callable[..., Path]) -> None:
    refuse = {"kind": "refuse", "hook": "refresh", "error": "access_denied", "message": "who are you?"}
    done = command("doctor", "--config", config(faults=[refuse]))
    assert done.returncode == 4, done.stdout + done.stderr
    assert "accessDenied: who are you?" in done.stdout


def test_a_flag_for_what_no_provider_does_is_a_warning(command: Command, config: Callable[..., Path]) -> None:
    flags = ("--node-autoprovisioning-enabled", "--output", "json")
    done = command("doctor", "--config", config(switched_off=["autoprovisioning"]), *flags)
    assert done.returncode == 3, done.stderr
    [finding] = [one for one in json.loads(done.stdout)["providers"][0]["findings"] if one["level"] == "warning"]
    assert finding["subject"] == flags[0]
    assert "no provider can create node groups" in finding["message"]
    assert command("doctor", "--config", config(), *flags).returncode == 0, "this one does"


def test_a_limit_for_a_gpu_type_that_no_provider_lists_is_a_warning(
    command: Command, config: Callable[..., Path]
) -> None:
    unknown = command("doctor", "--config", config(), "--gpu-total=nvidia-a100:0:8", "--output", "json")
    assert unknown.returncode == 3, unknown.stderr
    [finding] = [one for one in json.loads(unknown.stdout)["providers"][0]["findings"] if one["level"] == "warning"]
    assert finding["subject"] == "--gpu-total"
    assert finding["message"].startswith("no provider lists the GPU type nvidia-a100")
    assert finding["remedy"] == "check the spelling; known: fake-gpu"
    assert command("doctor", "--config", config(), "--gpu-total=fake-gpu:0:8").returncode == 0


def test_a_provider_without_a_diagnosis_says_so(command: Command, config: Callable[..., Path]) -> None:
    done = command("doctor", "--config", config(switched_off=["diagnosis"]))
    assert done.returncode == 0, done.stderr
    assert "The plugin of fake does not examine itself." in done.stdout


def test_the_policy_alone(command: Command, config: Callable[..., Path]) -> None:
    done = command("doctor", "--config", config(), "--policy")
    assert (done.returncode, done.stdout) == (0, "no permissions needed: this cloud exists in memory only\n")


def test_without_a_provider_there_is_nothing_to_examine(command: Command) -> None:
    done = command("doctor")
    assert done.returncode == 2
    assert "--cloud-provider: doctor needs a provider to examine" in done.stderr


class Refusing(BaseHTTPRequestHandler):
    """An API server that refuses all, a long time ago."""

    def do_GET(self) -> None:
        """Refuse."""
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def date_time_string(self, timestamp: float | None = None) -> str:
        assert timestamp is None
        return "Mon, 02 Feb 2026 12:00:00 GMT"

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_a_machine_whose_clock_is_not_the_api_servers_is_a_warning(
    command: Command, config: Callable[..., Path], tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        config_file = {
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": address}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "users": [{"name": "me", "user": {"token": "secret"}}],
        }
        kubeconfig.write_text(yaml.safe_dump(config_file))
        found = command("doctor", "--config", config(), f"--kubeconfig={kubeconfig}", "--output", "json")
        server.shutdown()
    assert found.returncode == 3, found.stderr
    [finding] = [one for one in json.loads(found.stdout)["providers"][0]["findings"] if one["level"] == "warning"]
    assert finding["subject"] == "the clock"
    assert "ahead of the API server's" in finding["message"]
    gone = command("doctor", "--config", config(), f"--kubeconfig={kubeconfig}")
    assert gone.returncode == 0, "doctor examines clouds, and an API server that it does not reach says no time"


def test_templates_are_compared_with_real_nodes_from_the_saved_state(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "state"
    shown = (ShownNode("n-1", 1.0, {"memory": Correction("16Gi", "14Gi")}),)
    right, wrong = GroupRef("fake", "right"), GroupRef("fake", "wrong")
    learned = {right: LearnedTemplate(), wrong: LearnedTemplate(nodes=shown, startup_taints=("agent",))}
    FileStore(path).save_if_changed(Memory(learned=learned))
    done = command("doctor", "--templates", "--state", path)
    assert done.returncode == 3, done.stderr
    assert "memory: the provider says 16Gi, real nodes have 14Gi (-12%)" in done.stdout
    assert "agent" in done.stdout
    assert "fake/right" not in done.stdout
    done = command("doctor", "--templates", "--state", path, "--output", "json")
    first, second = json.loads(done.stdout)["groups"]
    assert first["differences"] == []
    assert second["differences"] == [{"subject": "memory", "said": "16Gi", "found": "14Gi (-12%)"}]
    FileStore(path).save_if_changed(Memory(learned={right: LearnedTemplate()}))
    assert command("doctor", "--templates", "--state", path).returncode == 0
    missing = command("doctor", "--templates", "--state", tmp_path / "none")
    assert (missing.returncode, "there is no saved state" in missing.stderr) == (2, True)
    assert command("doctor", "--state", path).returncode == 2
