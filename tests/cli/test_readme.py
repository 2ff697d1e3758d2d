"""What the READMEs say is so: commands run, pictures and code are the current ones, links lead somewhere."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodewright.adapters.clocks import VirtualClock
from nodewright.cli.connect import Connector
from nodewright.cli.settings.load import load_settings

Finished = subprocess.CompletedProcess[str]
Command = Callable[..., Finished]

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
START = ROOT / "docs/start.md"
PAGES = (README, ROOT / "core/README.md", START, ROOT / "docs/commands.md")
ACME = ROOT / "docs/examples/acme/src/nodewright_acme/provider.py"
DUMP = ROOT / "docs/examples/plan/dump.json"

_KINDS = {
    "dra": "devices (DRA)",
    "gang": "gangs",
    "similar": "similar groups",
    "runonce": "whole loops",
    "provreq": "ProvisioningRequests",
}
_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str = "") -> list[str]:
    return [found["text"] for found in _BLOCK.finditer(page.read_text()) if found["language"] == language]


def commands(page: Path, word: str) -> Iterator[str]:
    """Lines of code blocks that start with a word, without comments."""
    for block in blocks(page):
        for line in block.splitlines():
            if line.startswith(f"{word} "):
                yield line.partition("#")[0].strip()


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A checkout's examples, and the dump that a reader would have made."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "docs").symlink_to(ROOT / "docs")
    (folder / "dump.json").write_bytes(DUMP.read_bytes())
    return folder


@pytest.mark.parametrize("page", PAGES[:3], ids=["root", "core", "start"])
def test_every_nodewright_command_runs(command: Command, workplace: Path, page: Path) -> None:
    before = {line for earlier in PAGES[: PAGES.index(page)] for line in commands(earlier, "nodewright")}
    found = [line for line in commands(page, "nodewright") if line not in before]
    assert found
    for line in found:
        ended = command(*shlex.split(line)[1:], cwd=workplace)
        assert (ended.returncode, ended.stderr) == (0, ""), line


def test_what_is_shown_is_what_commands_print(command: Command, workplace: Path) -> None:
    for page, words in ((START, "plan docs/examples"), (README, "explain node")):
        [line] = [line for line in commands(page, "nodewright") if line.startswith(f"nodewright {words}")]
        said = command(*shlex.split(line)[1:], cwd=workplace, env={"COLUMNS": "110"}).stdout
        assert "\n".join(row.rstrip() for row in said.splitlines()) + "\n" in blocks(page)


def test_every_make_target_is_there() -> None:
    for line in (*commands(README, "make"), *commands(START, "make")):
        ended = subprocess.run(["make", "-n", *line.split()[1:]], cwd=ROOT, capture_output=True, text=True, check=True)
        assert ended.stdout
    assert {line.split()[1] for line in commands(README, "make")} == {"demo", "docs", "test"}


def test_the_readme_can_be_read_in_one_sitting() -> None:
    """Longer texts stand in docs/."""
    assert len(README.read_text().splitlines()) <= 125


@pytest.mark.slow
def test_the_conformance_numbers_are_current() -> None:
    cases = sorted((ROOT / "tests/conformance/cases").iterdir())
    ended = subprocess.run(
        [sys.executable, "tests/conformance/run.py", *map(str, cases)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    text = (ROOT / "docs/features.md").read_text()
    scores = [line.split() for line in ended.stdout.splitlines() if " " in line]  # the rest names what fails
    assert len(scores) == len(cases)
    for kind, score in scores:
        words = _KINDS.get(kind, kind)
        assert f"{words} {score}" in " ".join(text.split())


def test_the_provider_that_is_shown_is_the_example() -> None:
    assert ACME.read_text() in blocks(ROOT / "docs/provider-example.md", "python")


def test_the_picture_is_whole_and_fetches_nothing() -> None:
    picture = (ROOT / "docs/images/demo.svg").read_text()
    assert "docs/images/demo.svg" in README.read_text()
    assert "out_of_resources" in picture
    assert picture.rstrip().endswith("</svg>")
    assert "url(" not in picture.replace("url(#", "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("plugin", ["aws", "gce", "azure"])
def test_the_smallest_example_of_a_plugin_builds_it(plugin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE"):  # AKS sets them
        monkeypatch.setenv(variable, "set")
    text = (ROOT / "plugins" / plugin / "README.md").read_text()
    example = text.partition("## Configuration")[2].partition("```\n")[2].partition("```")[0]
    settings = load_settings({}, {}, example, "the example").providers[plugin]
    assert Connector(clock=VirtualClock()).connect(plugin, settings).name == plugin
