"""Two or three replicas under random crashes, freezes, edited leases and outages: one leads, and nothing is bought twice.

``make leaders`` runs a thousand schedules, the suite some of them.
"""

import os
from collections import Counter

import pytest
from core.tests.leaders import mutants
from core.tests.leaders.replica import Replica
from core.tests.leaders.schedule import Broken, Schedule

_ALL = int(os.environ.get("LEADER_SCHEDULES", "40"))
_PARTS = 4


@pytest.mark.parametrize("part", range(_PARTS))
def test_whatever_befalls_the_replicas_one_leads_and_nothing_is_bought_twice(part: int) -> None:
    counts, writes = Counter[str](), 0
    for number in range(part, _ALL, _PARTS):
        schedule = Schedule(number)
        schedule.run()
        counts.update(schedule.counts)
        writes += len(schedule.writes)
    # Otherwise nothing was tried.
    assert min(counts[what] for what in ("kills", "freezes", "edits", "outages", "stops")) >= 3
    assert writes > 30


def run_all(numbers: range, mutant: type[Replica]) -> None:
    for number in numbers:
        Schedule(number, mutant).run()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "first", "said"),
    [
        (mutants.WithoutLeaseCheck, 0, "does not lead"),
        (mutants.WithoutCloudCheck, 28, "does not lead"),
        (mutants.WithoutHold, 115, "bought twice"),
        (mutants.WithoutIntent, 0, "not saved before"),
        (mutants.WithoutDeadline, 8, "last longer than was saved"),
        (mutants.TrustsEmptyLeases, 4, "two leaders"),
        (mutants.TakesMissingLeases, 112, "two leaders"),
    ],
)
def test_a_replica_that_lacks_a_rule_is_caught(mutant: type[Replica], first: int, said: str) -> None:
    """``first`` is where it is caught soon; another schedule does as well."""
    with pytest.raises(Broken, match=said):
        run_all(range(first, first + 200), mutant)
