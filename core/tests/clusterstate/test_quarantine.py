"""Which losses count against a deletion (registry/quarantine.py)."""

from collections.abc import Sequence

import pytest

from nodewright.clusterstate.quarantine import verify_deletions
from nodewright.clusterstate.state import Memory, ScaleDownMemory
from nodewright.model.action import DeleteInstances, Done, Failed, Outcome, Unknown
from nodewright.model.group import GroupRef, Instance, InstanceState, NodeGroup
from nodewright.snapshot.observation import GroupSeen

A = GroupRef("cloud", "a")
NOW = 1000.0
OURS = DeleteInstances(group=A, expected_target=3, instance_ids=("i-2",), reason="it never became a node")


def group(*running: str, target: int, leaving: Sequence[str] = ()) -> GroupSeen:
    instances = [Instance(id=name) for name in running]
    instances += [Instance(id=name, state=InstanceState.DELETING) for name in leaving]
    return GroupSeen(
        ref=A,
        group=NodeGroup(id="a", min_size=0, max_size=9),
        target=target,
        instances=tuple(instances),
        failed=(),
        capabilities=frozenset(),
    )


def vanished(before: GroupSeen, now: GroupSeen, outcomes: Sequence[Outcome], watched: float | None = None) -> object:
    known = {} if watched is None else {(A, "i-2"): watched}
    memory = Memory(last_known={A: before}, scale_down=ScaleDownMemory(watched=known))
    found = verify_deletions(memory, {A: now}, outcomes, (), NOW)
    assert found.memory.quarantined_until.keys() == found.vanished.keys()
    return found.vanished.get(A, ())


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        (Done(action=OURS, started=NOW - 5, accepted=1), True),
        (Unknown(action=OURS, started=NOW - 5, message="timed out"), True),
        (Failed(action=OURS, started=NOW - 5, code="AccessDenied", message="no"), False),
    ],
)
def test_every_deletion_is_looked_after_whatever_for(outcome: Outcome, counts: bool) -> None:
    before, now = group("i-0", "i-1", "i-2", target=3), group("i-0", target=2)
    assert vanished(before, now, [outcome]) == (("i-1",) if counts else ())


def test_ours_may_go_and_so_may_nothing() -> None:
    done = Done(action=OURS, started=NOW - 5, accepted=1)
    assert vanished(group("i-0", "i-2", target=2), group("i-0", target=1), [done]) == ()
    assert vanished(group("i-0", "i-2", target=2), group("i-0", "i-2", target=1), [done]) == ()


def test_while_ours_is_leaving_every_loss_counts() -> None:
    before = group("i-0", "i-1", target=2, leaving=["i-2"])
    assert vanished(before, group("i-0", target=1), (), watched=NOW - 60) == ("i-1",)


@pytest.mark.parametrize(("target", "counts"), [(1, True), (2, False), (3, False)])
def test_later_only_a_loss_for_the_target_counts(target: int, counts: bool) -> None:
    """The target was below the machines that were there, or somebody took one away by hand."""
    before, now = group("i-0", "i-1", target=target), group("i-0", target=1)
    assert vanished(before, now, (), watched=NOW - 299) == (("i-1",) if counts else ())
    assert vanished(before, now, (), watched=NOW - 301) == ()
