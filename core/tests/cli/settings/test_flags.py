"""The settings on a command line."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from nodewright.cli.main import cli
from nodewright.cli.settings.flags import SettingsCommand, settings_options
from nodewright.cli.settings.known_flags import SECTIONS, SETTINGS
from nodewright.cli.settings.values import SettingKind, describe_default, list_settings, summarize
from nodewright.model.errors import ConfigError, InvariantError
from nodewright.model.settings import Settings
from nodewright.model.settings_base import Count, Section


def run(*args: str, env: dict[str, str] | None = None) -> tuple[Result, list[tuple[str | None, Settings]]]:
    seen: list[tuple[str | None, Settings]] = []

    @click.command(cls=SettingsCommand)
    @click.argument("dump", required=False)
    @settings_options
    def command(dump: str | None, settings: Settings) -> None:
        seen.append((dump, settings))

    return CliRunner().invoke(command, args, env=env or {}), seen


def settings_of(*args: str, env: dict[str, str] | None = None) -> Settings:
    result, [(_, settings)] = run(*args, env=env)
    assert result.exit_code == 0
    return settings


def test_no_flags_give_defaults() -> None:
    assert settings_of() == Settings()


@pytest.mark.parametrize(
    ("args", "value"),
    [
        (["--scale-up-from-zero"], True),
        (["--scale-up-from-zero=true"], True),
        (["--scale-up-from-zero=T"], True),
        (["--scale-up-from-zero=false"], False),
        (["--scale-up-from-zero=0"], False),
        (["--no-scale-up-from-zero"], False),
    ],
)
def test_booleans_take_every_form(args: list[str], value: bool) -> None:
    assert settings_of(*args).loop.scale_up_from_zero is value


def test_a_boolean_does_not_swallow_the_argument_after_it() -> None:
    result, [(dump, settings)] = run(
        "--force-ds", "dump.json", "--expander=price", "--nodes", "1:2:a", "--cloud-provider", "x"
    )
    assert result.exit_code == 0
    assert dump == "dump.json"
    assert settings.templates.force_ds
    assert settings.providers["x"].nodes == ("1:2:a",)


def test_after_two_dashes_nothing_is_a_flag() -> None:
    _, [(dump, _)] = run("--", "--force-ds=false")
    assert dump == "--force-ds=false"


def test_flags_repeat() -> None:
    settings = settings_of("--gpu-total", "t4:0:1", "--gpu-total=a100:0:2", "--scan-interval", "1m")
    assert settings.limits.gpu_total == ("t4:0:1", "a100:0:2")
    assert settings.loop.scan_interval == 60.0


def test_flag_before_variable_before_file(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("expander: random\nmax-nodes-total: 3\nforce-ds: true\n")
    env = {"NODEWRIGHT_EXPANDER": "price", "NODEWRIGHT_MAX_NODES_TOTAL": "4", "NODEWRIGHT_CONFIG": str(file)}
    settings = settings_of("--expander", "most-pods", env=env)
    assert settings.scale_up.expander == "most-pods"
    assert settings.limits.max_nodes_total == 4
    assert settings.templates.force_ds


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--force-ds=maybe"], "--force-ds: must be true or false, not 'maybe'"),
        (["--expander=nix"], "--expander: there is no expander 'nix'; there are least-cost, random"),
        (["--namespace="], "--namespace: '' is not a name of a namespace"),
        (["--namespace=a/../b"], "--namespace: 'a/../b' is not a name of a namespace"),
        (
            ["--leader-elect-resource-namespace=A"],
            "--leader-elect-resource-namespace: 'A' is not a name of a namespace",
        ),
        (["--leader-elect-resource-name=a b"], "--leader-elect-resource-name: 'a b' is not a name of a Lease"),
        (["--status-config-map-name=\u00fc"], "--status-config-map-name: '\u00fc' is not a name of a ConfigMap"),
        (["--user-agent=a\nb"], "--user-agent: 'a\\nb' is not a name for a client"),
        (["--config", "no-such-file.yaml"], "--config: no-such-file.yaml: No such file or directory"),
    ],
)
def test_what_is_wrong_is_one_sentence(args: list[str], sentence: str) -> None:
    result, seen = run(*args)
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception).startswith(sentence)
    assert seen == []


def test_an_unknown_flag_names_the_nearest() -> None:
    result, _ = run("--expandr=price")
    assert result.exit_code == 2
    assert "--expander" in result.output


def help_of_run(width: int = 80) -> str:
    return CliRunner(env={"COLUMNS": str(width)}).invoke(cli, ["run", "--help"], terminal_width=width).output


def test_help_of_run_shows_every_setting_in_its_section_with_its_default() -> None:
    text = _without_blanks(help_of_run())  # lines are also broken after dashes
    place = 0
    for key, field in SECTIONS.items():
        place = text.index(_without_blanks(f"{key}:{summarize(field.type)}."), place)
        for setting in SETTINGS.values():
            if setting.section == field.name:
                dashes = "--[no-]" if setting.kind is SettingKind.BOOLEAN else "--"
                place = text.index(f"{dashes}{setting.flag}", place)
                place = text.index(_without_blanks(f"Default: {describe_default(setting)}."), place)


def _without_blanks(text: str) -> str:
    return "".join(text.split())


def test_help_fits_a_terminal_of_80_columns() -> None:
    assert max(map(len, help_of_run().splitlines())) <= 80


def test_help_of_other_commands_says_where_settings_are_listed() -> None:
    result, _ = run("--help")
    assert "nodewright run --help" in result.output
    assert "--scan-interval" not in result.output
    assert "--config FILE" in result.output


def test_a_setting_without_a_description_is_refused() -> None:
    class Bare(Section, frozen=True, kw_only=True):
        speed: Count = 1

    with pytest.raises(InvariantError, match=r"^Bare\.speed has no description$"):
        list_settings("bare", Bare)
