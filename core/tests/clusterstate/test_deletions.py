"""Which machines ran: the fold watches them from their beginning, and across what it remembers."""

from nodewright.clusterstate.deletions import recent_deletions
from nodewright.clusterstate.state import Memory
from nodewright.model.group import Instance, InstanceState
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
    assert before.never_ran == frozenset()  # it was there at first sight: nobody knows what it was before
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
    as_ca = with_instances(memory=memory).state(settings_with(profile="ca")).memory
    assert (as_ca.deletions, as_ca.deletion_window) == ({}, 0.0)
