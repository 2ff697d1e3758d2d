"""Two or three replicas under random crashes, freezes, edited leases and outages: one leads, and nothing is bought twice.

``make leaders`` runs a thousand schedules, the suite some of them: 20 in the quick tier, and as many in the slow one as
two CPU minutes allow.
"""

import os
import re
from collections import Counter

import pytest
from core.tests.leaders import mutants
from core.tests.leaders.replica import Replica
from core.tests.leaders.schedule import Broken, Schedule

_QUICK = 20
_ALL = int(os.environ.get("LEADER_SCHEDULES", str(_QUICK)))
_SLOW = range(_QUICK, 260)
_QUICK_PARTS, _PARTS = 2, 4


@pytest.mark.parametrize("part", range(_QUICK_PARTS))
def test_whatever_befalls_the_replicas_one_leads_and_nothing_is_bought_twice(part: int) -> None:
    run_sound(range(part, _ALL, _QUICK_PARTS))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
def test_one_leads_and_nothing_is_bought_twice_in_more_schedules(part: int) -> None:
    run_sound(_SLOW[part::_PARTS])


def run_sound(numbers: range) -> None:
    counts, writes = Counter[str](), 0
    for number in numbers:
        schedule = Schedule(number)
        schedule.run()
        counts.update(schedule.counts)
        writes += len(schedule.writes)
    # Otherwise nothing was tried.
    assert min(counts[what] for what in ("kills", "freezes", "edits", "names", "outages", "stops")) >= 3
    assert writes > 30


def is_caught(mutant: type[Replica], said: str, first: int) -> bool:
    """Return whether one of 200 schedules breaks so, from the number ``first`` on."""
    for number in range(first, first + 200):
        try:
            Schedule(number, mutant).run()
        except Broken as broken:
            if re.search(said, str(broken)):
                return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "first", "said"),
    [
        (mutants.WithoutLeaseCheck, 35, "before it was frozen"),
        (mutants.WithoutLeaseCheck, 9, "before .* led"),
        (mutants.WithoutCloudCheck, 92, "does not lead"),
        (mutants.WithoutHold, 134, "bought twice"),
        (mutants.WithoutIntent, 0, "not saved before"),
        (mutants.WithoutDeadline, 11, "last longer than was saved"),
        (mutants.RenewsLate, 128, "before it was frozen"),
        (mutants.RenewsLate, 152, "two leaders"),
        (mutants.TrustsEmptyLeases, 4, "two leaders"),
    ],
)
def test_a_replica_that_lacks_a_rule_is_caught(mutant: type[Replica], first: int, said: str) -> None:
    """``first`` is where it was caught last; another schedule does as well."""
    assert is_caught(mutant, said, first)


@pytest.mark.slow
def test_machines_bought_twice_are_found_where_others_are_deleted_meanwhile() -> None:
    """In the first world the sums tell it, in the second only what is on its way at the moment of the purchase."""
    assert is_caught(mutants.WithoutHold, r"bought twice$", 73)
    assert is_caught(mutants.WithoutHold, r"bought twice: \d+ are on their way, for \d+ pods$", 635)
