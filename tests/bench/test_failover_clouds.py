"""The failover table through a vendor's server: who is told of a stock-out leaves in the next loop."""

import pytest

from failover_clouds import PAGE, broken_promises
from failover_stage import CASES, measure
from nodewright.model.settings import ScaleUpSettings, Settings


@pytest.mark.parametrize("provider", ["aws", "gce", "azure"])
def test_who_is_told_of_a_stock_out_leaves_in_the_next_loop(provider: str) -> None:
    settings = Settings(scale_up=ScaleUpSettings(expander="price"))
    found = measure(provider, "stock-out", settings, tells=True)
    assert found.minutes_to_next_group is not None
    assert found.minutes_to_next_group < 0.5
    assert found.minutes_to_all_running is not None
    assert (found.scale_ups, found.killed) == (2, 0)
    assert found.api_calls > 0


def test_the_page_keeps_its_promises() -> None:
    """The page in the repository is of these cases, and none of its rows breaks a promise."""
    page = PAGE.read_text()
    assert all(f"| {name} | fast |" in page for name in CASES)


def test_a_row_that_breaks_a_promise_is_told() -> None:
    row = {"provider": "aws", "scenario": "quota", "mode": "fast", "minutes_to_next_group": None, "killed": 2}
    assert len(list(broken_promises([row]))) == 2
