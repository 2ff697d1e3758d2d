"""Wall clocks that jump by 30 s, 10 min and a day, both ways, with and without a restart in between."""

import pytest
from tests.faults.clock_jumps import find_faults, hunt_jumps

SEEDS, EACH = 6, 54


@pytest.mark.slow
def test_whatever_the_wall_clock_says_idle_nodes_go_and_nothing_is_bought_twice() -> None:
    assert find_faults(None) == []
    assert hunt_jumps(range(SEEDS)) == (SEEDS * EACH, "")
