"""Groups that a former engine may be writing to are held until that is over, or its effect is seen."""

from dataclasses import replace

import pytest

from nodewright.clusterstate.in_flight import HELD, WriteInFlight, as_if_made, held, unsettled
from nodewright.clusterstate.recall import recalled
from nodewright.clusterstate.state import Memory
from nodewright.model.group import GroupRef, Instance, InstanceState, NodeGroup
from nodewright.snapshot.observation import GroupSeen, Observation
from nodewright.snapshot.snapshot import Snapshot

NOW = 1000.0
A, B = GroupRef("p", "a"), GroupRef("p", "b")


def group(ref: GroupRef, target: int | None, *ids: str, state: InstanceState = InstanceState.RUNNING) -> GroupSeen:
    instances = tuple(Instance(id=name, state=state) for name in ids) if target is not None else None
    made = NodeGroup(id=ref.group_id, min_size=0, max_size=9)
    return GroupSeen(ref=ref, group=made, target=target, instances=instances)


def seen(*groups: GroupSeen, now: float = NOW) -> Observation:
    return Observation(now=now, snapshot=Snapshot(), groups={one.ref: one for one in groups})


def grows(target: int) -> WriteInFlight:
    return WriteInFlight(until=NOW + 75, seconds=75, target=target)


DELETES = WriteInFlight(until=NOW + 75, seconds=75, instance_ids=("i-1", "i-2"))


@pytest.mark.parametrize(
    ("write", "found", "is_open"),
    [
        (grows(3), group(A, 2), True),
        (grows(3), group(A, 3), False),
        (grows(3), group(A, None), True),
        (DELETES, group(A, 2, "i-1", "i-3"), True),
        (DELETES, group(A, 2, "i-3"), False),
        (DELETES, group(A, 2, "i-1", "i-2", state=InstanceState.DELETING), False),
        (grows(-1), group(A, 0), True),
    ],
)
def test_a_write_is_open_until_its_effect_is_seen(write: WriteInFlight, found: GroupSeen, *, is_open: bool) -> None:
    assert (A in unsettled({A: write}, seen(found))) == is_open


def test_a_write_is_open_no_longer_than_its_call_could_last() -> None:
    assert unsettled({A: grows(3)}, seen(group(A, 2), now=NOW + 74.9))
    assert not unsettled({A: grows(3)}, seen(group(A, 2), now=NOW + 75))


def test_a_clock_that_was_set_back_holds_nobody_for_longer() -> None:
    late = WriteInFlight(until=NOW + 86_400, seconds=75, target=3)
    kept = recalled(Memory(writes_in_flight={A: late, B: grows(1)}), NOW).writes_in_flight
    assert (kept[A].until, kept[B].until) == (NOW + 75, NOW + 75)


def test_only_the_groups_of_writes_are_shut() -> None:
    found = held(seen(group(A, 2, "i-1"), group(B, 1)), {A: grows(3)})
    assert (found.groups[A].is_known, found.groups[A].problem) == (False, HELD)
    assert found.groups[B].is_known
    untouched = seen(group(A, 2))
    assert held(untouched, {}) is untouched


def test_what_was_asked_for_is_expected_while_the_group_is_shut() -> None:
    before = {A: group(A, 0), B: group(B, 0)}
    known = as_if_made(before, seen(group(A, 2, "i-1"), group(B, 5)), {A: grows(3)})
    assert (known[A].target, known[A].instances) == (3, (Instance(id="i-1"),))
    assert known[B] == before[B]
    # What cannot be read stays as it was saved; a deletion takes nothing away before it is seen.
    assert as_if_made(before, seen(group(A, None)), {A: grows(3)}) == before
    assert as_if_made(before, seen(group(A, 2, "i-1", "i-2")), {A: DELETES})[A].target == 2


def test_shutting_leaves_the_reason_why_a_group_cannot_be_read() -> None:
    broken = replace(group(A, None), problem="no answer")
    assert held(seen(broken), {A: grows(3)}).groups[A].problem == "no answer"
