"""Failed creations that are believed, and writes of a former process."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace as changed

from nodewright.actuation import loop_events
from nodewright.adapters.store import decode_memory, encode_memory
from nodewright.clusterstate.clock_skew import without_future_times
from nodewright.clusterstate.memory import Memory, WriteInFlight
from nodewright.clusterstate.observed_groups import HELD, as_if_made, unsettled, with_held_groups
from nodewright.model.group import FailedInstance, GroupRef, Instance, InstanceState, NodeGroup
from nodewright.model.node import Node, NodeCondition
from nodewright.model.plan import Plan
from nodewright.snapshot.observation import GroupSeen, Observation, ProviderSeen
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit import build_node
from nodewright.testkit.world import NOW, World, ref, settings_with

G = ref("g")


I = "cloud:///g/1"  # noqa: E741 - an instance


REPORT = FailedInstance(failure_id="f-1", instance_id=I, code="ODD")


def with_status(status: str, seconds: float | None, provider_id: str = I) -> Node:
    """A node whose Ready condition is as it is since so many seconds after its creation."""
    node = build_node("n", provider_id=provider_id, created_at=NOW - 1000)
    since = None if seconds is None else datetime.fromtimestamp(NOW - 1000, UTC) + timedelta(seconds=seconds)
    said = NodeCondition(type="Ready", status=status, last_transition_time=since)
    return changed(node, status=changed(node.status, conditions=(said,)))


def reported(*nodes: Node, memory: Memory | None = None, **seen: Any) -> World:
    """A group of one machine, which the cloud calls failed."""
    world = World(memory=memory or Memory(), nodes=list(nodes))
    world.add_group("g", 0, **{"target": 1, "instances": (), "failed": (REPORT,), **seen})
    return world


@pytest.mark.parametrize(
    ("status", "seconds", "ran"),
    [
        ("True", 40.0, True),
        ("True", None, True),
        ("False", 600.0, True),
        ("Unknown", 600.0, True),
        ("False", None, True),
        ("False", 0.0, True),  # it never was ready: the rule for such nodes applies
        ("Unknown", 10.0, True),
        ("", None, False),
    ],
)
def test_a_machine_that_is_a_node_ran(status: str, seconds: float | None, ran: bool) -> None:
    nodes = (with_status(status, seconds),) if status else ()
    group = reported(*nodes).state().groups[G]
    assert bool(group.seen.disputed) == ran
    assert group.seen.failed == (() if ran else (REPORT,))
    assert group.seen.instances == ((Instance(id=I),) if ran else ())
    assert ("ODD" in {failure.code for failure in group.failures}) == (not ran)


def test_ids_compare_as_the_provider_says() -> None:
    world = reported(with_status("True", 40.0, provider_id=I.upper()))
    world.provider = ProviderSeen(name="cloud", ignores_id_case=True)
    assert world.state().groups[G].seen.disputed == (REPORT,)


def test_one_that_is_listed_still_is_listed_once_and_one_that_goes_is_let_go() -> None:
    node = with_status("True", 40.0)
    creating = (Instance(id=I, state=InstanceState.CREATING), Instance(id="cloud:///g/2"))
    group = reported(node, instances=creating, target=2).state().groups[G]
    assert set(group.seen.instances or ()) == {Instance(id=I), Instance(id="cloud:///g/2")}
    going = reported(node, instances=(Instance(id=I, state=InstanceState.DELETING),)).state().groups[G]
    assert going.seen.disputed == ()


@pytest.mark.parametrize("state", list(InstanceState))
def test_a_machine_of_another_group_stays_with_that_group(state: InstanceState) -> None:
    """It was counted in both, the other group missed a machine and was backed off."""
    world = reported(*((with_status("True", 40.0),) if state == InstanceState.RUNNING else ()), target=0)
    world.add_group("h", 0, target=1, instances=(Instance(id=I, state=state),), failed=())
    held = world.state()
    assert held.groups[G].seen.instances == ()
    assert held.groups[G].seen.failed == ()
    assert held.groups[G].seen.disputed == (REPORT,)
    assert not held.groups[G].failures
    assert held.groups[ref("h")].readiness.registered == (state == InstanceState.RUNNING)


def test_what_the_cloud_listed_as_running_ran() -> None:
    before = reported(instances=(Instance(id=I),), failed=()).state().memory
    assert reported(memory=before).state().groups[G].seen.disputed == (REPORT,)
    creating = reported(instances=(Instance(id=I, state=InstanceState.CREATING),), failed=()).state().memory
    assert reported(memory=creating).state().groups[G].seen.failed == (REPORT,)


@pytest.mark.parametrize("restarts", [True, False])
def test_that_it_ran_is_remembered_for_as_long_as_the_report_lasts(restarts: bool) -> None:
    memory = reported(with_status("True", 40.0)).state().memory
    for now, unread in ((NOW + 10, False), (NOW + 20, True), (NOW + 30, False)):
        memory = decode_memory(encode_memory(memory)) if restarts else memory
        world = reported(memory=memory)
        if unread:
            world.groups[G] = replace(world.groups[G], target=None, instances=None, failed=None)
        world.now = now
        memory = world.state().memory
        assert memory.ran == {(G, I)}
    assert reported(memory=memory, failed=()).state().memory.ran == frozenset()


def test_a_report_is_told_once_and_again_after_it_was_gone() -> None:
    def told(world: World) -> list[str]:
        return [event.reason for event in loop_events(world.state(), Plan(), ())]

    node = with_status("True", 40.0)
    first = reported(node)
    assert told(first) == ["RunningMachineReportedFailed"]
    memory = decode_memory(encode_memory(first.state().memory))
    assert told(reported(node, memory=memory)) == []
    healed = reported(node, memory=memory, instances=(Instance(id=I),), failed=()).state().memory
    assert told(reported(node, memory=healed)) == ["RunningMachineReportedFailed"]


@pytest.mark.parametrize("was_a_node", [True, False])
def test_a_machine_that_has_lost_its_node_is_not_waited_for(was_a_node: bool) -> None:
    """A running machine without a node is still on its way, under any name."""
    listed = (Instance(id=I, state=InstanceState.CREATING),)
    memory = reported(failed=(), instances=listed).state().memory
    node = (with_status("True", 40.0),) if was_a_node else ()
    memory = reported(*node, memory=memory, failed=(), instances=(Instance(id=I),)).state().memory
    group = reported(memory=memory).state().groups[G]
    assert group.readiness.unregistered == (I,)
    assert group.upcoming == (0 if was_a_node else 1)


def test_mode_ca_believes_the_cloud() -> None:
    world = reported(with_status("True", 40.0))
    assert world.state(settings_with(size_correction="ca")).groups[G].seen.failed == (REPORT,)


def test_what_is_remembered_of_a_whole_cluster_is_small() -> None:
    """15,000 machines that ran, all of them called failed: one id each, and nothing of their groups."""
    ids = [f"azure:///subscriptions/s/resourceGroups/r/g/virtualMachines/{n}" for n in range(15_000)]
    memory = Memory(ran=frozenset((G, instance_id) for instance_id in ids))
    assert len(encode_memory(memory)) < 15_000 * (len(ids[-1]) + 4)
    assert decode_memory(encode_memory(memory)) == memory


@pytest.mark.parametrize("status", ["True", "Unknown"])
def test_a_group_made_on_demand_is_not_empty_while_a_node_of_it_is_ready(status: str) -> None:
    """An empty listing alone does not have it deleted."""
    made = NodeGroup(id="g", min_size=0, max_size=9, autoprovisioned="big")
    before = reported(with_status("True", 40.0), instances=(Instance(id=I),), failed=())
    before.groups[G] = replace(before.groups[G], group=made)
    after = reported(with_status(status, 900.0), memory=before.state().memory, target=0, failed=())
    after.groups[G] = replace(after.groups[G], group=made)
    assert (G in after.state().memory.empty_since) == (status != "True")


AT = 1000.0


A, B = GroupRef("p", "a"), GroupRef("p", "b")


def group(ref: GroupRef, target: int | None, *ids: str, state: InstanceState = InstanceState.RUNNING) -> GroupSeen:
    instances = tuple(Instance(id=name, state=state) for name in ids) if target is not None else None
    made = NodeGroup(id=ref.group_id, min_size=0, max_size=9)
    return GroupSeen(ref=ref, group=made, target=target, instances=instances)


def seen(*groups: GroupSeen, now: float = AT) -> Observation:
    return Observation(now=now, snapshot=Snapshot(), groups={one.ref: one for one in groups})


def grows(target: int) -> WriteInFlight:
    return WriteInFlight(until=AT + 75, seconds=75, target=target)


DELETES = WriteInFlight(until=AT + 75, seconds=75, instance_ids=("i-1", "i-2"))


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
    assert unsettled({A: grows(3)}, seen(group(A, 2), now=AT + 74.9))
    assert not unsettled({A: grows(3)}, seen(group(A, 2), now=AT + 75))


def test_a_clock_that_was_set_back_holds_nobody_for_longer() -> None:
    late = WriteInFlight(until=AT + 86_400, seconds=75, target=3)
    kept = without_future_times(Memory(writes_in_flight={A: late, B: grows(1)}), AT).writes_in_flight
    assert (kept[A].until, kept[B].until) == (AT + 75, AT + 75)


def test_only_the_groups_of_writes_are_shut() -> None:
    found = with_held_groups(seen(group(A, 2, "i-1"), group(B, 1)), {A: grows(3)})
    assert (found.groups[A].is_known, found.groups[A].problem) == (False, HELD)
    assert found.groups[B].is_known
    untouched = seen(group(A, 2))
    assert with_held_groups(untouched, {}) is untouched


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
    assert with_held_groups(seen(broken), {A: grows(3)}).groups[A].problem == "no answer"
