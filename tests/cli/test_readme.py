"""What the READMEs say is so: commands run, pictures and code are the current ones, links lead somewhere."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from nodewright.adapters.clocks import VirtualClock
from nodewright.cli.connect import Connector
from nodewright.cli.main import cli
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
_FENCED = re.compile(r"^ *```\w*\n(?P<text>.*?)^ *```", re.MULTILINE | re.DOTALL)
_OURS = re.compile(r"(?:^ *|[|] |-- |\w=\S+ )(?:\S*/)?nodewright (?P<words>[a-z].*)")
_SPAN = re.compile(r"`((?:nodewright|NODEWRIGHT|kubectl|\.venv)\b[^`]*)`")
_SHELL = ("|", ">", "<", "&&", ";")


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


def cells(page: Path, row: str) -> list[str]:
    """The cells of the last row of a table that begins with these words, without the first one."""
    *_, line = [line for line in page.read_text().splitlines() if line.startswith(f"| {row}")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_the_figures_of_the_readme_are_those_of_the_pages_that_are_measured() -> None:
    """docs/reference/figures.md says what made those."""
    karpenter, least_cost, *others = cells(ROOT / "docs/cost.md", "all |")
    plain, *_ = cells(ROOT / "docs/cost.md", "plain-kwok |")
    span = f"{min(others)} to {max(others)}"
    said = cells(README, "price of 75 sets of pods")
    assert said == [
        f"{span} by expander",
        f"{karpenter}; {plain} where prices are linear",
        f"{least_cost} (`least-cost`)",
    ]
    failover = ROOT / "docs/failover.md"
    prompt, auto, theirs = (
        float(cells(failover, f"seed-1 | {mode} |")[2].removesuffix(" min")) for mode in ("prompt", "auto", "ca")
    )
    slow, _, ours = cells(README, "a stock-out that the cloud does not report")
    assert slow == f"{theirs:.0f} min until all pods run"
    assert ours == f"{auto:.0f} to {prompt:.0f} min, by setting"


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


def find_shown() -> Iterator[tuple[str, str]]:
    """Each command line of ours in a page, in a block of code or in a sentence, and where it is."""
    for page in (
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("*/README.md"),
        *ROOT.glob("plugins/*/*.md"),
    ):
        if page.parent.name == "reference" or page.name == "reasons.md":  # made from the commands; messages
            continue
        text = page.read_text()
        lines = [line for found in _FENCED.finditer(text) for line in found["text"].replace("\\\n", "").splitlines()]
        lines += [" ".join(found.split()) for found in _SPAN.findall(_FENCED.sub("", text))]
        for line in lines:
            if found := _OURS.search(line):
                yield str(page.relative_to(ROOT)), found["words"]


def judge(text: str) -> str:
    """What click would refuse of a command line; its values are not looked at."""
    words = shlex.split(text, comments=True)
    words = words[: next((place for place, word in enumerate(words) if word in _SHELL), len(words))]
    command: click.Command = cli
    while isinstance(command, click.Group) and words:
        held = command.get_command(click.Context(command), words[0])
        if held is None:
            return f"there is no command {words[0]}"
        command, words = held, words[1:]
    context = click.Context(command)
    if any(sign in text for sign in "[…|") or (len(words) < 3 and "." not in text):  # a synopsis: only its options
        known = {option for param in command.get_params(context) for option in (*param.opts, *param.secondary_opts)}
        return " ".join(sorted(set(re.findall(r"(?<!\S)\[?(--[a-z][\w-]*)", text)) - known))
    try:
        given, rest, _ = command.make_parser(context).parse_args(list(words))
    except click.UsageError as error:
        return error.format_message()
    if rest:
        return f"too many words: {rest}"
    needed = [param for param in command.params if param.required]
    return " ".join(
        f"{one.human_readable_name} is missing"
        for one in needed
        if one.value_is_missing(one.consume_value(context, given)[0])
    )


def test_every_command_that_a_page_shows_can_be_given() -> None:
    shown = list(find_shown())
    assert len(shown) > 100
    assert [f"{page}: nodewright {text}: {wrong}" for page, text in shown if (wrong := judge(text))] == []
