"""The weight of an eviction, and the score of a move."""

from typing import Any

import pytest

from nodewright.planner.consolidation.score import DELETION_COST_ANNOTATION, PoolTotals, disruption_of
from nodewright.testkit import build_pod


def cost(value: str) -> dict[str, Any]:
    return {"annotations": {DELETION_COST_ANNOTATION: value}}


@pytest.mark.parametrize(
    ("extras", "weight"),
    [
        ({}, 1.0),
        (cost("134217728"), 2.0),
        (cost("-134217728"), 0.0),
        (cost("-2147483647"), 0.0),
        (cost("2147483647"), 10.0),
        (cost("much"), 1.0),
        ({"priority": 33554432}, 2.0),
        ({"owner": ("DaemonSet", "logs")}, 0.0),
    ],
)
def test_the_weight_of_an_eviction(extras: dict[str, Any], weight: float) -> None:
    assert disruption_of([build_pod("one", **extras)]) == pytest.approx(weight)


def test_the_score_is_the_share_of_savings_over_the_share_of_disruption() -> None:
    pool = PoolTotals(price=10.0, disruption=50.0)
    assert pool.score(savings=1.0, disruption=10.0) == pytest.approx(0.5)
    assert PoolTotals(0.0, 0.0).score(1.0, 1.0) == 0.0
