"""Every flag of cluster-autoscaler is accepted with its meaning and default, or refused with a reason."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodewright.cli.main import cli
from nodewright.cli.settings.known_flags import CA_FLAGS, KNOWN, SETTINGS
from nodewright.cli.settings.load import load
from nodewright.cli.settings.values import SettingKind, read_text
from nodewright.model.errors import ConfigError
from nodewright.model.settings import Settings

# How a default stands in CA's list where it stands for an empty one.
_EMPTY = ('""', "none", "empty")
# Defaults that differ on purpose; their descriptions say why.
_OURS = {
    "address": "",
    "user-agent": "nodewright",
    "cloud-provider": "",
    "expander": "",
}


def read_list() -> dict[str, tuple[str, str]]:
    lines = (Path(__file__).parent / "ca_flags.txt").read_text().splitlines()
    rows = ([cell.strip() for cell in line.split(" | ")] for line in lines if not line.startswith("#"))
    return {flag: (kind, "" if default in _EMPTY else default.removesuffix(" (off)")) for flag, kind, default in rows}


LIST = read_list()


def test_the_list_is_whole() -> None:
    assert len(LIST) == 137 + 11
    assert set(LIST) <= set(KNOWN)


def test_a_flag_is_either_a_setting_or_explained() -> None:
    assert not set(CA_FLAGS) & set(SETTINGS)


@pytest.mark.parametrize("flag", sorted(LIST))
def test_defaults_are_those_of_ca(flag: str) -> None:
    setting, default = KNOWN[flag], _OURS.get(flag, LIST[flag][1])
    if setting.kind is SettingKind.LIST:
        assert (default, setting.default) == ("", ())
    else:
        assert read_text(default, setting) == setting.default


@pytest.mark.parametrize("flag", sorted(set(LIST) - {"cloud-provider"}))
def test_the_default_may_be_given(flag: str) -> None:
    """As manifests do that spell everything out."""
    if KNOWN[flag].kind is not SettingKind.LIST:
        loaded = load({flag: _OURS.get(flag, LIST[flag][1])}, {})
        assert loaded.settings == Settings()
        assert loaded.idle == ()


@pytest.mark.parametrize("flag", sorted(CA_FLAGS))
def test_another_value_is_refused_or_told_to_have_no_effect(flag: str) -> None:
    kind, default = KNOWN[flag].kind, CA_FLAGS[flag].default
    samples = {
        SettingKind.BOOLEAN: str(not default).lower(),
        SettingKind.INTEGER: "7",
        SettingKind.NUMBER: "0.7",
        SettingKind.DURATION: "7s",
    }
    value = samples.get(kind, "other")
    if not CA_FLAGS[flag].refuses:
        loaded = load({flag: value}, {})
        assert loaded.settings == Settings()
        assert loaded.idle == (f"--{flag}: {CA_FLAGS[flag].why}",)
        return
    with pytest.raises(ConfigError) as caught:
        load({flag: value}, {})
    assert str(caught.value).startswith(f"--{flag}: ")
    assert "\n" not in str(caught.value)


def test_a_file_and_the_environment_are_held_to_the_same() -> None:
    with pytest.raises(ConfigError, match=r"^conf\.yaml: grpc-expander-url: there is no grpc expander"):
        load({}, {}, "grpc-expander-url: host:7000\n", "conf.yaml")
    assert load({}, {"NODEWRIGHT_KUBE_CLIENT_QPS": "50"}).idle[0].startswith("NODEWRIGHT_KUBE_CLIENT_QPS: has no")


def test_a_command_line_from_a_ca_manifest(tmp_path: Path) -> None:
    """As its charts write it; the flags that mean nothing here stay out of the help."""
    file = tmp_path / "settings.yaml"
    file.write_text("providers: {fake: {options: {groups: []}}}\n")
    flags = ["--v=4", "--stderrthreshold=info", "--logtostderr=true", "--scan_interval=20s", "--kube-client-qps=50"]
    result = CliRunner().invoke(cli, ["config", "check", str(file), *flags, "--skip-nodes-with-system-pods=false"])
    assert result.exception is None, result.output
    assert "scan-interval" in result.output
    assert "--kube-client-qps: has no effect" in result.output
    for forms in (["-v=4"], ["-v", "4"], ["--v", "4"]):
        shown = CliRunner().invoke(cli, ["config", "check", str(file), *forms]).output
        assert re.search(r"^ *v +4 ", shown, re.MULTILINE), shown
        assert "has no effect" not in shown
    assert "--stderrthreshold" not in CliRunner().invoke(cli, ["config", "check", "--help"]).output
