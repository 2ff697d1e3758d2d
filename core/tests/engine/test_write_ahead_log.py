"""State is saved before a write, and again if the save is too old by then."""

from collections.abc import Mapping

import pytest

from nodewright.clusterstate.memory import Memory, WriteInFlight
from nodewright.engine.intent import START_SECONDS, WriteAheadLog
from nodewright.model.action import Action, DecreaseTargetSize, DeleteInstances, IncreaseSize
from nodewright.model.errors import NodewrightError
from nodewright.model.group import GroupRef
from nodewright.model.settings import Settings
from nodewright.model.write_fence import WriteFence
from nodewright.testkit import FakeClock
from nodewright_simulator.store import MemoryStore

A = GroupRef("p", "a")
LASTS = 60.0 + START_SECONDS


class WriteAheadHarness:
    """A store, a gate and what stands between them, on one clock."""

    def __init__(self) -> None:
        self.clock = FakeClock(1000.0)
        self.store = MemoryStore()
        self.gate = WriteFence(self.clock.now)
        self.log = WriteAheadLog(self.store, self.gate, self.clock)

    def saved(self) -> Mapping[GroupRef, WriteInFlight]:
        return self.store.load().memory.writes_in_flight


@pytest.fixture
def harness() -> WriteAheadHarness:
    return WriteAheadHarness()


def grow(target: int) -> IncreaseSize:
    return IncreaseSize(group=A, expected_target=target - 1, target=target)


def delete(*ids: str) -> DeleteInstances:
    return DeleteInstances(group=A, expected_target=9, instance_ids=ids, reason="unneeded")


def test_a_save_says_until_when_each_group_may_be_written_to(harness: WriteAheadHarness) -> None:
    harness.log.save(Memory(), [grow(3)], Settings())
    assert harness.saved() == {A: WriteInFlight(until=1000 + LASTS, seconds=LASTS, target=3)}
    assert harness.gate.seconds_covered(A) == LASTS
    harness.log.save(Memory(), [], Settings())
    assert harness.saved() == {}


@pytest.mark.parametrize(
    ("actions", "target", "ids"),
    [
        ([delete("i-1"), delete("i-2")], None, ("i-1", "i-2")),
        ([delete("i-1"), grow(9)], 9, ("i-1",)),
        ([DecreaseTargetSize(group=A, expected_target=5, target=4, reason="late"), delete("i-1")], 3, ("i-1",)),
    ],
)
def test_all_writes_to_a_group_are_saved_as_one(
    harness: WriteAheadHarness, actions: list[Action], target: int | None, ids: tuple[str, ...]
) -> None:
    harness.log.save(Memory(), actions, Settings())
    assert (harness.saved()[A].target, harness.saved()[A].instance_ids) == (target, ids)


def test_a_write_that_starts_late_is_saved_anew(harness: WriteAheadHarness) -> None:
    harness.log.save(Memory(), [grow(3)], Settings())
    harness.clock.sleep(START_SECONDS - 1)
    harness.log.cover(grow(3), Settings())
    assert harness.saved()[A].until == 1000 + LASTS
    harness.clock.sleep(0.5)
    harness.log.cover(grow(3), Settings())
    assert harness.saved()[A].until == harness.clock.now() + LASTS


def test_deletions_that_follow_one_another_are_saved_together(harness: WriteAheadHarness) -> None:
    harness.log.cover(delete("i-1"), Settings(), soon=["i-1", "i-2"])
    first = harness.saved()
    assert first[A].instance_ids == ("i-1", "i-2")
    harness.clock.sleep(5)
    harness.log.cover(delete("i-2"), Settings(), soon=["i-2", "i-3"])
    assert harness.saved() == first
    harness.log.cover(delete("i-3"), Settings(), soon=["i-3"])
    assert harness.saved()[A].instance_ids == ("i-3",)


def test_what_cannot_be_saved_is_not_covered(harness: WriteAheadHarness) -> None:
    harness.store.fail = True
    with pytest.raises(NodewrightError):
        harness.log.cover(grow(3), Settings())
    assert "the saved state covers no write" in harness.gate.why_not(A, 60.0)


def test_after_an_orderly_end_nothing_is_under_way(harness: WriteAheadHarness) -> None:
    harness.log.save(Memory(withdrawn_at={A: 5.0}), [grow(3)], Settings())
    harness.log.end()
    assert harness.saved() == {}
    assert harness.store.load().memory.withdrawn_at == {A: 5.0}


def test_an_orderly_end_leaves_what_a_former_leader_may_have_under_way(harness: WriteAheadHarness) -> None:
    b, theirs = GroupRef("p", "b"), WriteInFlight(until=1060.0, seconds=LASTS, target=7)
    harness.log.save(Memory(writes_in_flight={b: theirs}), [grow(3)], Settings())
    harness.clock.sleep(START_SECONDS)
    harness.log.cover(grow(4), Settings())
    assert harness.saved().keys() == {A, b}
    harness.log.end()
    assert harness.saved() == {b: theirs}
    harness.log.save(Memory(), [], Settings())
    harness.log.end()
    assert harness.saved() == {}
