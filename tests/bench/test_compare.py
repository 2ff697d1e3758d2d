"""The comparison of two benchmark results."""

from collections.abc import Mapping
from typing import Any

from compare import table


def row(median: float, reference: float) -> Mapping[str, Any]:
    return {"seconds": {"median": median}, "reference": reference}


def test_times_are_compared_by_the_speed_of_the_machine() -> None:
    before = {"estimate": row(0.010, 0.1), "gone": row(1.0, 0.1), "owned": row(0.010, 0.1)}
    after = {"estimate": row(0.020, 0.2), "new": row(1.0, 0.1), "owned": row(0.020, 0.1)}
    assert list(table(before, after))[2:] == [
        "| estimate | 10.0 ms | 20.0 ms | 1.00 |  |",
        "| owned | 10.0 ms | 20.0 ms | 2.00 | slower |",
    ]
