"""Every kind of trouble is drawn, and none that belong together much more often than another."""

import pytest
from tests.faults.hunt import drawn
from tests.faults.kinds import count_kinds
from tests.faults.late_troubles import LATE_TROUBLES
from tests.faults.schedules import REMADE
from tests.faults.troubles import STATES, TROUBLES


@pytest.mark.slow
def test_of_a_thousand_schedules_each_trouble_has_some() -> None:
    counts = count_kinds(drawn(range(1000)))
    assert min(counts[kind] for kind in (*TROUBLES, *LATE_TROUBLES)) >= 20
    assert min(counts[f"smaller machines in {kind}"] for kind in REMADE) >= 10
    states = [counts[f"restart with {state} state"] for state in STATES]
    assert max(states) == min(states) >= 20
