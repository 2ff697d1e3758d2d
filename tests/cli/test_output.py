"""How the command behaves as a process: pipes, colours, speed, completion."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Finished = subprocess.CompletedProcess[str]
Command = Callable[..., Finished]

ROOT = Path(__file__).parents[2]
PLAN = ("plan", ROOT / "docs/examples/plan/dump.json", "--groups", ROOT / "docs/examples/plan/groups.yaml")


def test_a_reader_that_goes_away_is_no_error() -> None:
    words = [sys.executable, "-m", "nodewright", *(str(word) for word in PLAN), "--output", "json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141


def test_a_table_into_a_closed_pipe_is_no_error() -> None:
    words = [sys.executable, "-m", "nodewright", *(str(word) for word in PLAN)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141


def test_without_a_terminal_there_is_no_colour(new_process: Command) -> None:
    assert "\x1b" not in new_process(*PLAN).stdout


@pytest.mark.parametrize("columns", ["40", "80", "140"])
def test_tables_keep_to_the_width(command: Command, columns: str) -> None:
    said = command(*PLAN, env={"COLUMNS": columns}).stdout
    assert max(len(line) for line in said.splitlines()) <= int(columns)


def test_a_yaml_dump_on_stdin(new_process: Command) -> None:
    node = "kind: Node\napiVersion: v1\nmetadata: {name: n, labels: {pool: a}}\n"
    pod = "kind: Pod\napiVersion: v1\nmetadata: {name: p}\nstatus: {phase: Pending}\n"
    ended = new_process("plan", "-", "--group-by", "pool", stdin=f"{node}---\n{pod}")
    assert ended.returncode == 0
    assert "stdin, as of 1970-01-01T00:00:00Z: 1 node, 1 pending pod" in ended.stdout


@pytest.mark.parametrize("heavy", ["numpy", "rich", "pluggy", "yaml"])
def test_help_imports_nothing_heavy(heavy: str) -> None:
    source = f"import sys; from nodewright.cli.main import run; run(['--help']); sys.exit({heavy!r} in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, check=False)
    assert ended.returncode == 0


@pytest.mark.parametrize("needless", ["nodewright_simulator", "re2"])
def test_providers_do_without_libraries_of_other_commands(needless: str) -> None:
    source = (
        f"import sys; from nodewright.cli.main import run; run(['providers']); sys.exit({needless!r} in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, check=False)
    assert ended.returncode == 0


def test_shell_completion_knows_the_commands(command: Command) -> None:
    env = {"_NODEWRIGHT_COMPLETE": "bash_complete", "COMP_WORDS": "nodewright p", "COMP_CWORD": "1"}
    assert command(env=env).stdout.split() == ["plain,plan", "plain,pause", "plain,provider", "plain,providers"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("--expander price,le", ["price,least-cost", "price,least-waste", "price,least-nodes"]),
        ("--consolidation-policy w", ["when-empty", "when-cheaper"]),
        ("--cloud-provider f", ["fake"]),
    ],
)
def test_shell_completion_knows_the_values_of_settings(command: Command, words: str, offered: list[str]) -> None:
    env = {"_NODEWRIGHT_COMPLETE": "bash_complete", "COMP_WORDS": f"nodewright run {words}", "COMP_CWORD": "3"}
    assert command(env=env).stdout.split() == [f"plain,{value}" for value in offered]


def test_an_ascii_terminal_gets_ascii(new_process: Command) -> None:
    ended = new_process(*PLAN, env={"PYTHONIOENCODING": "ascii"})
    assert ended.returncode == 0
    assert "3 -> 5" in ended.stdout
    assert ended.stdout.isascii()


@pytest.mark.parametrize("words", [PLAN, ("providers", "--output", "json")])
def test_a_full_disk_is_one_sentence(words: tuple[str | Path, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        called = [sys.executable, "-m", "nodewright", *(str(word) for word in words)]
        ended = subprocess.run(called, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "nodewright: cannot write the output: No space left on device\n"


def test_completion_script(new_process: Command) -> None:
    assert "_nodewright_completion" in new_process(env={"_NODEWRIGHT_COMPLETE": "bash_source"}).stdout
