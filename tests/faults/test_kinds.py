"""Every kind of trouble is drawn, and none that belong together much more often than another."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faults.hunt import drawn
from tests.faults.kinds import count_kinds
from tests.faults.late_troubles import LATE_TROUBLES
from tests.faults.schedules import REMADE
from tests.faults.troubles import STATES, TROUBLES

TELL = """
import json, sys
import nodewright_gce
from tests.faults.hunt import drawn
json.dump(list(drawn(range(20))), sys.stdout)
"""


def test_a_number_is_the_same_schedule_in_a_process_that_imported_other_modules() -> None:
    root = Path(__file__).parents[2]
    told = subprocess.run([sys.executable, "-c", TELL], cwd=root, check=True, capture_output=True, text=True).stdout
    assert json.loads(told) == json.loads(json.dumps(list(drawn(range(20)))))


@pytest.mark.slow
def test_of_a_thousand_schedules_each_trouble_has_some() -> None:
    counts = count_kinds(drawn(range(1000)))
    assert (
        min(counts[kind] for kind in (*TROUBLES, *LATE_TROUBLES, "empty_answers", "few_missing", "interruptions")) >= 20
    )
    assert min(counts[f"smaller machines in {kind}"] for kind in REMADE) >= 10
    states = [counts[f"restart with {state} state"] for state in STATES]
    assert max(states) == min(states) >= 20
