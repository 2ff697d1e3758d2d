"""``nodewright provider check``: certificates, exit codes, and what it refuses."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Finished = subprocess.CompletedProcess[str]
Command = Callable[..., Finished]
AddPlugin = Callable[..., None]

# A plugin of a cloud outside of its instances: each has its own eyes, and they share one cloud.
REAL = """
from random import Random
from nodewright import spec
from nodewright.testkit import FakeClock
from nodewright_fake import FakeProvider

CLOCK = FakeClock()
OPTIONS = {{"groups": [{{"name": "a", "size": 2, "request_delay": "100h", "price_per_hour": 1}}], "switched_off": ["simulation"]}}
CONTEXT = spec.ProviderContext(clock=CLOCK, random=Random(1), options=OPTIONS)
CLOUD = FakeProvider(CONTEXT).cloud

class Provider(FakeProvider):
    def __init__(self, context):
        super().__init__(CONTEXT, CLOUD)

    @spec.hookimpl
    def provider_info(self):
        found = super().provider_info()
        return spec.ProviderInfo(name="odd", capabilities=found.capabilities)
{more}
"""
FORGETFUL = """
    @spec.hookimpl
    def increase_size(self, group_id, expected_target, target):
        now = self.cloud.view(group_id).target
        return super().increase_size(group_id, now, now + target - expected_target)
"""

TERMINATED = """
    @spec.hookimpl
    def increase_size(self, group_id, expected_target, target):
        import os, signal
        accepted = super().increase_size(group_id, expected_target, target)
        os.kill(os.getpid(), signal.SIGTERM)
        return accepted
"""
TERMINATED_TWICE = (
    TERMINATED
    + """
    @spec.hookimpl
    def decrease_target_size(self, group_id, expected_target, target):
        import os, signal
        os.kill(os.getpid(), signal.SIGTERM)
        return super().decrease_target_size(group_id, expected_target, target)
"""
)


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., Path]:
    """A file of settings with that entry under ``providers``."""

    def write(**providers: Any) -> Path:
        path = tmp_path / "settings.yaml"
        path.write_text(yaml.safe_dump({"providers": providers}))
        return path

    return write


def fake(*names: str) -> dict[str, Any]:
    groups = [{"name": name, "size": 2, "request_delay": "100h", "price_per_hour": 0.1} for name in names]
    return {"options": {"groups": groups}}


def test_a_certificate_without_a_write(command: Command, settings: Callable[..., Path]) -> None:
    done = command("provider", "check", "fake", "--settings", settings(fake=fake("a", "b")))
    assert done.returncode == 0, done.stderr
    [promised] = re.findall(r"Nothing is written; --write adds (\d+) checks that write", done.stderr)
    assert f"skipped {promised} checks: it writes, and --write was not given" in done.stdout
    assert "An atomic resize grants everything or nothing." in done.stdout
    assert "Nothing is broken." in done.stdout
    assert "The certificate reaches no level" in done.stdout


def test_a_cloud_in_memory_is_checked_with_writes(command: Command, settings: Callable[..., Path]) -> None:
    file = settings(fake=fake("a"))
    done = command("provider", "check", "fake", "--settings", file, "--write", "--agree", "0", "--output", "json")
    assert done.returncode == 0, done.stdout
    made = json.loads(done.stdout)
    assert (made["provider"], made["group_id"], made["write"], made["verdict"]) == ("fake", "a", True, "partly checked")
    verdicts = {promise["promise"]: promise["verdict"] for promise in made["promises"]}
    assert (verdicts["atomic"], verdicts["deletion"], verdicts["restart"]) == ("kept", "partly checked", "skipped")
    assert made["level"] is None
    reasons = {c["reason"] for p in made["promises"] for c in p["checks"] if c["outcome"] == "skipped"}
    assert "a cannot be resized from outside: the cloud is in the provider's memory" in reasons


def test_a_live_cloud_is_told_before_what_will_be_done(
    command: Command, settings: Callable[..., Path], add_plugin: AddPlugin
) -> None:
    add_plugin("odd", REAL.format(more=""))
    done = command("provider", "check", "odd", "--settings", settings(odd={}), "--write", "--agree", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ask for at most two more machines each, and take them back" in done.stderr
    assert "No machine that is there now is ended." in done.stderr


def test_what_cannot_happen_in_a_cloud_is_told_apart(
    command: Command, settings: Callable[..., Path], add_plugin: AddPlugin
) -> None:
    add_plugin("odd", REAL.format(more="").replace("100h", "0s"))
    done = command("provider", "check", "odd", "--settings", settings(odd={}), "--write", "--agree", "0")
    [number] = re.findall(
        r"impossible here, (\d+) checks: in this cloud machines exist as soon as they are requested", done.stdout
    )
    assert int(number) > 1
    assert "skipped" in done.stdout


def test_a_broken_promise_is_named(command: Command, settings: Callable[..., Path], add_plugin: AddPlugin) -> None:
    add_plugin("odd", REAL.format(more=FORGETFUL))
    file = settings(odd={})
    done = command("provider", "check", "odd", "--settings", file, "--write", "--agree", "0")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "broken: repeated_increase_changes_nothing: The same increase sent twice" in done.stdout
    made = json.loads(
        command("provider", "check", "odd", "--settings", file, "--write", "--agree", "0", "-o", "json").stdout
    )
    verdicts = {promise["promise"]: promise["verdict"] for promise in made["promises"]}
    assert (verdicts["once"], verdicts["prices"], verdicts["simulation"]) == ("broken", "partly checked", "skipped")


@pytest.mark.parametrize(("more", "is_left"), [(TERMINATED, False), (TERMINATED_TWICE, True)])
def test_a_command_that_is_terminated_takes_back_what_it_made_or_says_what_is_left(
    command: Command, settings: Callable[..., Path], add_plugin: AddPlugin, more: str, is_left: bool
) -> None:
    add_plugin("odd", REAL.format(more=more))
    done = command("provider", "check", "odd", "--settings", settings(odd={}), "--write", "--agree", "0")
    assert done.returncode == 130, done.stdout + done.stderr
    told = "it is not known what is left in a, check by hand: the command was interrupted"
    assert (told in done.stderr) == is_left


UNTRUE = """
    @spec.hookimpl
    def refresh(self, wanted):
        super().refresh(wanted)
"""
GROUPLESS = """
    @spec.hookimpl
    def node_groups(self):
        return None
"""


@pytest.mark.parametrize(
    ("more", "group", "said"),
    [
        (UNTRUE, "a", "hook refresh answered None, not True"),
        (GROUPLESS, "unknown", "hook node_groups answered None, not a sequence of NodeGroup"),
    ],
)
def test_a_plugin_that_breaks_the_contract_at_once_gets_its_certificate(
    command: Command, settings: Callable[..., Path], add_plugin: AddPlugin, more: str, group: str, said: str
) -> None:
    add_plugin("odd", REAL.format(more=more))
    done = command("provider", "check", "odd", "--settings", settings(odd={}), "-o", "json")
    assert done.returncode == 4, done.stderr
    made = json.loads(done.stdout)
    assert (made["group_id"], made["verdict"]) == (group, "broken")
    assert any(said in one["reason"] for promise in made["promises"] for one in promise["checks"])


def test_what_a_library_writes_to_the_descriptor_of_stdout_does_not_break_json(
    command: Command, settings: Callable[..., Path], add_plugin: AddPlugin
) -> None:
    more = "    @spec.hookimpl\n    def refresh(self, wanted):\n        import os\n"
    more += "        os.write(1, b'a banner {')\n        return super().refresh(wanted)\n"
    add_plugin("odd", REAL.format(more=more))
    done = command("provider", "check", "odd", "--settings", settings(odd={}), "-o", "json")
    made = json.loads(done.stdout)
    assert (made["provider"], made["left_behind"], made["target_off"], made["unknown"]) == ("odd", [], 0, "")
    assert "a banner {" in done.stderr


def test_what_it_refuses(command: Command, settings: Callable[..., Path]) -> None:
    file = settings(fake=fake("a", "b"))
    refused = {
        ("fak", "--settings", file): "no installed package offers a provider fak; did you mean fake?",
        ("aws", "--settings", file): f"{file}: providers has no entry aws; it has fake",
        ("fake", "--settings", "nowhere.yaml"): "--settings: nowhere.yaml: No such file or directory",
        ("fake",): "Missing option '--settings'",
        ("fake", "--settings", file, "--write"): "--write: say with --group which of a, b may be resized",
        ("fake", "--settings", file, "--group", "c"): "--group: provider fake has no group c; there are a, b",
    }
    for args, sentence in refused.items():
        done = command("provider", "check", *args)
        assert (done.returncode, done.stdout) == (2, ""), args
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("providers", "sentence"),
    [
        ({"fake": {"option": {}}}, "providers.fake: there is no setting option; did you mean options?"),
        ({"fake": {"options": {"grups": []}}}, "unknown key grups, did you mean groups?"),
        ({"fake": {}}, "providers.fake finds no node group to check"),
    ],
)
def test_wrong_keys(command: Command, settings: Callable[..., Path], providers: dict[str, Any], sentence: str) -> None:
    done = command("provider", "check", "fake", "--settings", settings(**providers))
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr


# A cloud that is away, at once and for good.
AWAY = """
from nodewright import spec
from nodewright_fake import FakeProvider

class Provider(FakeProvider):
    @spec.hookimpl
    def provider_info(self):
        found = super().provider_info()
        return spec.ProviderInfo(name="odd", capabilities=found.capabilities)

    @spec.hookimpl
    def refresh(self, wanted):
        raise spec.AccessDenied("the key is wrong")
"""


def test_a_cloud_that_cannot_be_read_is_named(
    command: Command, settings: Callable[..., Path], add_plugin: AddPlugin
) -> None:
    add_plugin("odd", AWAY)
    done = command("provider", "check", "odd", "--settings", settings(odd=fake("a")))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "nodewright: provider odd: the key is wrong\n"
