"""Events are made from state, plan and outcomes, with CA's reasons."""

from dataclasses import replace

import msgspec

from nodewright.actuation import loop_events, violation_events
from nodewright.actuation.cloud_writes import WriteOutcome
from nodewright.clusterstate.memory import Memory
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.action import DecreaseTargetSize, DeleteInstances, Done, Failed, IncreaseSize, Unknown
from nodewright.model.disruption import DisruptionReason
from nodewright.model.group import ErrorClass, FailedInstance, GroupRef
from nodewright.model.move import Addition, Move, MoveStage, RejectedMove
from nodewright.model.plan import Expansion, MixCost, Plan, PlannedNode, ScaleUpReport
from nodewright.model.reason import Rejection, ScaleUpResult, SkipCode, SkipReason, Unhelped
from nodewright.snapshot.observation import GroupSeen, Observation
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit import build_group, build_pod
from nodewright.validate import PlanViolation

A, B, C = (GroupRef("p", name) for name in "abc")
GROW = IncreaseSize(group=A, expected_target=1, target=3, pods=("default/web",))
EXPANSION = Expansion(group=A, current=1, target=3, maximum=9)
REPORT = ScaleUpReport(result=ScaleUpResult.SUCCESSFUL, expansions=(EXPANSION,), triggered=(build_pod("web"),))


def state(*, new_failures: tuple[FailedInstance, ...] = (), timed_out: int = 0) -> ClusterState:
    seen = GroupSeen(ref=A, group=build_group("a"))
    group = GroupState(seen=seen, new_failures=new_failures, timed_out=timed_out)
    return ClusterState(observation=Observation(now=0.0, snapshot=Snapshot()), memory=Memory(), groups={A: group})


def events(
    plan: Plan | None = None, *outcomes: WriteOutcome, of: ClusterState | None = None
) -> list[tuple[str, str, str]]:
    drawn = loop_events(of or state(), plan or Plan(), outcomes)
    return [(event.type, event.reason, event.message) for event in drawn]


def test_a_quiet_loop_says_nothing() -> None:
    assert events() == []


def test_a_scale_up_tells_the_group_and_its_pods() -> None:
    assert events(Plan(actions=(GROW,), scale_up=REPORT), Done(action=GROW, started=0.0, accepted=2)) == [
        ("Normal", "ScaledUpGroup", "Scale-up: group p/a size set to 3 instead of 1 (max: 9)"),
        ("Normal", "TriggeredScaleUp", "pod triggered scale-up: [{p/a 1->3 (max: 9)}]"),
    ]


def test_an_event_of_a_pod_names_its_controller() -> None:
    triggered = tuple(build_pod(name, owner=("ReplicaSet", "web-1")) for name in ("a", "b"))
    plan = Plan(scale_up=replace(REPORT, triggered=triggered))
    drawn = list(loop_events(state(), plan, [Done(action=GROW, started=0.0, accepted=2)]))
    owner = triggered[0].metadata.controller
    assert owner is not None
    assert [(event.name, event.controller) for event in drawn[1:]] == [("default/a", owner), ("default/b", owner)]


def test_a_mix_tells_its_price_beside_the_bound() -> None:
    web = build_pod("web")
    cost = MixCost(price=2.0, bound=1.9, is_cut=True)
    mixed = replace(REPORT, expander="least-cost", cost=cost, nodes=(PlannedNode(group=A, pods=(web,)),) * 2)
    said = events(Plan(actions=(GROW,), scale_up=mixed), Done(action=GROW, started=0.0, accepted=2))
    message = (
        "least-cost chose 2 new nodes for 2 pods, at 2.000 USD an hour, where the lower bound is 1.900; "
        "its time (--least-cost-budget) was up"
    )
    assert ("Normal", "ScaleUpCost", message) in said
    assert not [one for one in events(Plan(scale_up=mixed)) if one[1] == "ScaleUpCost"]
    # A bound of more pods than got a place is left out.
    more = Plan(actions=(GROW,), scale_up=replace(mixed, cost=MixCost(price=2.0, bound=None)))
    assert not [one for one in events(more, Done(action=GROW, started=0.0, accepted=2)) if "bound" in one[2]]


def test_partial_acceptance_tells_the_size_that_was_accepted() -> None:
    said = events(Plan(actions=(GROW,), scale_up=REPORT), Done(action=GROW, started=0.0, accepted=1))
    assert said[0][2] == "Scale-up: group p/a size set to 2 instead of 1 (max: 9)"


def test_a_refused_scale_up_triggers_no_pod_and_gives_no_reasons() -> None:
    report = replace(REPORT, unhelped=(Unhelped(pod=build_pod("other"), reasons={}),))
    refused = Failed(action=GROW, started=0.0, code="outOfResources", message="none left")
    assert events(Plan(actions=(GROW,), scale_up=report), refused) == [
        ("Warning", "FailedToScaleUpGroup", "Scale-up failed for group p/a: none left")
    ]


def test_a_scale_up_without_an_answer_warns() -> None:
    said = events(Plan(scale_up=REPORT), Unknown(action=GROW, started=0.0, message="silence"))
    assert [(kind, reason) for kind, reason, _ in said] == [("Warning", "FailedToScaleUpGroup")]


def test_reasons_are_counted_over_groups() -> None:
    rejection = Rejection(predicate="NodeResourcesFit", reasons=("Insufficient cpu",))
    skipped = SkipReason(code=SkipCode.MAX_SIZE, message="max node group size reached")
    unhelped = Unhelped(pod=build_pod("web"), reasons={A: rejection, B: skipped, C: rejection})
    report = ScaleUpReport(result=ScaleUpResult.NO_OPTIONS, unhelped=(unhelped,))
    expected = "pod didn't trigger scale-up: 2 Insufficient cpu, 1 max node group size reached"
    assert events(Plan(scale_up=report)) == [("Normal", "NotTriggerScaleUp", expected)]


def test_the_node_limit_is_the_reason_for_every_pod() -> None:
    report = ScaleUpReport(result=ScaleUpResult.NODE_LIMIT, unhelped=(Unhelped(pod=build_pod("web"), reasons={}),))
    assert [reason for _, reason, _ in events(Plan(scale_up=report))] == [
        "MaxNodesTotalReached",
        "NotTriggerScaleUp",
    ]


def test_failures_are_told_per_kind_with_few_messages() -> None:
    failures = tuple(
        FailedInstance(failure_id=f"f{n}", error_class=ErrorClass.QUOTA, code="Q", message=f"m{n % 5}")
        for n in range(6)
    )
    said = events(of=state(new_failures=failures))
    expected = "Failed adding 6 nodes to group p/a due to quota.Q; source errors: m0, m1, m2, ..."
    assert said == [("Warning", "ScaleUpFailed", expected)]


def test_a_timeout_tells_how_many_and_how_long() -> None:
    expected = "2 nodes added to group p/a failed to register within 15m"
    assert events(of=state(timed_out=2)) == [("Warning", "ScaleUpTimedOut", expected)]


def test_corrections_tell_only_what_went_wrong_or_was_removed() -> None:
    withdraw = DecreaseTargetSize(group=A, expected_target=3, target=2, reason="late")
    remove = DeleteInstances(group=A, expected_target=3, instance_ids=("i-1",), reason="long unregistered")
    cleanup = DeleteInstances(group=A, expected_target=3, instance_ids=("i-2",), failure_ids=("f",), reason="failed")
    done = [Done(action=action, started=0.0, accepted=1) for action in (withdraw, remove, cleanup)]
    assert [reason for _, reason, _ in events(None, *done)] == ["DeleteUnregistered"]
    failed = [Failed(action=a, started=0.0, code="x", message="no") for a in (withdraw, remove, cleanup)]
    assert [reason for _, reason, _ in events(None, *failed)] == [
        "FailedToRevertScaleUp",
        "DeleteUnregisteredFailed",
        "CleanUpFailed",
    ]


def test_moves_are_told_from_their_begin_to_their_end_and_why_the_best_one_is_not_made() -> None:
    move = Move(
        id="m",
        reason=DisruptionReason.REPLACED,
        sources=("a-0",),
        added=(Addition(group=GroupRef("p", "b"), nodes=2),),
        started=0.0,
        deadline=1.0,
        savings=0.5,
        score=2.0,
    )
    old = msgspec.structs.replace(move, reason=DisruptionReason.EXPIRED)
    over = msgspec.structs.replace(move, stage=MoveStage.ABANDONED, why="no room")
    done = msgspec.structs.replace(move, stage=MoveStage.DONE)
    rejected = RejectedMove(sources=("a-0", "a-1"), savings=0.1, why="its score is 0.30, below 0.5")
    told = events(Plan(moves=(move, old, over, done), rejected_move=rejected))
    assert [one[1:] for one in told] == [
        (
            "ConsolidationApproved",
            "Move m gives up node a-0 for new nodes (2 of group p/b); it saves $0.5000 an hour, score 2.00",
        ),
        ("MoveStarted", "Move m gives up node a-0 for new nodes (2 of group p/b) (expired)"),
        ("MoveAbandoned", "Move m of node a-0 was abandoned: no room"),
        ("MoveDone", "Move m removed node a-0"),
        (
            "ConsolidationRejected",
            "Replacing 2 nodes would save $0.1000 an hour, and is not done: its score is 0.30, below 0.5",
        ),
    ]


def test_a_halted_plan_says_why() -> None:
    assert events(Plan(halted="too many nodes are not ready")) == [
        ("Warning", "ClusterUnhealthy", "too many nodes are not ready")
    ]


def test_a_dropped_action_alerts() -> None:
    (alert,) = violation_events([PlanViolation(GROW, "beyond the maximum of 2")])
    assert (alert.reason, alert.type) == ("PlanViolation", "Warning")
    assert "p/a" in alert.message
    assert "beyond the maximum of 2" in alert.message
