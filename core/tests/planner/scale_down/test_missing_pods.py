"""A list that lacks pods which controllers count as ready is not believed: nodes that look empty stay."""

import pytest
from core.tests.planner.scale_down.loops import MINUTE, Loops, codes, gone
from msgspec.structs import replace

from nodewright.model.cluster import (
    DaemonSet,
    DaemonSetStatus,
    Job,
    JobSpec,
    JobStatus,
    ReplicaSet,
    ReplicaSetStatus,
    StatefulSet,
)
from nodewright.model.pod import Pod
from nodewright.model.reason import ScaleDownResult
from nodewright.planner.scale_down.missing_pods import Doubt, MissingPods, doubt_after, find_missing_pods
from nodewright.snapshot.context import Controller
from nodewright.testkit.builders import build_controller, build_pod
from nodewright.testkit.world import World

LATE, WRONG = (
    MissingPods(ready=100, by_controller={"Job a/b": 10}),
    MissingPods(ready=99, by_controller={"Job a/b": 10}),
)


def counting(kind: str, name: str, ready: int) -> Controller:
    """Return a controller whose status counts so many ready pods."""
    match build_controller(kind, name):
        case ReplicaSet() | StatefulSet() as found:
            return replace(found, status=ReplicaSetStatus(ready_replicas=ready))
        case DaemonSet() as found:
            return replace(found, status=DaemonSetStatus(number_ready=ready))
        case Job() as found:
            return replace(found, status=JobStatus(ready=ready))
    raise AssertionError(kind)


def pods(count: int, node: str, owner: tuple[str, str]) -> list[Pod]:
    return [build_pod(f"{owner[1]}-{n}", node_name=node, owner=owner) for n in range(count)]


def missing(world: World) -> MissingPods:
    seen = world.state().observation
    return find_missing_pods(seen.snapshot, seen.workloads)


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "Job", "DaemonSet"])
def test_pods_that_are_listed_nowhere_are_counted_by_controller(kind: str) -> None:
    world = World()
    world.add_group("g", 1)
    world.controllers = [counting(kind, "a", 5), counting(kind, "b", 2), counting(kind, "none", 0)]
    world.running = [
        *pods(3, "g-0", (kind, "a")),
        *pods(4, "g-0", (kind, "b")),
        build_pod("bare", owner=None, node_name="g-0"),
    ]
    assert missing(world) == MissingPods(ready=7, by_controller={f"{kind} default/a": 2})


def test_the_status_of_a_job_that_another_controller_writes_says_nothing() -> None:
    """Kueue copies the status of a Job that runs in another cluster."""
    world = World()
    world.add_group("g", 1)
    job = counting("Job", "a", 5)
    assert isinstance(job, Job)
    world.controllers = [replace(job, spec=JobSpec(managed_by="kueue.x-k8s.io/multikueue"))]
    assert missing(world) == MissingPods()
    world.controllers = [replace(job, spec=JobSpec(managed_by="kubernetes.io/job-controller"))]
    assert missing(world).by_controller == {"Job default/a": 5}


def test_a_tenth_may_be_missing_because_a_status_is_late() -> None:
    assert [LATE.is_list_wrong, WRONG.is_list_wrong, MissingPods().is_list_wrong] == [False, True, False]
    assert "lacks 10 of 99 pods that their controllers count as ready, for example 10 of Job a/b;" in str(WRONG)


def idle(*controllers: Controller) -> Loops:
    """Return a world with two nodes that have looked empty for long enough."""
    loops = Loops()
    loops.world.add_group("g", 2)
    loops.world.controllers = list(controllers)
    loops.settings = {"scale_down_delay_after_add": 0.0}
    loops.run()
    return loops


def test_no_node_goes_while_the_list_is_wrong_and_both_go_in_the_loop_after_that() -> None:
    loops = idle(counting("ReplicaSet", "rs", 2))
    report = loops.run(11 * MINUTE)
    assert (gone(report), report.result) == ([], ScaleDownResult.NO_NODE_DELETED)
    assert {reason.code.value for reason in report.passed_over.values()} == {"PodsMissing"}
    assert report.missing_pods == report.passed_over["g-0"].message
    assert report.next_change == loops.world.now
    loops.run(10 * 60 * MINUTE)
    assert gone(loops.run(MINUTE)) == []
    loops.world.controllers = [counting("ReplicaSet", "rs", 0)]
    report = loops.run(1)
    assert (gone(report), report.missing_pods) == (["g-0", "g-1"], "")


def test_pods_that_a_right_list_shows_keep_their_node_alone() -> None:
    loops = idle(counting("ReplicaSet", "rs", 2))
    loops.world.running = [build_pod(f"p-{n}", cpu="3", node_name="g-0") for n in range(2)]
    assert gone(loops.run(11 * MINUTE)) == ["g-1"]


def test_as_in_ca_the_list_is_believed() -> None:
    loops = idle(counting("ReplicaSet", "rs", 2))
    loops.settings |= {"profile": "ca"}
    report = loops.run(11 * MINUTE)
    assert gone(report) == ["g-0", "g-1"]
    assert codes(report) == {}


def test_a_doubt_ends_when_every_controller_that_lacked_pods_was_whole_once() -> None:
    first = doubt_after(None, MissingPods(ready=100, by_controller={"a": 1, "b": 1}), 0.0)
    assert first.holds(0.0)
    second = doubt_after(first, MissingPods(ready=100, by_controller={"b": 1, "c": 1}), 5.0)
    assert second == Doubt(0.0, frozenset("b"), is_list_wrong=False)
    third = doubt_after(second, MissingPods(ready=100, by_controller={"a": 1, "c": 1}), 10.0)
    assert not third.holds(10.0)
    assert not doubt_after(third, LATE, 15.0).holds(15.0)


def test_one_status_that_is_wrong_for_good_holds_a_node_for_a_quarter_of_an_hour_and_a_wrong_list_without_end() -> None:
    doubt = doubt_after(None, LATE, 0.0)
    assert doubt.holds(15 * MINUTE - 1)
    assert not doubt.holds(15 * MINUTE)
    doubt = doubt_after(doubt, WRONG, 100 * MINUTE)
    assert doubt.holds(1000 * MINUTE)
    doubt = doubt_after(doubt, LATE, 1000 * MINUTE)
    assert [doubt.holds(1001 * MINUTE), doubt.holds(1015 * MINUTE)] == [True, False]
