"""Every reference in code and docs resolves: paths, links with anchors, functions, ADR numbers, design documents, edge cases and flags."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from tests.packaging.conftest import names_in

from nodewright.cli.main import cli
from nodewright.cli.settings.known_flags import KNOWN
from nodewright.model.policy import Policy

ROOT = Path(__file__).parents[2]
POLICY = frozenset(Policy.__dataclass_fields__)
DOCS = ROOT / "docs"
_TOPS = ("core", "simulator", "plugins", "tests", "bench", "docs", "deploy")
_SUFFIXES = frozenset({".py", ".md", ".toml", ".yaml", ".yml"})
# provider_kit holds copies of pages, for a reader without the others.
_SKIPPED = frozenset(
    {"provider_kit", "build", "dist", "node_modules", "__pycache__", ".venv", "data", "cases", "certificates"}
)
# Pages about other repositories or for a reader outside of this one hold flags of other tools.
_FOREIGN_FLAGS = frozenset(
    {
        "all-namespaces", "build-arg", "cmd", "constraint", "create-namespace", "dist", "editable", "flag", "for", "kube-reserved", "no-flag", "from-literal", "group", "help",
        "kubeconfig", "namespace", "no-deps", "output", "previous", "replicas", "set", "set-file", "set-string", "tail",
        "upgrade", "values", "version",
    }
)  # fmt: skip
# Written by a test, into a folder of its own.
_FOREIGN_MODULES = frozenset({"consumer.py"})


class Broken(NamedTuple):
    """A reference that leads nowhere. ``where`` is a path from the root, with the line."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class Page(NamedTuple):
    """A text file. ``path`` is where it is or, in a test, would be."""

    path: Path
    text: str

    @property
    def is_markdown(self) -> bool:
        return self.path.suffix == ".md"


@cache
def pages() -> tuple[Page, ...]:
    """Every text file of the repository that may refer to something."""
    return tuple(_pages())


def _pages() -> Iterator[Page]:
    tops = chain.from_iterable((ROOT / top).rglob("*") for top in _TOPS)
    for path in sorted(chain(ROOT.glob("*.md"), ROOT.glob("*.toml"), [ROOT / "Makefile"], tops)):
        inside = path.relative_to(ROOT)
        if path.is_file() and (path.suffix in _SUFFIXES or path.name == "Makefile"):
            is_template = any("{{" in part or part.endswith(".jinja") for part in inside.parts)
            if not (_SKIPPED & set(inside.parts) or is_template or path == Path(__file__)):
                yield Page(path, path.read_text())


def broken(page: Page, what: Callable[[Page, re.Match[str]], str], pattern: str) -> Iterator[Broken]:
    """Matches of a pattern of which ``what`` says what is wrong (empty: nothing)."""
    for match in re.finditer(pattern, page.text):
        problem = what(page, match)
        if problem:
            line = page.text.count("\n", 0, match.start()) + 1
            yield Broken(f"{_inside(page.path)}:{line}", problem)


def _inside(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


# What may be referred to


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: dict[str, int] = {}
    anchored = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#+ +(.+?) *#*$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        anchored.add(f"{slug}-{count}" if count else slug)
    return frozenset(anchored)


@cache
def module_names() -> frozenset[str]:
    paths = chain.from_iterable((ROOT / top).rglob("*.py") for top in _TOPS)
    return frozenset(path.name for path in paths) | _FOREIGN_MODULES


@cache
def known_tests() -> frozenset[str]:
    return frozenset(chain.from_iterable(re.findall(r"\bdef (test_\w+)", page.text) for page in pages()))


@cache
def adr_numbers() -> frozenset[int]:
    return frozenset(int(path.name[:4]) for path in (DOCS / "adr").glob("[0-9]*.md"))


@cache
def seed_numbers() -> frozenset[str]:
    return frozenset(re.findall(r"^## Seed (\d+)", (DOCS / "seeds.md").read_text(), re.MULTILINE))


@cache
def edge_cases() -> frozenset[int]:
    rows = re.findall(r"^\| (\d+) \|", (DOCS / "behaviour" / "edge-cases.md").read_text(), re.MULTILINE)
    return frozenset(map(int, rows))


@cache
def flags() -> frozenset[str]:
    """Settings, options of the commands, and options of the scripts of this repository."""
    options = set(KNOWN) | {f"no-{name}" for name in KNOWN}
    for command in _commands(cli):
        options |= _options(command)
    scripts = [path for top in ("bench", "docs", "tests", "plugins") for path in (ROOT / top).rglob("*.py")]
    for script in scripts:
        options |= set(re.findall(r"""add(?:_argument|option)\(\s*["']--([a-z-]+)""", script.read_text()))
    return frozenset(options)


def _commands(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        context = click.Context(command)
        inner = (command.get_command(context, name) for name in command.list_commands(context))
        yield from chain.from_iterable(_commands(one) for one in inner if one is not None)


def _options(command: click.Command) -> set[str]:
    names = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    return {name.removeprefix("--") for name in names if name.startswith("--")}


# What is wrong with a reference


def document(_: Page, match: re.Match[str]) -> str:
    """A page below docs/ that code or prose names by its path, with or without an anchor."""
    path, anchor = ROOT / match[1], match[2]
    if not path.is_file():
        return f"there is no {match[1]}"
    return f"{match[1]} has no heading #{anchor}" if anchor and anchor not in anchors(path) else ""


def link(page: Page, match: re.Match[str]) -> str:
    target, _, anchor = match[1].partition("#")
    if not page.is_markdown or re.match(r"[a-z]+:", target):
        return ""
    path = page.path.parent / target if target else page.path
    if not path.exists():
        return f"links to {target}, which is not there"
    is_page = anchor and path.suffix == ".md"
    return f"links to {match[1]}, and there is no such heading" if is_page and anchor not in anchors(path) else ""


def member(_: Page, match: re.Match[str]) -> str:
    """``file.py::name``; a path that does not begin in the root is below the core's package."""
    path = next((top / match[1] for top in (ROOT, ROOT / "core/src/nodewright") if (top / match[1]).is_file()), None)
    if path is None:
        return f"there is no {match[1]}"
    return "" if match[2] in names_in(path) else f"{match[1]} has no {match[2]}"


def file(page: Page, match: re.Match[str]) -> str:
    """A path of a file in a code span: from the root, the core's package, or the page's folder."""
    tops = (ROOT, ROOT / "core/src", ROOT / "core/src/nodewright", page.path.parent)
    found = any((top / match[1]).exists() for top in tops)
    return "" if found else f"there is no {match[1]}"


def module(_: Page, match: re.Match[str]) -> str:
    """A file named without its folder."""
    return "" if match[1] in module_names() else f"there is no {match[1]} anywhere"


def named_test(page: Page, match: re.Match[str]) -> str:
    """A test that a page names."""
    return "" if not page.is_markdown or match[1] in known_tests() else f"there is no {match[1]}"


def adr(_: Page, match: re.Match[str]) -> str:
    missing = [number for number in re.findall(r"\d+", match[0]) if int(number) not in adr_numbers()]
    return f"there is no ADR {missing[0]}" if missing else ""


def seed(_: Page, match: re.Match[str]) -> str:
    return "" if match[1] in seed_numbers() else f"docs/seeds.md has no seed {match[1]}"


def switch(page: Page, match: re.Match[str]) -> str:
    """The pages of docs/behaviour name switches of Policy."""
    is_meant = page.path.parent == DOCS / "behaviour"
    return f"Policy has no {match[1]}" if is_meant and match[1] not in POLICY else ""


def edge_case(page: Page, match: re.Match[str]) -> str:
    """A test of a row of docs/behaviour/edge-cases.md is named after it."""
    is_meant = "_row_" in match[0] or "predicates" in page.path.parts
    known = not is_meant or int(match[1]) in edge_cases()
    return "" if known else f"docs/behaviour/edge-cases.md has no row {match[1]}"


def elsewhere(_: Page, match: re.Match[str]) -> str:
    return f"{match[0]!r} is not in this repository"


def flag(page: Page, match: re.Match[str]) -> str:
    is_prose = page.is_markdown and page.path.name != "CHANGELOG.md"
    is_source = page.path.suffix == ".py" and "src" in page.path.parts
    if not (is_prose or is_source) or match[1] in flags() | _FOREIGN_FLAGS:
        return ""
    return f"there is no flag --{match[1]}"


RULES: dict[str, tuple[Callable[[Page, re.Match[str]], str], str]] = {
    "document": (document, r"(?<![\w/.:-])(docs/(?:[\w-]+/)*[\w-]+\.md)(?:#([\w-]+))?"),
    "link": (link, r"(?<!`)\]\(([^)\s]+)\)"),
    "member": (member, r"`((?:[\w.-]+/)+[\w-]+\.py)::([\w.]+)`"),
    "file": (file, r"`((?:[\w.-]+/)+[\w-]+\.(?:py|md|toml|yaml|txt))`"),
    "module": (module, r"(?<![\w/.*-])([a-z_]+\.py)\b"),
    "test": (named_test, r"`(test_\w+)`"),
    "adr": (adr, r"\bADRs? \d+(?:(?:, | and | to )\d+\b)*|\bdocs/adr/\d+\b"),
    "seed": (seed, r"\b[Ss]eeds? (\d{3})\b"),
    "switch": (switch, r"`([a-z]+(?:_[a-z]+)+)`"),
    "edge case": (edge_case, r"\bdef test_(?:row_)?(\d+)_"),
    "elsewhere": (
        elsewhere,
        r"(?<!/)\bbehaviour/(?:up|down)\.md|\bdesign\.md|\b[Ii]ssue \d+|§|/work/\w+|\.\./shared\b",
    ),
    "flag": (flag, r"`--([a-z]+(?:-[a-z]+)*)(?:[=`\s])"),
}


@pytest.mark.parametrize("rule", RULES)
def test_every_reference_resolves(rule: str) -> None:
    check, pattern = RULES[rule]
    found = [str(one) for page in pages() for one in broken(page, check, pattern)]
    assert found == []


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "elsewhere"])
def test_there_are_such_references(rule: str) -> None:
    """A pattern that matches nothing would check nothing; of the rule "elsewhere" nothing may be there."""
    _, pattern = RULES[rule]
    assert any(re.search(pattern, page.text) for page in pages())


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("document", "as docs/nowhere.md says"),
        ("document", "as docs/seeds.md#no-such-heading says"),
        ("link", "[there](nowhere.md)"),
        ("link", "[there](seeds.md#no-such-heading)"),
        ("link", "[here](#no-such-heading)"),
        ("member", "`planner/make_plan.py::no_such_function`"),
        ("member", "`planner/no_such_file.py::make_plan`"),
        ("file", "`tests/scenario/test_nothing.py`"),
        ("module", "as no_such_module.py says"),
        ("test", "`test_that_nobody_wrote`"),
        ("adr", "as ADR 999 says"),
        ("adr", "as ADRs 1 and 999 say"),
        ("seed", "as seed 999 says"),
        ("elsewhere", "(design.md)"),
        ("elsewhere", "(behaviour/up.md)"),
        ("elsewhere", "(issue 5, point 3)"),
        ("elsewhere", "(§6)"),
        ("flag", "`--no-such-flag`"),
    ],
)
def test_a_broken_reference_is_found(rule: str, text: str, tmp_path: Path) -> None:
    page = Page(DOCS / "page.md", text) if rule != "link" else _page_on_disk(tmp_path, text)
    assert len(list(broken(page, *RULES[rule]))) == 1


def test_the_index_lists_every_decision_with_its_title() -> None:
    listed = dict(re.findall(r"\| \[(.*)\]\((\d+.*\.md)\) \|", (DOCS / "adr" / "README.md").read_text()))
    titles = {path.name: path.read_text().split("\n")[0] for path in (DOCS / "adr").glob("[0-9]*.md")}
    assert {name: f"# {int(name[:4])}. {title}" for title, name in listed.items()} == titles


def test_a_test_of_an_unknown_edge_case_is_found() -> None:
    page = Page(ROOT / "tests" / "test_page.py", "def test_row_999_nothing() -> None:")
    assert len(list(broken(page, *RULES["edge case"]))) == 1


def test_an_unknown_switch_is_found() -> None:
    page = Page(DOCS / "behaviour" / "page.md", "differs: `no_such_switch`.")
    assert len(list(broken(page, *RULES["switch"]))) == 1


def _page_on_disk(folder: Path, text: str) -> Page:
    """Links are followed from where the page is."""
    (folder / "seeds.md").write_text("# Seeds\n")
    path = folder / "page.md"
    path.write_text(text)
    return Page(path, text)
