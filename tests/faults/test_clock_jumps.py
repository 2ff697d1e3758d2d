"""Wall clocks that jump by 30 s, 10 min and a day, both ways, with and without a restart in between."""

import pytest
from tests.faults.clock_jumps import DAY, START, Jump, find_faults, hunt_jumps

SEEDS, EACH = 3, 108


def test_an_engine_that_starts_a_day_ahead_takes_the_api_servers_time() -> None:
    """It took new nodes for a day old, and deleted those that were not Ready at first sight."""
    jump = Jump(has_dates=True, at=START, by=DAY, lasts=None, restart=START + 20)
    assert find_faults(jump) == []


@pytest.mark.slow
def test_whatever_the_wall_clock_says_idle_nodes_go_and_nothing_is_bought_twice() -> None:
    assert find_faults(None) == []
    assert hunt_jumps(range(SEEDS)) == (SEEDS * EACH, "")
