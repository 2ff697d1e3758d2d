"""What is remembered of deletions."""

from collections.abc import Sequence

import pytest

from nodewright.clusterstate.deletions import recent_deletions, verify_deletions
from nodewright.clusterstate.memory import Memory, ScaleDownMemory
from nodewright.model.action import DeleteInstances, Done, Failed, Outcome, Unknown
from nodewright.model.group import GroupRef, Instance, InstanceState, NodeGroup
from nodewright.snapshot.observation import GroupSeen
from nodewright.testkit import build_node
from nodewright.testkit.world import NOW, World, ref, settings_with

G = ref("g")


I1, I2 = "cloud:///g/new-1", "cloud:///g/new-2"


def with_instances(*instances: Instance, memory: Memory | None = None, nodes: tuple[str, ...] = ()) -> World:
    world = World(memory=memory or Memory())
    world.add_group("g", 0, target=len(instances), instances=instances)
    world.nodes += [build_node(f"n-{instance_id[-1]}", provider_id=instance_id) for instance_id in nodes]
    return world


def running(*ids: str) -> list[Instance]:
    return [Instance(id=instance_id) for instance_id in ids]


def test_a_machine_that_appears_while_watched_never_ran() -> None:
    before = with_instances(*running(I1)).state().memory
    assert before.never_ran == frozenset()  # it was there at first sight: its past is unknown
    after = with_instances(*running(I1, I2), memory=before).state().memory
    assert after.never_ran == {(G, I2)}
    assert with_instances(*running(I1, I2), memory=after).state().memory.never_ran == {(G, I2)}


def test_one_that_is_being_created_never_ran() -> None:
    instances = (Instance(id=I1, state=InstanceState.CREATING), Instance(id=I2))
    assert with_instances(*instances).state().memory.never_ran == {(G, I1)}


def test_one_that_loses_its_node_did_run() -> None:
    none = with_instances().state().memory
    young = with_instances(*running(I1), memory=none).state().memory
    assert young.never_ran == {(G, I1)}
    joined = with_instances(*running(I1), memory=young, nodes=(I1,)).state().memory
    assert joined.never_ran == frozenset()
    left = with_instances(*running(I1), memory=joined).state().memory
    assert left.unregistered_since == {(G, I1): NOW}
    assert left.never_ran == frozenset()


def test_deletions_count_for_as_long_as_the_window() -> None:
    held = {(G, "a"): 100.0, (G, "b"): 400.0}
    assert recent_deletions(held, 600, 699) == held
    assert recent_deletions(held, 600, 700) == {(G, "b"): 400.0}
    assert recent_deletions(held, 0, 400) == {}


def test_the_fold_carries_deletions() -> None:
    memory = Memory(deletions={(G, "a"): NOW - 599, (G, "b"): NOW - 600})
    assert with_instances(memory=memory).state().memory.deletions == {(G, "a"): NOW - 599}


def test_the_fold_remembers_for_how_long_deletions_count() -> None:
    memory = Memory(deletions={(G, "a"): NOW - 599, (G, "b"): NOW - 600})
    longer = with_instances(memory=memory).state(settings_with(deletion_window=3600.0)).memory
    assert (longer.deletions, longer.deletion_window) == (memory.deletions, 3600.0)
    ca_memory = with_instances(memory=memory).state(settings_with(profile="ca")).memory
    assert (ca_memory.deletions, ca_memory.deletion_window) == ({}, 0.0)


A = GroupRef("cloud", "a")


AT = 1000.0


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
    found = verify_deletions(memory, {A: now}, outcomes, (), AT)
    assert found.memory.quarantined_until.keys() == found.vanished.keys()
    return found.vanished.get(A, ())


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        (Done(action=OURS, started=AT - 5, accepted=1), True),
        (Unknown(action=OURS, started=AT - 5, message="timed out"), True),
        (Failed(action=OURS, started=AT - 5, code="AccessDenied", message="no"), False),
    ],
)
def test_every_deletion_is_looked_after_whatever_for(outcome: Outcome, counts: bool) -> None:
    before, now = group("i-0", "i-1", "i-2", target=3), group("i-0", target=2)
    assert vanished(before, now, [outcome]) == (("i-1",) if counts else ())


def test_ours_may_go_and_so_may_nothing() -> None:
    done = Done(action=OURS, started=AT - 5, accepted=1)
    assert vanished(group("i-0", "i-2", target=2), group("i-0", target=1), [done]) == ()
    assert vanished(group("i-0", "i-2", target=2), group("i-0", "i-2", target=1), [done]) == ()


def test_while_ours_is_leaving_every_loss_counts() -> None:
    before = group("i-0", "i-1", target=2, leaving=["i-2"])
    assert vanished(before, group("i-0", target=1), (), watched=AT - 60) == ("i-1",)


@pytest.mark.parametrize(("target", "counts"), [(1, True), (2, False), (3, False)])
def test_later_only_a_loss_for_the_target_counts(target: int, counts: bool) -> None:
    """The target was below the machines that were there, or an operator took one away by hand."""
    before, now = group("i-0", "i-1", target=target), group("i-0", target=1)
    assert vanished(before, now, (), watched=AT - 299) == (("i-1",) if counts else ())
    assert vanished(before, now, (), watched=AT - 301) == ()
