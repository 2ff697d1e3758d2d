"""The documentation site: every page is in the nav, it builds without a warning, and it fetches nothing from elsewhere."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from site_hooks import ADDED

ROOT = Path(__file__).parents[2]
# Of HTML: what a browser loads by itself.
_LOADED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc="([^"]+)"|<link[^>]*rel="(?:stylesheet|preconnect)"[^>]*href="([^"]+)"""
)


class _Loader(yaml.SafeLoader):
    """Reads a file of MkDocs; its own tags count as nothing."""


_Loader.add_multi_constructor("", lambda _loader, _suffix, _node: None)


def _config() -> dict[str, Any]:
    found: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text(), _Loader)  # noqa: S506 - a safe loader
    return found


def _leaves(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for entry in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from _leaves(entry)


def test_every_page_is_in_the_nav_once() -> None:
    listed = [page for page in _leaves(_config()["nav"]) if page != "DECISIONS"]
    docs = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    wanted = {page for page in docs if not page.startswith(("adr/", "examples/"))} | set(ADDED.values())
    assert sorted(listed) == sorted(wanted)
    assert [source for source in ADDED if not (ROOT / source).exists()] == []


def test_the_sections_have_their_order() -> None:
    sections = [title for entry in _config()["nav"] for title in entry]
    assert sections == [
        "Start here", "Concepts", "How-to", "Reference", "Explanation", "FAQ", "Runbooks", "Comparison"
    ]  # fmt: skip


def test_each_row_of_the_comparison_has_a_cell_for_each_system() -> None:
    rows = [line for line in (ROOT / "docs/comparison.md").read_text().splitlines() if line.startswith("| ")]
    assert len(rows) > 20
    assert {row.count(" |") for row in rows} == {5}
    cells = [row.rsplit(" |", 2)[1].strip() for row in rows]
    evidence = [cell for cell in cells if cell != "evidence"]
    assert [cell for cell in evidence if "](" not in cell and cell != "the same"] == []


def test_each_question_of_the_faq_has_an_answer() -> None:
    parts = re.split(r"^#+ (.+)$", (ROOT / "docs/faq.md").read_text(), flags=re.MULTILINE)[1:]
    answers = dict(zip(parts[::2], parts[1::2], strict=True))
    questions = [title for title in answers if title.endswith("?")]
    assert len(questions) > 50
    assert [title for title in questions if len(answers[title].strip()) < 20] == []


@pytest.mark.slow
def test_the_site_builds_and_fetches_nothing(tmp_path: Path) -> None:
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"} | {"SITE_URL": "", "REPO_URL": ""}
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")
    foreign = {
        target
        for page in tmp_path.rglob("*.html")
        for found in _LOADED.findall(page.read_text())
        for target in found
        if re.match(r"(https?:)?//", target)
    }
    assert foreign == set()
    index = json.loads((tmp_path / "search/search_index.json").read_text())
    assert any("backoff" in entry["text"].lower() for entry in index["docs"])
    assert (tmp_path / "search/search_index.js").exists()  # search without a server
    contract = (tmp_path / "reference/contract.html").read_text()
    assert "RequiredHooks" in contract
    assert "::: nodewright" not in contract
