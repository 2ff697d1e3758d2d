"""How a command ends: exit codes, and one sentence for every error."""

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import click
import pytest

from nodewright.cli.commands.explain import KIND_NAMES
from nodewright.cli.explanation import KINDS
from nodewright.cli.main import BUG, COMMANDS, INTERRUPTED, Commands, cli, load_command_of_extra, run
from nodewright.model.errors import ConfigError, InvariantError, PluginNotFound

Nodewright = Callable[..., Any]


def test_without_a_command_it_shows_its_help(nodewright: Nodewright) -> None:
    ended = nodewright()
    assert ended.code == 0
    assert all(name in ended.out for name in COMMANDS)


def test_version(nodewright: Nodewright) -> None:
    assert nodewright("--version").out == f"nodewright {version('nodewright')}\n"


def test_every_command_has_help_with_its_exit_codes(nodewright: Nodewright) -> None:
    for name in COMMANDS:
        ended = nodewright(name, "--help")
        assert ended.code == 0
        assert "Exit code" in ended.out


def test_the_summaries_are_of_commands_that_exist() -> None:
    group = Commands("x")
    context = click.Context(group)
    assert [group.get_command(context, name) is not None for name in COMMANDS] == [True] * len(COMMANDS)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["plam"], "there is no command plam; did you mean plan?"),
        (["frobnicate"], f"there is no command frobnicate; there are {', '.join(COMMANDS)}"),
        (["providers", "--confg", "x"], "Did you mean '--config'?"),
        (["providers", "--output", "xml"], "'xml' is not one of 'table', 'json'"),
        (["plan"], "there is no kubeconfig"),
        (["\x1b[31mplan"], r"there is no command \x1b[31mplan; did you mean plan?"),
    ],
)
def test_wrong_usage_is_one_sentence(nodewright: Nodewright, args: list[str], sentence: str) -> None:
    ended = nodewright(*args)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("nodewright: ")
    assert ended.err.count("\n") == 1
    assert sentence in ended.err


@pytest.mark.parametrize("name", ["demo", "simulate"])
def test_a_command_of_an_extra_says_what_to_install(name: str) -> None:
    with pytest.raises(PluginNotFound, match=rf'nodewright {name} .*: pip install "nodewright\[simulator\]"'):
        load_command_of_extra(name, group="nodewright.tests.none")


def raising(error: BaseException) -> click.Command:
    def fail(**_: object) -> None:
        raise error

    params = [click.Argument(["words"], nargs=-1), click.Option(["--debug"], is_flag=True)]
    return click.Command("fail", callback=fail, params=params)


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (ConfigError("settings.yaml: no\nsuch key"), 2, "nodewright: settings.yaml: no such key\n"),
        (KeyboardInterrupt(), INTERRUPTED, "\nnodewright: interrupted\n"),
    ],
)
def test_errors_become_exit_codes(
    capfd: pytest.CaptureFixture[str], error: BaseException, code: int, sentence: str
) -> None:
    assert run(["fail"], raising(error)) == code
    assert capfd.readouterr().err == sentence


@pytest.mark.parametrize("error", [InvariantError("two increases"), ZeroDivisionError("division by zero")])
def test_a_bug_says_how_to_report_it(capfd: pytest.CaptureFixture[str], error: Exception) -> None:
    assert run(["x"], raising(error)) == BUG
    said = capfd.readouterr().err
    assert said.startswith(f"nodewright: a bug in nodewright: {type(error).__name__}: {error}; nodewright --debug x")
    assert said.count("\n") == 1


def test_debug_shows_the_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["--debug"], raising(ConfigError("no"))) == 2
    assert "Traceback (most recent call last)" in capfd.readouterr().err


def test_the_group_is_what_main_runs() -> None:
    assert isinstance(cli, Commands)


def test_help_imports_only_what_it_needs() -> None:
    asked = (
        "plan",
        "explain",
        "savings",
        "status",
        "top",
        "pause",
        "resume",
        "migrate",
        "run",
        "bundle",
        "console",
        "simulate",
        "demo",
        "sweep",
        "doctor",
        "shadow",
        "config",
    )
    program = (
        "import contextlib, io, sys\nfrom nodewright.cli.main import run\n"
        f"with contextlib.redirect_stdout(io.StringIO()):\n    [run([name, '--help']) for name in {asked}]\n"
        "print(*{'numpy', 'kubernetes', 'urllib3', 'tenacity', 'nodewright.planner'}.intersection(sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == []


def test_explain_knows_each_kind() -> None:
    assert set(KIND_NAMES) == set(KINDS)
