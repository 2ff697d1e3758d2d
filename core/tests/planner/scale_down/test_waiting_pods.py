"""Pods that wait are placed by name, and where they were placed before: scale-down sees them there."""

from core.tests.planner.scale_down.loops import Loops
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodewright.model.pod import MIRROR_ANNOTATION, Pod
from nodewright.model.removal import NodeRemoval, RemovalReason, RemovalStage, Removing
from nodewright.model.settings import PodSettings, Settings
from nodewright.planner.scale_up.pending_pods import Hints, drop_passed_over, find_recreated, take_fitting
from nodewright.predicates import feasible
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_node, build_pod
from nodewright.testkit.world import ref


def cluster(cores: list[int]) -> Snapshot:
    snapshot = Snapshot()
    snapshot.add_nodes([build_node(f"n{number}", cpu=cpu) for number, cpu in enumerate(cores)])
    return snapshot


def one_by_one(snapshot: Snapshot, pods: list[Pod], hints: dict[str, str]) -> dict[str, str]:
    """Pod → node: those of high priority first, hinted ones before others, class by class, from node to node in turn."""
    found: dict[str, str] = {}
    cursor = 0

    def place(pod: Pod, rows: list[int]) -> int | None:
        pod_class = snapshot.class_of(pod)
        row = next((row for row in rows if feasible(snapshot, pod_class)[row]), None)
        if row is not None:
            snapshot.place(pod_class, row)
            found[pod.name] = snapshot.name(row)
        return row

    for priority in sorted({pod.spec.priority or 0 for pod in pods}, reverse=True):
        classes: dict[int, list[Pod]] = {}
        for pod in pods:
            if (pod.spec.priority or 0) == priority:
                classes.setdefault(snapshot.class_of(pod).id, []).append(pod)
        left = [
            [pod for pod in alike if place(pod, [snapshot.row(hints[pod.name])] if pod.name in hints else []) is None]
            for alike in classes.values()
        ]
        for pod in (pod for alike in left for pod in alike):
            row = place(pod, [(cursor + step) % len(snapshot) for step in range(len(snapshot))])
            cursor = cursor if row is None else row + 1
    return found


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0, 7]), st.integers(-1, 4)), max_size=12),
)
def test_pods_dealt_at_once_land_where_they_would_one_by_one(
    cores: list[int], shapes: list[tuple[int, int, int]]
) -> None:
    pods = [build_pod(f"p{n}", cpu=cpu, priority=priority) for n, (cpu, priority, _) in enumerate(shapes)]
    hinted = {f"p{n}": f"n{at % len(cores)}" for n, (_, _, at) in enumerate(shapes) if at >= 0}
    snapshot = cluster(cores)
    hints = Hints(before={pod.metadata.uid: hinted[pod.name] for pod in pods if pod.name in hinted})
    fitting, left = take_fitting(snapshot, pods, hints)
    found = {pod.name: node.name for row, node in snapshot.nodes() for pod in snapshot.pods(row)}
    assert found == one_by_one(cluster(cores), pods, hinted)
    assert {pod.name for pod in fitting} == found.keys()
    assert len(fitting) + len(left) == len(pods)
    assert hints.fresh == {pod.metadata.uid: found[pod.name] for pod in fitting}


def test_a_pod_that_waits_stays_where_it_was_taken_to_run() -> None:
    loops = Loops()
    loops.world.add_group("g", 3, cpu="2")
    loops.world.running = [build_pod("r", cpu="2", node_name="g-0")]
    loops.world.pending = [build_pod("waits", cpu="1500m")]
    first = loops.run()
    loops.world.running = []
    second = loops.run(10)
    # Room on g-0 does not draw it there: what g-1 is to be used for stays the same.
    assert first.unneeded.keys() == {"g-2"}
    assert "g-1" not in second.unneeded
    assert second.unneeded.items() >= first.unneeded.items()


def test_expendable_pods_are_gone_from_the_nodes_also_by_name() -> None:
    snapshot = cluster([4])
    for pod in (build_pod("dear"), build_pod("cheap", priority=-50)):
        snapshot.place(snapshot.class_of(pod), 0, pod=pod)
    drop_passed_over(snapshot, PodSettings(), Settings().policy)
    assert [pod.name for pod in snapshot.pods(0)] == ["dear"]


def test_pods_of_a_drained_node_wait_unless_nobody_makes_them_anew() -> None:
    snapshot = cluster([4])
    pods = [
        build_pod("moves", node_name="n0"),
        build_pod("mirror", node_name="n0", annotations={MIRROR_ANNOTATION: ""}),
        build_pod("static", node_name="n0", annotations={"kubernetes.io/config.source": "file"}),
        build_pod("api", node_name="n0", annotations={"kubernetes.io/config.source": "api"}),
        build_pod("daemon", node_name="n0", owner=("DaemonSet", "ds")),
        build_pod("leaves", node_name="n0", deleted_at=5.0),
        build_pod("cheap", node_name="n0", priority=-50),
    ]
    for pod in pods:
        snapshot.place(snapshot.class_of(pod, placed=True), 0, pod=pod)
    removal = NodeRemoval(
        node="n0", group=ref("g"), instance_id="i", reason=RemovalReason.EMPTY, pods=("default/moves",)
    )
    removing = Removing(removal=removal, stage=RemovalStage.DRAINING, started=0.0)
    found = find_recreated(snapshot, {"n0": removing, "gone": removing}, PodSettings())
    assert [(pod.name, pod.spec.node_name) for pod in found] == [("moves", ""), ("api", "")]
    empty = replace(removing, removal=replace(removal, pods=()))
    assert find_recreated(snapshot, {"n0": empty}, PodSettings()) == []


def test_nothing_is_remembered_of_pods_that_no_longer_wait() -> None:
    loops = Loops()
    loops.world.add_group("g", 1)
    loops.world.pending = [build_pod("waits")]
    loops.run()
    assert loops.world.memory.scale_down.pending_hints == {"uid-default-waits": "g-0"}
    loops.world.pending = []
    loops.run(10)
    assert loops.world.memory.scale_down.pending_hints == {}
