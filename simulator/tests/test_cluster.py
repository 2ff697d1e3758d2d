"""Nodes, pods and the scheduler of the simulated cluster."""

import pytest

from nodewright.model.pod import Pod
from nodewright.testkit import build_node, build_pod, build_taint
from nodewright_simulator.cluster import SimulatedCluster, SimulatedPod
from nodewright_simulator.journal import Journal, What
from nodewright_simulator.scheduler import Preference, Scheduler


def make(preference: Preference = Preference.LEAST_ALLOCATED) -> SimulatedCluster:
    return SimulatedCluster(Scheduler(preference), Journal())


def submit(cluster: SimulatedCluster, pod: Pod, at: float = 0.0) -> SimulatedPod:
    submitted = SimulatedPod(pod=pod, arrived=at)
    cluster.submit(submitted)
    return submitted


def waiting(name: str, cpu: str = "1", priority: int | None = None) -> Pod:
    extras = {} if priority is None else {"priority": priority}
    return build_pod(name, cpu=cpu, unschedulable=False, **extras)  # type: ignore[arg-type]  # one known extra


def test_a_pod_without_room_is_marked_unschedulable_and_stays_pending() -> None:
    cluster = make()
    submit(cluster, waiting("p"), at=5.0)
    cluster.schedule(5.0)
    seen = cluster.read(5.0)
    (pod,) = seen.pending
    (condition,) = pod.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")
    assert condition.last_transition_time is not None
    assert condition.last_transition_time.timestamp() == 5.0


def test_a_pod_starts_once_there_is_room() -> None:
    cluster = make()
    held = submit(cluster, waiting("p"))
    cluster.schedule(0.0)
    cluster.add_node(build_node("n", cpu=1), 7.0)
    cluster.schedule(7.0)
    assert (held.node, held.started) == ("n", 7.0)
    assert cluster.read(7.0).pending == ()
    assert [pod.name for pod in cluster.live.pods(cluster.live.row("n"))] == ["p"]


def test_room_is_never_given_twice() -> None:
    cluster = make()
    cluster.add_node(build_node("n", cpu=2), 0.0)
    pods = [submit(cluster, waiting(f"p{n}")) for n in range(3)]
    cluster.schedule(0.0)
    assert [held.node for held in pods] == ["n", "n", ""]
    cluster.end(pods[0], 9.0)
    cluster.schedule(9.0)
    assert (pods[2].node, pods[2].started) == ("n", 9.0)


def test_higher_priorities_come_first() -> None:
    cluster = make()
    low, high = submit(cluster, waiting("low")), submit(cluster, waiting("high", priority=10))
    cluster.add_node(build_node("n", cpu=1), 0.0)
    cluster.schedule(0.0)
    assert (low.node, high.node) == ("", "n")


@pytest.mark.parametrize(
    ("preference", "expected"),
    [
        (Preference.LEAST_ALLOCATED, "empty"),
        (Preference.MOST_ALLOCATED, "busy"),
        (Preference.FIRST_FIT, "first"),
    ],
)
def test_preferences(preference: Preference, expected: str) -> None:
    cluster = make(preference)
    for node, used in (("first", "1"), ("busy", "3"), ("empty", "")):
        cluster.add_node(build_node(node, cpu=8), 0.0)
        if used:
            submit(cluster, build_pod(f"on-{node}", cpu=used, node_name=node))
    held = submit(cluster, waiting("p"))
    cluster.schedule(0.0)
    assert held.node == expected


def test_a_node_that_goes_takes_its_pods_along_and_tells_their_owners() -> None:
    cluster = make()
    cluster.add_node(build_node("n"), 0.0)
    lost: list[tuple[str, float]] = []
    held = SimulatedPod(pod=waiting("p"), arrived=0.0, on_loss=lambda pod, at: lost.append((pod.key, at)))
    cluster.submit(held)
    cluster.schedule(0.0)
    cluster.remove_node("n", 30.0)
    assert lost == [("default/p", 30.0)]
    assert held.gone
    assert not list(cluster.live.nodes())
    assert cluster.tally.pods == 0


def test_a_changed_node_keeps_its_pods_and_opens_room() -> None:
    cluster = make()
    taint = build_taint("node.kubernetes.io/not-ready")
    cluster.add_node(build_node("n", cpu=2, taints=[taint]), 0.0)
    first = submit(cluster, build_pod("first", cpu="1", node_name="n"))
    second = submit(cluster, waiting("second"))
    cluster.schedule(0.0)
    assert second.node == ""
    cluster.change_node(build_node("n", cpu=2))
    cluster.schedule(1.0)
    assert (first.node, second.node) == ("n", "n")
    assert cluster.live.used[cluster.live.row("n")][1] == 2000


def test_a_picture_is_not_changed_by_what_follows() -> None:
    cluster = make()
    cluster.add_node(build_node("n"), 0.0)
    seen = cluster.read(0.0)
    submit(cluster, waiting("p"))
    cluster.schedule(0.0)
    cluster.remove_node("n", 1.0)
    assert [node.name for _, node in seen.snapshot.nodes()] == ["n"]
    assert not seen.snapshot.used.any()


def test_a_picture_full_of_dead_rows_is_laid_out_anew() -> None:
    cluster = make()
    cluster.add_node(build_node("keeps", cpu=2), 0.0)
    held = submit(cluster, waiting("p"))
    cluster.schedule(0.0)
    for turn in range(300):
        cluster.add_node(build_node(f"n{turn}"), float(turn))
        cluster.remove_node(f"n{turn}", float(turn))
    assert len(cluster.live) < 300
    assert [pod.name for pod in cluster.live.pods(cluster.live.row("keeps"))] == ["p"]
    cluster.end(held, 400.0)
    assert not cluster.live.used.any()


def test_ending_and_deleting_twice_does_nothing() -> None:
    journal = Journal()
    cluster = SimulatedCluster(Scheduler(), journal)
    cluster.add_node(build_node("n"), 0.0)
    held = submit(cluster, waiting("p"))
    cluster.schedule(0.0)
    cluster.end(held, 1.0)
    cluster.end(held, 2.0)
    cluster.delete(held, 3.0)
    assert [fact.at for fact in journal.facts() if fact.what == What.POD_ENDED] == [1.0]
    assert not [fact for fact in journal.facts() if fact.what == What.POD_LOST]


def test_pods_that_keep_apart_are_tried_again_when_others_move() -> None:
    cluster = make()
    cluster.add_node(build_node("n", cpu=8), 0.0)
    first, second = (submit(cluster, _apart(name)) for name in ("a", "b"))
    cluster.schedule(0.0)
    assert (first.node, second.node) == ("n", "")
    cluster.delete(first, 1.0)
    cluster.schedule(1.0)
    assert second.node == "n"


def _apart(name: str) -> Pod:
    return build_pod(name, host_ports=[8080], unschedulable=False)
