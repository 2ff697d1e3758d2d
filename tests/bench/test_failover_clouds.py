"""The failover table through a vendor's server: who is told of a stock-out leaves in the next loop."""

import pytest

from failover import PROVIDERS
from failover_clouds import COLUMNS, PAGE, SHOWN, Row, broken_promises
from failover_stage import CASES, measure


@pytest.mark.parametrize("provider", PROVIDERS)
def test_who_is_told_of_a_stock_out_leaves_in_the_next_loop(provider: str) -> None:
    found = measure(provider, "stock-out", {"expander": "price"}, tells=True)
    assert found.minutes_to_next_group is not None
    assert found.minutes_to_next_group < 0.5
    assert found.minutes_to_all_running is not None
    assert (found.scale_ups, found.killed) == (2, 0)
    assert found.api_calls > 0


def rows_of_page() -> list[Row]:
    """What the page in the repository says, as the benchmark measured it."""
    table = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert tuple(table[0]) == COLUMNS
    return [
        {
            "provider": provider,
            "scenario": scenario,
            "mode": mode,
            "minutes_to_next_group": None if minutes == "never" else float(minutes.removesuffix(" min")),
            "killed": int(killed),
        }
        for provider, scenario, mode, minutes, _, _, killed, _ in table[1:]
    ]


def test_the_page_keeps_its_promises() -> None:
    """The page in the repository is of these cases, and none of its rows breaks a promise."""
    rows = rows_of_page()
    found = {(row["provider"], row["scenario"], row["mode"]) for row in rows}
    assert found == {(provider, name, mode) for provider in PROVIDERS for name in CASES for mode in SHOWN}
    assert list(broken_promises(rows)) == []


def test_a_row_that_breaks_a_promise_is_told() -> None:
    row = {"provider": "aws", "scenario": "quota", "mode": "fast", "minutes_to_next_group": None, "killed": 2}
    assert len(list(broken_promises([row]))) == 2
