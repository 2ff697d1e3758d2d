"""When machines that pods wait for have come, and how often loops then look whether kube-scheduler leaves a pod."""

import math

import pytest

from nodewright.clusterstate.memory import Memory
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.engine.report import LoopReport
from nodewright.engine.timers import NodesReadyAlarm, PlacementLooks
from nodewright.model.action import Done, IncreaseSize
from nodewright.model.group import GroupRef
from nodewright.model.plan import Plan
from nodewright.snapshot.observation import GroupSeen, Observation
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit import build_group, build_pod

A = GroupRef("p", "a")
SEEN = GroupSeen(ref=A, group=build_group("a"), target=5)


def report(*, upcoming: int = 0, bought: int = 0, fitting: int = 0, at: float = 0.0) -> LoopReport:
    """A loop that took a second."""
    state = ClusterState(
        observation=Observation(now=at, snapshot=Snapshot()),
        memory=Memory(),
        groups={A: GroupState(seen=SEEN, upcoming=upcoming)},
    )
    growth = Done(action=IncreaseSize(group=A, expected_target=0, target=bought), started=at, accepted=bought)
    return LoopReport(
        started=at,
        finished=at + 1,
        state=state,
        plan=Plan(fitting=tuple(build_pod(f"pod-{number}") for number in range(fitting))),
        outcomes=(growth,) if bought else (),
    )


class Bell:
    """Counts rings."""

    def __init__(self) -> None:
        self.rings = 0
        self.nodes = NodesReadyAlarm(self._ring)

    def _ring(self) -> None:
        self.rings += 1

    def loop(self, ended: LoopReport, *, came_meanwhile: int = 0) -> None:
        self.nodes.begin()
        self.come(came_meanwhile)
        self.nodes.expect(ended)

    def come(self, nodes: int) -> None:
        for _ in range(nodes):
            self.nodes.see_ready()


@pytest.mark.parametrize("awaited", [report(bought=3), report(upcoming=3, fitting=1), report(upcoming=1, bought=2)])
def test_it_rings_once_when_the_last_awaited_machine_is_ready(awaited: LoopReport) -> None:
    bell = Bell()
    bell.loop(awaited)
    bell.come(2)
    assert bell.rings == 0
    bell.come(1)
    assert bell.rings == 1
    bell.come(5)
    assert bell.rings == 1


def test_nodes_that_become_ready_during_a_loop_count() -> None:
    bell = Bell()
    bell.loop(report(bought=2), came_meanwhile=1)
    bell.come(1)
    assert bell.rings == 1
    bell.loop(report(bought=2), came_meanwhile=2)
    assert bell.rings == 2


def test_a_loop_that_reads_some_as_ready_awaits_the_others() -> None:
    bell = Bell()
    bell.loop(report(bought=3))
    bell.come(1)
    bell.loop(report(upcoming=2, fitting=4))
    bell.come(1)
    assert bell.rings == 0
    bell.come(1)
    assert bell.rings == 1


@pytest.mark.parametrize(
    "idle",
    [report(), report(upcoming=2), report(fitting=3), LoopReport(started=0.0, finished=1.0, problem="no answer")],
)
def test_nodes_that_no_pod_waits_for_do_not_ring(idle: LoopReport) -> None:
    """A group that grows to its minimum, nodes of others at rest, and pods that wait for kube-scheduler alone."""
    bell = Bell()
    bell.loop(idle)
    bell.come(10)
    assert bell.rings == 0


def look_times(*reports: LoopReport) -> list[float]:
    looks = PlacementLooks()
    return [looks.next_at(ended, scan_interval=10.0) for ended in reports]


def test_looks_follow_while_pods_are_not_bound_with_growing_pauses() -> None:
    """Each loop takes a second. Those that something else starts in between change nothing."""
    unbound = [report(fitting=2, at=at) for at in (10.0, 12.0, 12.1, 14.0, 15.0, 18.0, 28.0)]
    assert look_times(report(bought=2), *unbound) == [math.inf, 12, 14, 14, 18, 18, math.inf, math.inf]


def test_they_end_with_the_last_pod_and_begin_again_with_further_machines() -> None:
    told = [report(bought=2), report(fitting=2), report(), report(fitting=1), report(bought=1), report(fitting=1)]
    assert look_times(*told) == [math.inf, 2, math.inf, math.inf, math.inf, 2]


def test_a_further_machine_does_not_end_them() -> None:
    told = [report(bought=2), report(fitting=9, bought=1), report(upcoming=1, fitting=5, at=2.0)]
    assert look_times(*told) == [math.inf, 2, 4]


def test_pods_that_only_wait_for_kube_scheduler_start_none() -> None:
    assert look_times(*[report(fitting=1, at=at) for at in (0.0, 10.0, 20.0)]) == [math.inf] * 3
