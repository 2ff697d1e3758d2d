"""``nodewright config check``, and settings that change under a running process."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nodewright.cli.daemon.reload import watch_settings
from nodewright.cli.main import cli, run
from nodewright.cli.settings.flags import SettingsSource
from nodewright.model.settings import Settings

TEXT = """
scan-interval: 30s
scale-up: {expander: price}
max-node-provision-time: auto
leader: {leader-elect: false}
providers:
  fake:
    options: {api-token: abc}
    nodes: ["1:5:small"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "settings.yaml"
    found.write_text(TEXT)
    return found


def check(file: Path, *flags: str) -> Any:
    result = CliRunner().invoke(cli, ["config", "check", str(file), "--output", "json", *flags])
    assert result.exception is None, result.output
    return json.loads(result.stdout)


def test_effective_values_and_where_they_come_from(file: Path) -> None:
    found = check(file, "--expander=least-nodes", "--kube-client-qps=20")
    assert found["settings"]["loop"]["scan-interval"] == "30s"
    assert found["settings"]["scale-up"]["expander"] == "least-nodes"
    assert found["settings"]["failures"]["max-node-provision-time"] == "auto"
    assert found["settings"]["scale-down"]["scale-down-unneeded-time"] == "10m"
    assert found["given"]["expander"] == "--expander"
    assert found["given"]["scan-interval"] == f"{file}: scan-interval"
    assert found["given"]["leader-elect"] == f"{file}: leader.leader-elect"
    assert found["providers"]["fake"]["nodes"] == ["1:5:small"]
    assert "abc" not in json.dumps(found)
    assert len(found["without_effect"]) == 1
    assert "scan-interval" in found["reloads"]
    assert "kubeconfig" not in found["reloads"]


def test_secrets_are_not_shown_at_any_depth(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("providers: {fake: {options: {auth: [{client-secret: abc, region: here}], zone: a}}}\n")
    options = check(file)["providers"]["fake"]["options"]
    assert options == {"auth": [{"client-secret": "(not shown)", "region": "here"}], "zone": "a"}


def test_people_see_what_differs(file: Path) -> None:
    result = CliRunner().invoke(cli, ["config", "check", str(file)])
    assert "can be used" in result.stdout
    [line] = [line for line in result.stdout.splitlines() if line.strip().startswith("leader-elect")]
    assert "false" in line
    assert "at a restart" in line
    assert "scale-down-unneeded-time" not in result.stdout
    assert "abc" not in result.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("expandr: price\n", "there is no setting expandr; did you mean expander"),
        ("loop: {scan-interval: 5}\n", "loop.scan-interval: 5 lacks a unit"),
        ("cores-total: 5:1\n", "cores-total: "),
        ("leader-elect-lease-duration: 10s\n", "--leader-elect-lease-duration"),
        (
            "max-cache-age: 90s\n",
            "--max-cache-age: 1m30s is less than the API server's usual time between messages about a kind: give at least 2m",
        ),
        ("address: nowhere\n", "--address: 'nowhere' is not an address like 127.0.0.1:8085 or :8085"),
        ('debug-address: ":8086"\n', "--debug-address: :8086 can be reached from other machines"),
        ("debug-address: 0.0.0.0:8086\n", "--debug-address: 0.0.0.0:8086 can be reached from other machines"),
        ("debug-address: cluster.example:8086\n", "only a loopback address such as 127.0.0.1:8086 is taken"),
        (
            'secure-address: ":8443"\n',
            "--secure-address: :8443 needs a certificate: give --tls-cert-file and --tls-priv",
        ),
        ('secure-address: ":8443"\ntls-cert-file: tls.crt\n', "needs a certificate: give --tls-private-key-file"),
        ("secure-address: 8443\n", "secure-address"),
        ("tls-private-key-file: tls.key\n", "--tls-private-key-file: is given without --secure-address"),
    ],
)
def test_a_bad_file_ends_with_2_and_names_the_key(
    file: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(text)
    assert run(["config", "check", str(file)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "text", "said"),
    [
        ("prices", "prices: [{type: m5.large, per_hour: -1}]", "the price of type m5.large is -1, not a finite number"),
        ("disruption-config", "disruptions: []", "unknown key disruptions"),
    ],
)
def test_files_that_the_settings_name_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str, text: str, said: str
) -> None:
    named, file = tmp_path / "named.yaml", tmp_path / "settings.yaml"
    named.write_text(text + "\n")
    file.write_text(f"{flag}: {named}\n")
    assert run(["config", "check", str(file)]) == 2
    assert f"{named}: {said}" in capsys.readouterr().err
    named.unlink()
    assert run(["config", "check", str(file)]) == 2
    assert f"--{flag}: {named} cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(("row", "told"), [("group: fake/small", True), ("type: m5.large", False)])
def test_what_only_a_provider_could_tell_is_named(file: Path, tmp_path: Path, row: str, told: bool) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text(f"prices: [{{{row}, per_hour: 0.5}}]")
    note = f"{prices}: not checked whether the node groups with a price exist; nodewright doctor asks the providers"
    assert check(file, f"--prices={prices}")["not_checked"] == [note] * told
    shown = CliRunner().invoke(cli, ["config", "check", str(file), f"--prices={prices}"]).stdout
    assert (note in shown) == told


def test_a_running_process_takes_over_what_is_safe(file: Path) -> None:
    source = SettingsSource({"expander": "random"}, str(file))
    reloader = watch_settings(source, source.load().settings)
    assert reloader.look() is None
    file.write_text(TEXT.replace("30s", "40s").replace("price", "most-pods").replace("false", "true"))
    change = reloader.look()
    assert change is not None
    assert change.applied == ("scan-interval",)  # the expander is a flag's, which is stronger
    assert change.waiting == ("leader-elect",)
    assert change.settings.loop.scan_interval == 40.0
    assert not change.settings.leader.leader_elect
    assert reloader.look() is None


@pytest.mark.parametrize(
    "flag",
    [
        "enable-provisioning-requests",
        "enable-provisioning-classes",
        "capacity-quotas-enabled",
        "capacity-buffer-controller-enabled",
        "capacity-buffer-pod-injection-enabled",
    ],
)
def test_kinds_are_followed_from_the_start_or_not_at_all(file: Path, flag: str) -> None:
    """Otherwise a quota that is not read would seem to be in force."""
    source = SettingsSource({}, str(file))
    reloader = watch_settings(source, source.load().settings)
    file.write_text(f"{TEXT}\n{flag}: true\n")
    change = reloader.look()
    assert change is not None
    assert (change.applied, change.waiting) == ((), (flag,))


def test_the_format_of_the_log_is_chosen_at_the_start(file: Path) -> None:
    source = SettingsSource({}, str(file))
    reloader = watch_settings(source, source.load().settings)
    file.write_text(f"{TEXT}\nlogging-format: text\n")
    change = reloader.look()
    assert change is not None
    assert (change.applied, change.waiting) == ((), ("logging-format",))


def test_a_file_that_cannot_be_used_changes_nothing(file: Path) -> None:
    source = SettingsSource({}, str(file))
    reloader = watch_settings(source, source.load().settings)
    for text, said in (("scan-interval: [", "settings.yaml"), ("scan-intervall: 1s", "scan-intervall")):
        file.write_text(text)
        change = reloader.look()
        assert change is not None
        assert said in change.problem
        assert change.settings.loop.scan_interval == 30.0
    file.unlink()
    change = reloader.look()
    assert change is not None
    assert "No such file" in change.problem
    assert reloader.look() is None
    file.write_text("scan-interval: 50s\nproviders: {fake: {}}\n")
    change = reloader.look()
    assert change is not None
    assert change.settings.loop.scan_interval == 50.0
    assert "providers" in change.waiting


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no providers"),
        (TEXT.replace("false", "true, leader-elect-lease-duration: 1s"), "--leader-elect-lease-duration"),
        (f"{TEXT}\ndebug-address: 0.0.0.0:8086\n", "--debug-address"),
    ],
)
def test_what_could_not_be_started_with_changes_nothing(file: Path, text: str, said: str) -> None:
    """An editor empties a file before it writes it: no limit is lifted meanwhile."""
    file.write_text(f"{TEXT}\nmax-nodes-total: 7\n")
    source = SettingsSource({}, str(file))
    reloader = watch_settings(source, source.load().settings)
    file.write_text(text)
    change = reloader.look()
    assert change is not None
    assert said in change.problem
    assert change.settings.limits.max_nodes_total == 7


def test_without_a_file_there_is_nothing_to_look_at() -> None:
    assert watch_settings(SettingsSource({}, None), Settings()).look() is None
