"""The next time at which a decision may change without an event."""

import dataclasses
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from nodewright.clusterstate.memory import Backoff, IncorrectSize, Memory, SampleNode, ScaleUpRequest
from nodewright.clusterstate.state import ClusterState, GroupState, Readiness
from nodewright.engine.timers import next_deadline, next_timer
from nodewright.model.action import DeleteInstances, IncreaseSize
from nodewright.model.group import GroupOptions, GroupRef, Instance
from nodewright.model.node import Node, NodeCondition
from nodewright.model.plan import HeldBack, Plan, ScaleDownReport, ScaleUpReport
from nodewright.model.reason import ScaleUpResult
from nodewright.model.settings import PodSettings, Settings
from nodewright.snapshot.observation import GroupSeen, Observation
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit import build_group, build_node, build_pod

A = GroupRef("p", "a")
SEEN = GroupSeen(
    ref=A,
    group=build_group("a"),
    target=1,
    instances=(Instance(id="i"),),
    options=GroupOptions(max_node_provision_seconds=600.0, max_node_startup_seconds=300.0),
)


def timer(group: GroupState | None = None, memory: Memory | None = None, nodes: tuple[Node, ...] = ()) -> float:
    return next_timer(cluster(group, memory, nodes), Plan(), Settings())


def cluster(group: GroupState | None, memory: Memory | None, nodes: tuple[Node, ...]) -> ClusterState:
    snapshot = Snapshot()
    snapshot.add_nodes(list(nodes))
    groups = {A: group or GroupState(seen=SEEN)}
    return ClusterState(observation=Observation(now=100.0, snapshot=snapshot), memory=memory or Memory(), groups=groups)


def ready_node(since: float) -> Node:
    node = build_node("n")
    moment = datetime.fromtimestamp(since, tz=UTC)
    condition = NodeCondition(type="Ready", status="True", last_transition_time=moment)
    return replace(node, status=replace(node.status, conditions=(condition,)))


def test_a_quiet_cluster_waits_for_ever() -> None:
    assert timer() == math.inf


def test_deadlines_of_requests() -> None:
    requests = tuple(ScaleUpRequest(increase=1, started=0.0, deadline=at) for at in (500.0, 400.0))
    assert timer(GroupState(seen=SEEN, requests=requests)) == 400.0


def test_the_end_of_a_backoff() -> None:
    backoff = Backoff(until=350.0, duration=300.0, last_failure=50.0)
    assert timer(GroupState(seen=SEEN, backoff=backoff)) == 350.0


def test_what_is_over_does_not_count() -> None:
    backoff = Backoff(until=99.0, duration=300.0, last_failure=50.0)
    assert timer(GroupState(seen=SEEN, backoff=backoff)) == math.inf


def test_a_deadline_of_this_moment_is_still_to_come() -> None:
    backoff = Backoff(until=100.0, duration=300.0, last_failure=50.0)
    assert timer(GroupState(seen=SEEN, backoff=backoff)) == 100.0


def test_an_instance_that_does_not_register() -> None:
    memory = Memory(unregistered_since={(A, "i"): 50.0})
    assert timer(GroupState(seen=SEEN, readiness=Readiness(unregistered=("i",))), memory) == 650.0


def test_a_node_that_does_not_start() -> None:
    node = build_node("n", ready=False, created_at=90.0)
    assert timer(GroupState(seen=SEEN, readiness=Readiness(not_started=("n",))), None, (node,)) == pytest.approx(390.0)


def test_a_node_that_will_show_what_the_next_is_like() -> None:
    readiness = Readiness(ready=("n",))
    assert timer(GroupState(seen=SEEN, readiness=readiness), None, (ready_node(80.0),)) == 140.0


def test_not_once_one_has_shown_it() -> None:
    node = ready_node(10.0)
    memory = Memory(samples={A: SampleNode(node=node)})
    assert timer(GroupState(seen=SEEN, readiness=Readiness(ready=("n",))), memory, (node,)) == math.inf


@pytest.mark.parametrize(("annotation", "expected"), [(None, 130.0), ("1m", 160.0), ("5s", 130.0), ("rubbish", 130.0)])
def test_a_pod_that_waits_out_a_delay(annotation: str | None, expected: float) -> None:
    annotations = {"cluster-autoscaler.kubernetes.io/pod-scale-up-delay": annotation} if annotation else {}
    pod = build_pod("p", created_at=100.0, annotations=annotations)
    settings = Settings(pods=PodSettings(new_pod_scale_up_delay=30.0))
    assert next_timer(cluster(None, None, ()), Plan(waiting=(pod,)), settings) == expected


def test_a_difference_that_is_watched() -> None:
    gap = IncorrectSize(registered=0, target=1, since=50.0)
    assert timer(GroupState(seen=SEEN, size_gap=gap)) == 650.0


def test_pods_that_are_so_new_that_more_may_come() -> None:
    plan = Plan(scale_up=ScaleUpReport(result=ScaleUpResult.IN_COOLDOWN))
    assert next_timer(cluster(None, None, ()), plan, Settings()) == 102.0


# Deadlines that start a loop


def deadline(group: GroupState | None = None, plan: Plan | None = None, *, pending: int = 1, **memory: Any) -> float:
    state = cluster(group, Memory(**memory), ())
    pods = tuple(build_pod(f"p{number}") for number in range(pending))
    seen = dataclasses.replace(state.observation, pending=pods)
    return next_deadline(dataclasses.replace(state, observation=seen), plan or Plan(), Settings())


def asked(*, atomic: bool = False) -> GroupState:
    return GroupState(seen=SEEN, requests=(ScaleUpRequest(increase=1, started=0.0, deadline=400.0, atomic=atomic),))


def test_pods_wait_for_the_deadline_of_a_request() -> None:
    assert deadline(asked()) == 400.0
    assert deadline(asked(), pending=0) == math.inf
    assert deadline(asked(atomic=True), pending=0) == 400.0


def test_pods_wait_for_a_backoff_and_for_a_machine() -> None:
    backoff = Backoff(until=350.0, duration=300.0, last_failure=50.0)
    assert deadline(GroupState(seen=SEEN, backoff=backoff)) == 350.0
    machine = GroupState(seen=SEEN, readiness=Readiness(unregistered=("i",)))
    assert deadline(machine, unregistered_since={(A, "i"): 50.0}) == 650.0


def test_nothing_waits_for_the_times_of_scale_down() -> None:
    assert deadline(plan=Plan(scale_down=ScaleDownReport(next_change=150.0))) == math.inf
    assert deadline(deletion_tried={(A, "i"): 90.0}) == math.inf
    deletion = DeleteInstances(group=A, expected_target=1, instance_ids=("i",), reason="late")
    assert deadline(plan=Plan(held_back=(HeldBack(action=deletion, reason="budget", until=120.0),))) == math.inf


def test_growth_that_is_held_back_waits() -> None:
    growth = IncreaseSize(group=A, expected_target=1, target=2)
    assert deadline(plan=Plan(held_back=(HeldBack(action=growth, reason="paused", until=120.0),))) == 120.0


def test_a_plan_that_was_cut_short_starts_no_loop_at_once() -> None:
    partial = Plan(scale_up=ScaleUpReport(partial="out of time"))
    assert next_timer(cluster(None, None, ()), partial, Settings()) == 100.0
    assert deadline(plan=partial) == math.inf
