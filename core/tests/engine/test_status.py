"""One report for a running engine, a simulation and a saved state."""

from nodewright.actuation import Pause
from nodewright.actuation.write_gate import ClusterLimits
from nodewright.clusterstate.memory import ArrivalHistory, Backoff, Memory, MoveMemory, ScaleDownMemory, ScaleUpRequest
from nodewright.engine.status import Detection, make_status
from nodewright.model.capability import Capability
from nodewright.model.disruption import DisruptionReason
from nodewright.model.move import Addition, Move
from nodewright.model.removal import NodeRemoval, RemovalReason, RemovalStage, Removing
from nodewright.testkit.world import NOW, World, ref

A, B = ref("a"), ref("b")


def test_every_group_that_anything_is_known_of_is_there() -> None:
    world = World()
    world.add_group("a", 2)
    memory = world.state().memory
    forgotten = Memory(
        last_known=memory.last_known,
        backoffs={B: Backoff(until=NOW + 9, duration=300, last_failure=NOW)},
        deletions={(ref("c"), "i"): NOW},
        late=frozenset({(ref("d"), "i")}),
    )
    report = make_status(forgotten, NOW)
    assert [group.ref for group in report.groups] == [A, B, ref("c"), ref("d")]
    assert (report.groups[0].target, report.groups[1].target, report.groups[1].detection) == (2, None, None)


def test_how_failures_are_found() -> None:
    world = World()
    fast = Capability.FAST_FAILURE_DETECTION
    world.add_group("a", 1, capabilities=frozenset({fast}))
    world.add_group("b", 1)
    memory = world.state().memory
    found = [group.detection for group in make_status(memory, NOW).groups]
    assert found == [
        Detection(fast=True, timeout=900.0),
        Detection(fast=False, timeout=900.0, why_not="the provider does not report failures"),
    ]
    learned = Memory(last_known=memory.last_known, arrivals={A: ArrivalHistory(held=90.0), B: ArrivalHistory()})
    timeouts = [group.detection for group in make_status(learned, NOW).groups]
    assert [(d.timeout, d.learned) for d in timeouts if d is not None] == [(90.0, True), (900.0, False)]


def test_what_is_over_is_left_out() -> None:
    memory = Memory(
        backoffs={A: Backoff(until=NOW - 1, duration=300, last_failure=NOW)},
        deletions={(A, "old"): NOW - 1200, (A, "new"): NOW - 1199},
        deletion_window=1200.0,
        requests={A: (ScaleUpRequest(increase=2, started=NOW, deadline=NOW + 1),)},
    )
    report = make_status(memory, NOW, pause=Pause(since=0, until=NOW), limits=ClusterLimits(of_others=10))
    (group,) = report.groups
    assert (report.pause, group.backoff) == (None, None)
    assert (report.deletions.used, group.deleted, report.deletions.limit) == (1, 1, 10)
    assert group.requests == memory.requests[A]
    assert make_status(memory, NOW, pause=Pause(since=0, until=NOW + 1)).pause is not None


def test_a_group_that_must_prove_itself_is_on_probation() -> None:
    over = Backoff(until=NOW - 1, duration=300, last_failure=NOW - 301, delivered=1)
    memory = Memory(backoffs={A: over, B: Backoff(until=NOW, duration=300, last_failure=NOW - 300)})
    assert [group.probation for group in make_status(memory, NOW).groups] == [2, None]


def test_when_the_next_instance_without_a_node_is_given_up() -> None:
    world = World()
    world.add_group("a", 1)
    since = {(A, "late"): NOW - 1000, (A, "new"): NOW - 10, (A, "next"): NOW - 20, (B, "unknown"): NOW}
    memory = Memory(last_known=world.state().memory.last_known, unregistered_since=since, late=frozenset({(A, "late")}))
    assert [group.next_late for group in make_status(memory, NOW).groups] == [NOW + 880, None]


def test_what_scale_down_knows_is_told() -> None:
    known = ScaleDownMemory(unneeded_since={"n": NOW - 60}, quarantined_until={A: NOW + 60, B: NOW})
    report = make_status(Memory(scale_down=known), NOW)
    assert report.unneeded == {"n": NOW - 60}
    assert [group.quarantined_until for group in report.groups] == [NOW + 60, None]


def test_moves_under_way_are_told() -> None:
    move = Move(
        id="m",
        reason=DisruptionReason.REPLACED,
        sources=("n",),
        added=(Addition(group=A, nodes=2),),
        started=NOW,
        deadline=NOW + 60,
        savings=0.5,
        score=1.25,
    )
    report = make_status(Memory(moves=MoveMemory(under_way={"m": move})), NOW)
    assert report.moves == (move,)
    text = f"Move m (proposed) gives up node n for new nodes (2 of group {A}): saves $0.5000 an hour, score 1.25"
    assert move.describe() == text


def test_removals_under_way_are_told_the_oldest_first() -> None:
    removals = [
        NodeRemoval(node=name, group=A, instance_id=name, reason=RemovalReason.EMPTY) for name in ("new", "old")
    ]
    going = [
        Removing(removal=removal, stage=RemovalStage.DRAINING, started=NOW - ago)
        for removal, ago in zip(removals, (10, 20), strict=True)
    ]
    report = make_status(Memory(), NOW, removing=going)
    assert [held.removal.node for held in report.removing] == ["old", "new"]


def test_machines_that_are_there_and_no_nodes_end_with_their_own_clock_not_with_their_request() -> None:
    """Part of a request that is overdue and has instances is still waited for; so is what was asked for later."""
    world = World()
    world.add_group("a", 1)
    overdue = ScaleUpRequest(increase=2, started=NOW - 1000, deadline=NOW - 100)
    later = ScaleUpRequest(increase=2, started=NOW - 300, deadline=NOW + 600)
    since = {(A, f"i-{n}"): NOW - 400 + 100 * n for n in range(3)}
    known = world.state().memory.last_known
    memory = Memory(last_known=known, unregistered_since=since, requests={A: (overdue, later)})
    (group,) = make_status(memory, NOW).groups
    ends = [(request.increase, request.deadline) for request in group.requests]
    assert ends == [(2, NOW + 500), (1, NOW + 700), (1, NOW + 600)]
