"""The order of phases, and what ends a loop early."""

from typing import Any

import pytest
from msgspec.structs import replace

from nodewright.clusterstate.memory import Memory, ScaleUpRequest
from nodewright.engine.daemon import BatchWindow, Scope
from nodewright.engine.report import LoopReport
from nodewright.model.action import DeleteInstances, DeletionCause, Done, Failed, IncreaseSize
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.errors import InvariantError, KubeApiError, NodewrightError, OutOfCapacity, ProviderUnavailable
from nodewright.model.group import GroupRef
from nodewright.model.meta import ObjectMeta
from nodewright.model.plan import Plan, ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.model.reason import Unhelped
from nodewright.model.settings import LoopSettings, Settings
from nodewright.testkit import build_pod
from nodewright.validate import PlanViolation

A = GroupRef("p", "a")
GROW = IncreaseSize(group=A, expected_target=1, target=3)


def test_intent_is_saved_before_anything_is_written(harness: Any) -> None:
    harness.plans = [Plan(actions=(GROW,))]
    report = harness.engine().run_once()
    assert harness.order == ["read", "refresh", "plan", "save", "increase a 1 3"]
    assert isinstance(report.outcomes[0], Done)
    (request,) = harness.saved[0].requests[A][-1:]
    assert (request.increase, request.started, request.deadline) == (2, 1000.0, 1900.0)
    assert (report.started, report.finished, report.problem) == (1000.0, 1000.0, "")


def test_a_loop_is_known_by_its_name_before_it_runs(harness: Any) -> None:
    """Its lines in the log bear it."""
    engine = harness.engine()
    names = [(engine.next_loop, engine.run_once().loop) for _ in range(2)]
    assert all(before == after for before, after in names)
    assert len({name for pair in names for name in pair}) == 2


def test_a_look_for_failures_that_finds_none_leaves_all_writes_to_the_next_loop(harness: Any) -> None:
    """What pods lack by then may be due to others that are about to be planned."""
    harness.plans = [Plan(actions=(GROW,)), Plan(actions=(GROW,))]
    engine = harness.engine()
    assert engine.run_once(Scope.LOOK).outcomes == ()
    assert harness.target == 1
    assert isinstance(engine.run_once().outcomes[0], Done)


def test_pods_that_wait_are_left_whatever_a_later_report_says_about_others() -> None:
    pod, member = build_pod("waits"), build_pod("member")
    grow = GROW
    first, refusal = ScaleUpReport(awaiting=(pod,)), ScaleUpReport(unhelped=(Unhelped(pod=member, reasons={}),))

    def leaves_pods(*salvo: ScaleUpReport) -> bool:
        plan = Plan(scale_up=first, salvo=salvo)
        done = Done(action=grow, started=0.0, accepted=1)
        return LoopReport(started=0.0, finished=0.0, plan=plan, outcomes=(done,)).leaves_pods

    assert leaves_pods()
    assert leaves_pods(refusal)
    assert not leaves_pods(ScaleUpReport(triggered=(pod,)), refusal)


def test_a_loop_for_known_pods_writes_and_leaves_pods_that_came_since(harness: Any) -> None:
    """A pod that was made again with its name is another one; one without uid is known by its name.

    One that kube-scheduler had not tried yet by then is new, too.
    """
    known, new, again = build_pod("known"), build_pod("new"), _with_uid(build_pod("known"), "another")
    nameless = _with_uid(build_pod("nameless"), "")
    engine = harness.engine()
    harness.pending = (known, nameless, build_pod("untried", unschedulable=False))
    engine.run_once()
    harness.pending = (known, nameless, build_pod("untried"), new, again)
    harness.plans = [Plan(actions=(GROW,))]
    report = engine.run_once(Scope.KNOWN)
    assert isinstance(report.outcomes[0], Done)
    assert report.state is not None
    assert report.state.observation.pending == (known, nameless)
    report = engine.run_once()
    assert report.state is not None
    assert report.state.observation.pending == harness.pending


def _with_uid(pod: Pod, uid: str) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, uid=uid))


class Wall:
    """A clock that people set."""

    def __init__(self, at: float) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def test_a_clock_that_is_set_back_makes_nothing_wait_until_it_is_there_again(harness: Any) -> None:
    harness.clock = Wall(100_000.0)
    harness.plans = [Plan(actions=(GROW,))]
    engine = harness.engine()
    engine.run_once()
    harness.clock.at = 5_000.0
    engine.run_once()  # learns how the call of the first one ended
    engine.run_once()
    assert {(one.started, one.deadline) for one in harness.saved[-1].requests[A]} == {(5_000.0, 5_900.0)}


def test_a_failed_save_means_no_write(harness: Any) -> None:
    harness.plans = [Plan(actions=(GROW,))]
    harness.save_error = KubeApiError("the API server is away", retryable=True)
    report = harness.engine().run_once()
    assert harness.order[-1] == "save"
    assert harness.target == 1
    assert report.outcomes == ()
    assert "the API server is away" in report.problem
    assert not report.is_settled


def test_a_cluster_that_cannot_be_read_skips_the_loop(harness: Any) -> None:
    harness.read_error = KubeApiError("down", retryable=True)
    engine = harness.engine()
    report = engine.run_once()
    assert (harness.order, report.state, report.plan) == (["read"], None, None)
    harness.read_error = None
    assert engine.run_once().problem == ""


def test_outcomes_wait_for_the_next_loop_that_can_read(harness: Any) -> None:
    harness.plans = [Plan(actions=(GROW,))]
    harness.refusal = OutOfCapacity("none left")
    engine = harness.engine()
    engine.run_once()
    harness.read_error = KubeApiError("down", retryable=True)
    engine.run_once()
    harness.read_error = None
    engine.run_once()
    assert harness.states[-1].groups[A].backoff.code == "outOfResources"


def test_a_picture_with_a_problem_is_planned_for_and_not_acted_upon(harness: Any) -> None:
    harness.plans = [Plan(actions=(GROW,))]
    harness.problem = "the watch is behind"
    report = harness.engine().run_once()
    assert (harness.target, report.problem, report.outcomes) == (1, "the watch is behind", ())


def test_an_outcome_reaches_the_next_fold(harness: Any) -> None:
    harness.plans = [Plan(actions=(GROW,))]
    engine = harness.engine()
    engine.run_once()
    harness.clock.sleep(10.0)
    engine.run_once()
    assert harness.states[1].groups[A].requests
    assert "refresh a" in harness.order


def test_a_refused_call_backs_off_and_starts_the_next_loop_at_once(harness: Any) -> None:
    harness.plans = [Plan(actions=(GROW,))]
    harness.refusal = OutOfCapacity("none left")
    harness.call_seconds = 3.0
    engine = harness.engine()
    report = engine.run_once()
    assert isinstance(report.outcomes[0], Failed)
    assert engine.next_loop_at(report) == report.finished == 1003.0
    assert engine.next_loop_at(engine.run_once()) == 1013.0
    assert [event.reason for event in harness.events] == ["FailedToScaleUpGroup"]


def test_a_loop_longer_than_the_interval_is_followed_at_once(harness: Any) -> None:
    harness.plans = [Plan(actions=(GROW,))]
    harness.call_seconds = 25.0
    engine = harness.engine()
    assert engine.next_loop_at(engine.run_once()) == 1025.0


def test_pods_that_another_group_helps_do_not_wait_for_the_scan_interval(harness: Any) -> None:
    left = ScaleUpReport(awaiting=(build_pod("left"),))
    harness.plans = [Plan(actions=(GROW,), scale_up=left), Plan(scale_up=left)]
    engine = harness.engine()
    report = engine.run_once()
    assert engine.next_loop_at(report) == report.finished
    report = engine.run_once()
    assert engine.next_loop_at(report) == report.finished + 10.0, "no group grew: nothing has changed"


def test_only_profile_ca_follows_work_with_two_loops_at_once(harness: Any) -> None:
    """As CA's loop trigger: it does not wait while one of the last two loops did something."""
    waits = {}
    for profile in ("nodewright", "ca"):
        harness.plans, harness.target = [Plan(), Plan(actions=(GROW,)), Plan(), Plan(), Plan()], 1
        engine = harness.engine()
        harness.settings = Settings(loop=LoopSettings(profile=profile))
        engine.use(harness.settings)
        reports = (engine.run_once() for _ in range(5))
        waits[profile] = [engine.next_loop_at(report) - report.finished for report in reports]
    assert waits == {"nodewright": [10.0] * 5, "ca": [10.0, 0.0, 0.0, 10.0, 10.0]}


def test_without_frequent_loops_or_as_ca_no_batch_is_gathered(harness: Any) -> None:
    engine = harness.engine()
    assert engine.batch_window() == BatchWindow(idle=1.0, longest=10.0)
    for without in (LoopSettings(profile="ca"), LoopSettings(frequent_loops_enabled=False)):
        engine.use(Settings(loop=without))
        assert engine.batch_window() == BatchWindow(idle=0.0, longest=0.0)


def test_a_rule_that_is_broken_drops_that_action_with_an_alert(harness: Any) -> None:
    harness.plans = [Plan(actions=(GROW,))]
    harness.violations = (PlanViolation(GROW, "beyond the maximum"),)
    report = harness.engine().run_once()
    assert harness.target == 1
    assert report.plan.actions == ()
    assert report.violations == harness.violations
    assert [event.reason for event in harness.events] == ["PlanViolation"]


def test_in_tests_a_broken_rule_ends_everything(harness: Any) -> None:
    harness.plans = [Plan(actions=(GROW,))]
    harness.violations = (PlanViolation(GROW, "beyond the maximum"),)
    with pytest.raises(InvariantError, match="beyond the maximum"):
        harness.engine(strict=True).run_once()


def test_memory_is_taken_over_at_the_start(harness: Any) -> None:
    request = ScaleUpRequest(increase=1, started=900.0, deadline=1800.0)
    engine = harness.engine(memory=Memory(requests={A: (request,)}))
    engine.run_once()
    assert harness.states[0].groups[A].requests == (request,)


def test_a_quiet_loop_is_settled_and_a_busy_or_troubled_one_is_not(harness: Any) -> None:
    engine = harness.engine()
    assert engine.run_once().is_settled
    harness.plans = [Plan(actions=(GROW,))]
    assert not engine.run_once().is_settled
    harness.target_size = _unavailable
    assert not engine.run_once().is_settled


def test_a_refusal_is_one_only_if_nothing_was_accepted() -> None:
    accepted = Done(action=GROW, started=0.0, accepted=1)
    refused = Failed(action=GROW, started=0.0, code="x", message="y")
    assert not LoopReport(started=0.0, finished=0.0, outcomes=(accepted,)).was_refused
    assert LoopReport(started=0.0, finished=0.0, outcomes=(accepted, refused)).was_refused


def test_any_other_error_is_a_bug_and_is_not_hidden(harness: Any) -> None:
    harness.save_error = NodewrightError("expected")
    assert harness.engine().run_once().problem
    harness.read_error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        harness.engine().run_once()


def _unavailable(group_id: str) -> int:
    raise ProviderUnavailable(group_id)


def test_planning_learns_how_long_it_has_taken(harness: Any) -> None:
    harness.engine().run_once()
    before = harness.states[-1].elapsed()
    harness.clock.sleep(7.0)
    assert harness.states[-1].elapsed() - before == 7.0


@pytest.mark.parametrize("problem", ["", "the API server has sent nothing about Node for 9m"])
def test_the_status_of_a_quota_is_written_unless_what_is_known_is_too_old(harness: Any, problem: str) -> None:
    """The desk refuses the write: it is told, and the loop goes on."""
    harness.plans = [Plan(actions=(GROW,), quotas=(CapacityQuota(metadata=ObjectMeta(name="q")),))]
    harness.problem = problem
    report = harness.engine().run_once()
    told = [(event.kind, event.name, event.reason) for event in harness.events if event.kind == "CapacityQuota"]
    assert told == ([] if problem else [("CapacityQuota", "q", "StatusNotWritten")])
    assert bool(report.outcomes) == (not problem)
    assert not report.is_settled


@pytest.mark.parametrize("error", [None, KubeApiError("no answer", retryable=True)])
def test_a_withheld_deletion_costs_no_budget(harness: Any, error: KubeApiError | None) -> None:
    gone = DeleteInstances(
        group=A, expected_target=1, instance_ids=("a-0",), cause=DeletionCause.UNREGISTERED, reason=""
    )
    harness.plans = [Plan(), Plan(actions=(gone,))]
    harness.list_error = error
    engine = harness.engine()
    reports = [engine.run_once() for _ in range(3)]
    assert [held.action for held in reports[1].plan.held_back] == ([] if error is None else [gone])
    assert list(harness.states[-1].memory.deletions) == ([(A, "a-0")] if error is None else [])
