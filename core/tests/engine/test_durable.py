"""What is saved before a call, and what keeps a call from being made."""

import math
from dataclasses import replace

import pytest
from core.tests.engine.conftest import EngineHarness

from nodewright.actuation import Pause
from nodewright.clusterstate.memory import Memory, ScaleUpRequest, WriteInFlight
from nodewright.engine.report import LoopReport
from nodewright.model.action import DeleteInstances, IncreaseSize
from nodewright.model.errors import NodewrightError
from nodewright.model.group import GroupRef, Instance, NodeGroup
from nodewright.model.plan import Plan
from nodewright.snapshot.observation import GroupSeen

A = GroupRef("p", "a")
INCREASE = IncreaseSize(group=A, expected_target=1, target=3, pods=("ns/p",))
DELETE = DeleteInstances(group=A, expected_target=1, instance_ids=("a-0",), reason="late")


def run(harness: EngineHarness, *actions: IncreaseSize | DeleteInstances) -> LoopReport:
    harness.plans = [Plan(actions=actions)]
    return harness.engine().run_once()


def test_an_increase_is_a_request_and_a_target_before_it_is_made(harness: EngineHarness) -> None:
    run(harness, INCREASE)
    assert harness.order[-2:] == ["save", "increase a 1 3"]
    (saved,) = harness.saved
    assert saved.requests[A][-1] == ScaleUpRequest(increase=2, started=1000.0, deadline=1900.0)
    assert saved.last_known[A].target == 3


def test_a_deletion_is_charged_before_it_is_made(harness: EngineHarness) -> None:
    engine = harness.engine()
    engine.run_once()
    harness.plans = [Plan(actions=(DELETE,))]
    report = engine.run_once()
    assert harness.saved[-1].deletions == {(A, "a-0"): 1000.0}
    assert report.state is not None
    assert report.state.memory.deletions == harness.saved[-1].deletions


def test_without_a_save_nothing_is_made_or_charged(harness: EngineHarness) -> None:
    engine = harness.engine()
    engine.run_once()
    harness.plans, harness.save_error = [Plan(actions=(DELETE, INCREASE))], NodewrightError("the disk is full")
    report = engine.run_once()
    assert report.problem == "NodewrightError: the disk is full"
    assert report.outcomes == ()
    assert "increase a 1 3" not in harness.order


def test_a_picture_that_cannot_be_trusted_leaves_no_intent(harness: EngineHarness) -> None:
    harness.problem = "half the nodes are missing"
    report = run(harness, INCREASE)
    assert "increase a 1 3" not in harness.order
    assert all(request.increase != 2 for request in harness.saved[-1].requests.get(A, ()))
    assert report.problem == "half the nodes are missing"


@pytest.mark.parametrize("until", [1000.0, 999.0])
def test_a_pause_in_the_past_is_ignored(harness: EngineHarness, until: float) -> None:
    harness.pause = Pause(since=0.0, until=until)
    assert len(run(harness, INCREASE).outcomes) == 1


def test_in_a_pause_the_plan_says_so_and_the_next_loop_is_due_at_its_end(harness: EngineHarness) -> None:
    harness.pause = Pause(since=900.0, until=1500.0)
    report = run(harness, INCREASE)
    assert report.plan is not None
    assert report.plan.paused == "paused until 1970-01-01T00:25:00Z"
    assert [held.action for held in report.plan.held_back] == [INCREASE]
    assert (report.outcomes, report.plan.actions, report.next_timer) == ((), (), 1500.0)
    assert "increase a 1 3" not in harness.order
    assert A not in harness.saved[-1].requests or harness.saved[-1].requests[A][-1].increase != 2


def test_a_pause_that_cannot_be_read_is_one(harness: EngineHarness) -> None:
    harness.pause = NodewrightError("state.json.pause: is damaged")
    report = run(harness, INCREASE)
    assert report.plan is not None
    assert report.plan.paused == "paused: state.json.pause: is damaged"
    assert report.outcomes == ()
    harness.pause = None
    assert len(run(harness, INCREASE).outcomes) == 1


def test_state_that_was_put_aside_is_told_once(harness: EngineHarness) -> None:
    harness.warning = "saved state s is not used"
    engine = harness.engine()
    engine.run_once()
    engine.run_once()
    assert [event.message for event in harness.events if event.reason == "StateNotUsable"] == [harness.warning]


def test_every_call_is_in_the_audit_under_its_loop(harness: EngineHarness) -> None:
    engine = harness.engine()
    engine.run_once()
    harness.plans = [Plan(actions=(INCREASE,))]
    engine.run_once()
    (record,) = harness.audit.records()
    assert (record.loop, record.request, record.outcome) == ("1000.000-2", "1000.000-2/1", "done")


OLD = Memory(requests={A: (ScaleUpRequest(increase=1, started=900.0, deadline=1800.0),)})
MACHINE = (A, "a-0")
ELSEWHERE = GroupRef("other", "a")


@pytest.mark.parametrize(
    ("memory", "wrote_last"),
    [
        (OLD, 900.0),
        (replace(OLD, deletions={MACHINE: 950.0}), 950.0),
        (replace(OLD, empty_deletions={MACHINE: 960.0}), 960.0),
        (replace(OLD, deletion_tried={MACHINE: 970.0}), 970.0),
        (replace(OLD, withdrawn_at={A: 980.0}), 980.0),
        (replace(OLD, writes_in_flight={A: WriteInFlight(until=990.0, seconds=75.0)}), 990.0),
        (replace(OLD, writes_in_flight={A: WriteInFlight(until=1060.0, seconds=75.0)}), 1000.0),
        (replace(OLD, writes_in_flight={ELSEWHERE: WriteInFlight(until=1060.0, seconds=75.0)}), 900.0),
        (replace(OLD, requests={}, empty_since={A: 5.0}), -math.inf),
    ],
)
def test_saved_state_tells_a_provider_when_the_former_process_wrote_last(
    harness: EngineHarness, memory: Memory, wrote_last: float
) -> None:
    harness.engine(memory=memory)
    assert harness.wrote_last == wrote_last


@pytest.mark.parametrize("named", [frozenset(), frozenset({A})])
def test_without_saved_state_the_former_process_may_have_written_just_now(
    harness: EngineHarness, named: frozenset[GroupRef]
) -> None:
    harness.engine(memory=Memory(named=named))
    assert harness.wrote_last == 1000.0


def test_a_group_of_which_only_the_size_was_saved_is_not_taken_for_known(harness: EngineHarness) -> None:
    """Its machines were not saved: with the size alone every one of them would count as upcoming."""
    group = NodeGroup(id="a", min_size=0, max_size=9)
    memory = Memory(last_known={A: GroupSeen(ref=A, group=group, target=5)})
    harness.unreadable = True
    report = harness.engine(memory=memory).run_once()
    assert report.state is not None
    state = report.state.groups[A]
    assert (state.upcoming, state.requests) == (0, ())
    assert report.state.memory.last_known[A].target == 5


def test_a_group_whose_machines_were_saved_counts_until_it_can_be_read(harness: EngineHarness) -> None:
    group = NodeGroup(id="a", min_size=0, max_size=9)
    request = ScaleUpRequest(increase=3, started=990.0, deadline=1890.0)
    seen = GroupSeen(ref=A, group=group, target=3, instances=(Instance(id="a-0"),))
    harness.unreadable = True
    waiting = {(A, "a-0"): 995.0}
    memory = Memory(last_known={A: seen}, requests={A: (request,)}, unregistered_since=waiting)
    report = harness.engine(memory=memory).run_once()
    assert report.state is not None
    assert (report.state.groups[A].upcoming, report.state.groups[A].requests) == (3, (request,))
