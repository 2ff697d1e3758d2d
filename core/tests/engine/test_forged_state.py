"""Saved state alone never permits a deletion: the observation must agree (docs/adr/0005-durable-state.md)."""

from random import Random

from core.tests.store.memories import memories
from hypothesis import given

from nodewright.actuation import WriteGate
from nodewright.adapters.store import decode_memory, encode_memory
from nodewright.clusterstate.clock_skew import without_future_times
from nodewright.clusterstate.memory import Memory
from nodewright.model.action import DecreaseTargetSize, DeleteInstances
from nodewright.model.group import Instance
from nodewright.model.plan import Plan
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright.testkit.world import NOW, World, ref
from nodewright.validate import check_actions

POOL = ref("pool")
NODES = tuple(f"cloud:///pool/{n}" for n in range(4))
BOOTING = ("cloud:///pool/b-0", "cloud:///pool/b-1")
FORGED = memories(refs=(POOL, ref("other"), ref("gone")), ids=(*NODES, *BOOTING, "cloud:///pool/never-was"))


def plan(memory: Memory, *, has_looked: bool) -> Plan:
    """What an engine does that finds this memory: four nodes, two machines that boot, and one more place."""
    world = World(memory=without_future_times(decode_memory(encode_memory(memory)), NOW))
    ids = (*NODES, *BOOTING)
    world.add_group("pool", 4, target=7, instances=tuple(Instance(id=instance_id) for instance_id in ids))
    world.add_group("other", 0)
    state = world.state()
    made, _ = make_plan(state, Settings(), Random(1))
    assert check_actions(state.observation, made.actions, Settings()) == ()
    return WriteGate(has_looked=has_looked).apply(made, state)[0]


@given(FORGED)
def test_at_first_sight_nothing_is_deleted(memory: Memory) -> None:
    assert not [action for action in plan(memory, has_looked=False).actions if isinstance(action, DeleteInstances)]


@given(FORGED)
def test_a_machine_with_a_node_is_never_deleted_and_no_other_is_made_up(memory: Memory) -> None:
    deletions = [action for action in plan(memory, has_looked=True).actions if isinstance(action, DeleteInstances)]
    assert {instance_id for action in deletions for instance_id in action.instance_ids} <= set(BOOTING)


@given(FORGED)
def test_only_what_has_no_machine_is_withdrawn(memory: Memory) -> None:
    for action in plan(memory, has_looked=True).actions:
        assert not isinstance(action, DecreaseTargetSize) or action.target == 6
