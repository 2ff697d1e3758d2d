"""docs/seeds.md names files, functions, tests, flags and words of the code: all of them must be there."""

import re
from pathlib import Path

import pytest
from tests.packaging.conftest import names_in

from nodewright.cli.settings.known_flags import KNOWN

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "seeds.md"
TEXT = PAGE.read_text()
PACKAGE = ROOT / "core" / "src" / "nodewright"
SPANS = sorted(set(re.findall(r"`([^`]+)`", TEXT)))
ROWS = [line for line in TEXT.splitlines() if re.match(r"\| [A-Z]\d+ \|", line)]
_FILE = re.compile(r"((?:[\w.-]+/)*[\w-]+\.(?:py|yaml|toml|md))(?:::([\w.]+))?")
_WORD = re.compile(r"(?:[A-Z][a-z]+){2,}")
_FLAG = re.compile(r"--([a-z][a-z-]*)(?:=.*)?")
_SOURCES = ("core/src", "plugins/*/src", "deploy/crds", "deploy/chart/files")


def references() -> list[tuple[str, str]]:
    """Every (file, name in it) of the page; the name may be empty."""
    found = (_FILE.fullmatch(span) for span in SPANS)
    return [(match[1], match[2] or "") for match in found if match]


def locate(path: str) -> Path:
    """A file of the repository, or of the core's package."""
    return ROOT / path if (ROOT / path).is_file() else PACKAGE / path


@pytest.mark.parametrize(("path", "name"), references(), ids=lambda part: part.rpartition("/")[2])
def test_a_file_or_function_that_is_named_is_there(path: str, name: str) -> None:
    found = locate(path)
    assert found.is_file(), f"there is no {path}"
    if name:
        assert name in names_in(found), f"{path} has no {name}"


def test_whatever_looks_like_a_file_is_checked() -> None:
    unread = [span for span in SPANS if re.search(r"\.py\b|\.yaml\b|::|test_", span) and not _FILE.fullmatch(span)]
    assert unread == []


def test_every_promise_has_a_test_or_a_reason() -> None:
    """A reason is a page of docs/adr."""
    bare = [row for row in ROWS if "::test_" not in row and "](adr/" not in row]
    assert bare == []


def test_promises_are_numbered_without_gaps() -> None:
    numbers = [row.split("|")[1].strip() for row in ROWS]
    series: dict[str, list[int]] = {}
    for number in numbers:
        series.setdefault(number[0], []).append(int(number[1:]))
    assert set(series) == set("RFBOP")
    assert all(found == list(range(1, len(found) + 1)) for found in series.values())


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", TEXT)
    assert [link for link in links if not (PAGE.parent / link).exists()] == []


def test_flags_are_known() -> None:
    flags = [match[1] for match in map(_FLAG.fullmatch, SPANS) if match]
    assert flags
    assert [flag for flag in flags if flag not in KNOWN] == []


def test_events_conditions_and_reasons_are_those_of_the_code() -> None:
    sources = [
        path
        for pattern in _SOURCES
        for top in ROOT.glob(pattern)
        for path in top.rglob("*")
        if path.suffix in (".py", ".yaml")
    ]
    code = "\n".join(path.read_text() for path in sources)
    words = [span for span in SPANS if _WORD.fullmatch(span)]
    assert words
    assert [word for word in words if word not in code] == []
