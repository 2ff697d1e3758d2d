"""The page about scale-down: what the benchmark writes, and notes by hand that it leaves alone."""

from pathlib import Path
from typing import Any

import pytest

from scale_down_page import write_page

PAGE = Path(__file__).parents[2] / "docs" / "scale-down.md"
NOTES = "\n## Notes on these runs\n\nTwo cycles, of which an operator wrote.\n\n| a | table |\n|---|---|\n"
HOURS = ("node_hours", "with_pods", "bound_of_chosen_groups", "bound", "wait_p50", "wait_p99", "wait_longest")
DOLLARS = {
    "dollars": 24.0,
    "dollars_with_pods": 12.0,
    "dollar_bound_of_chosen_groups": 6.0,
    "dollar_bound": 4.0,
}


def row(name: str) -> dict[str, Any]:
    curves = {"hours": [0.0, 1.0], "nodes": [0.0, 2.0], "bound": [0.0, 1.0]}
    return {
        "name": name,
        **dict.fromkeys(HOURS, 7.0),
        **DOLLARS,
        "removed": 3,
        "evicted": 2,
        "cycles": 1,
        "curves": curves,
    }


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    (tmp_path / "scale-down.md").write_text("# Scale-down\n\nof long ago\n" + NOTES)
    return tmp_path


def test_notes_by_hand_outlive_a_new_page(docs: Path) -> None:
    for _ in range(2):
        write_page([row("real-1m"), row("fast-1m")], ["real-5m"], docs)
        written = (docs / "scale-down.md").read_text()
        assert written.endswith(" |\n" + NOTES)
        assert "of long ago" not in written
        assert "| real-1m | 7 | 7 | 7 | 7 | 3 | 2 | 1 | 7 s | 7 s | 7 s |\n| fast-1m |" in written
        assert "| fast-1m | 24 | 12 | 6 | 4 | × 1.50 | × 2.00 | × 2.00 | × 6.00 |\n" in written
        assert "| real-1m | 24 |" not in written
    assert {path.name for path in (docs / "images").iterdir()} == {"scale-down-real.svg", "scale-down-fast.svg"}


def test_the_page_in_the_repository_is_the_one_that_is_written(docs: Path) -> None:
    """But for its figures, which take an hour."""
    page = PAGE.read_text()
    names = [line.split(" ")[1] for line in page.splitlines() if line.startswith(("| real", "| fast"))]
    write_page([row(name) for name in dict.fromkeys(names)], [], docs)
    written = (docs / "scale-down.md").read_text()
    assert words(written.removesuffix(NOTES)) == words(page.partition("\n## Notes on these runs\n")[0] + "\n")
    assert "`fast-1m-least-nodes` shows" in page.partition("\n## Notes on these runs\n")[2]


def words(page: str) -> list[str]:
    return [line for line in page.splitlines() if line and not line.startswith(("| real", "| fast"))]
