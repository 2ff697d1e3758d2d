"""Every figure of the pages says what made it: command, commit and machine; and which ones are older than their code is told."""

import re
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import figures
import msgspec
import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOUND = figures.read()
FIGURES = FOUND.figures
of_each = pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: str(figure.name))


@of_each
def test_a_figure_says_what_made_it(figure: figures.MeasuredFigure) -> None:
    assert figure.machine in FOUND.machines
    assert re.fullmatch(r"[0-9a-f]{7,12}", figure.commit)
    assert figure.code
    assert [path for path in figure.code if not (ROOT / path).exists()] == []
    headings = re.findall(r"^#+ (.+)$", (DOCS / figure.page).read_text(), re.MULTILINE)
    assert set(figure.parts) <= set(headings)
    assert all((DOCS / "images" / name).exists() for name in figure.pictures)
    assert figure.parts or figure.pictures


@of_each
def test_its_command_is_one_of_this_tree(figure: figures.MeasuredFigure) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    scripts = re.findall(r"[\w/]+\.py", figure.command)
    scripts += [f"{name.replace('.', '/')}.py" for name in re.findall(r"-m (tests[.\w]+)", figure.command)]
    called = set(re.findall(r"\bmake ([a-z0-9-]+)", figure.command))
    assert scripts or called
    assert called <= targets
    assert [path for path in scripts if not (ROOT / path).exists()] == []


def test_no_measured_table_or_picture_is_left_out() -> None:
    known = {(figure.page, part) for figure in FIGURES for part in figure.parts}
    pages = [path for path in DOCS.rglob("*.md") if "adr" not in path.parts]  # a decision tells of its day
    missing = set()
    for path in pages:
        name = path.relative_to(DOCS).as_posix()
        if name not in FOUND.not_measured:
            missing |= {(name, part) for part in _parts_with_numbers(path.read_text())} - known
    assert missing == set()
    shown = {path.name for path in (DOCS / "images").glob("*.svg")}
    assert shown == {name for figure in FIGURES for name in figure.pictures}


def _parts_with_numbers(text: str) -> Iterator[str]:
    """Yield the heading of each table of which half of the rows have a cell that begins with a number."""
    for section in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        for table in re.findall(r"^\|.*\n\|[-:| ]+\n((?:\|.*\n?)+)", section, re.MULTILINE):
            rows = table.splitlines()
            counted = [row for row in rows if re.search(r"\| *[*≤×~-]* ?\d", row)]
            if len(counted) * 2 >= len(rows):
                yield section.splitlines()[0].lstrip("# ")


def test_a_table_of_numbers_is_found() -> None:
    head = "# Page\n\n## A\n\n| a | b |\n|---|---|\n"
    assert list(_parts_with_numbers(f"{head}| x | 1.5 s |\n| y | none |\n\n## B\n")) == ["A"]
    assert list(_parts_with_numbers(f"{head}| x | word |\n")) == []


@pytest.mark.parametrize("page", sorted({figure.page for figure in FIGURES}))
def test_a_page_with_figures_links_to_what_made_them(page: str) -> None:
    assert re.search(r"\]\((\.\./docs/)?reference/figures\.md\)", (DOCS / page).read_text())
    assert page not in FOUND.not_measured


@pytest.mark.filterwarnings("always:figures older than their code")
def test_figures_that_are_older_than_their_code_are_told() -> None:
    """As a warning that pytest sums up: whoever changes code need not measure at once."""
    shallow = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if shallow.stdout.strip() != "false":
        pytest.skip("the history of the repository is not at hand")
    told = [f"{figure.name} ({count} commits since {figure.commit})" for figure, count in figures.older()]
    if told:
        warnings.warn(f"figures older than their code, make figures makes them again: {', '.join(told)}", stacklevel=1)


@pytest.mark.parametrize("key", ["command", "commit", "machine", "code"])
def test_a_figure_without_one_of_these_is_refused(key: str) -> None:
    text = re.sub(rf"^{key} = .*\n", "", figures.REGISTRY.read_text(), count=1, flags=re.MULTILINE)
    with pytest.raises(msgspec.ValidationError, match=f"missing required field `{key}`"):
        figures.read(text)
