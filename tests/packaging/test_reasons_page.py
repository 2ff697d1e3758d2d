"""docs/behaviour/reasons.md has every reason why a node is kept, a pod blocks it, and a group is not used, and every result."""

import re
from enum import StrEnum
from pathlib import Path

import pytest

from nodewright.model.reason import BlockingCode, ScaleDownResult, ScaleUpResult, SkipCode, UnremovableCode

PAGE = Path(__file__).parents[2] / "docs/behaviour/reasons.md"


@pytest.mark.parametrize(
    ("heading", "codes"),
    [
        ("Why a node is kept", UnremovableCode),
        ("Why a pod blocks its node", BlockingCode),
        ("Why a group is not used for a pod", SkipCode),
        ("How scale-up planning ended", ScaleUpResult),
        ("How scale-down planning ended", ScaleDownResult),
    ],
)
def test_every_value_is_in_its_table(heading: str, codes: type[StrEnum]) -> None:
    _, _, section = PAGE.read_text().partition(f"## {heading}\n")
    rows = re.findall(r"^\| ([A-Za-z_, ]+) \|", section.partition("\n## ")[0], re.MULTILINE)
    listed = [name for row in rows[1:] for name in row.split(", ")]
    assert sorted(listed) == sorted(codes)
