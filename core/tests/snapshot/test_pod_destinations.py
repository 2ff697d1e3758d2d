"""Places of pods, held for all pods of a node together, and found by their ids where the node has other pods."""

from nodewright.model.pod import Pod
from nodewright.snapshot.node_pods import NodePods, PodDestinations
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_pod


def node_pods(*pods: Pod) -> NodePods:
    snapshot = Snapshot()
    return NodePods([snapshot.class_of(pod, placed=True) for pod in pods], pods)


A, B, C = (build_pod(name, node_name="n") for name in "abc")


def test_a_node_with_other_pods_is_looked_up_by_each_pod() -> None:
    known = node_pods(A, B)
    places = PodDestinations({known: ["x", ""], node_pods(C): ["y"]})
    assert places.of(known) == ["x", ""]
    assert places.of(node_pods(C, B, A)) == ["y", "", "x"]
    assert dict(places) == {A.metadata.uid: "x", C.metadata.uid: "y"}


def test_without_any_place_there_is_nothing_to_follow() -> None:
    assert not PodDestinations()
    assert not PodDestinations({node_pods(A): [""]})
    assert PodDestinations({node_pods(A): [""], node_pods(B): ["x"]})


def test_what_was_found_out_later_counts() -> None:
    same = node_pods(A, B)
    first, later = PodDestinations({same: ["x", "y"]}), PodDestinations({same: ["", "z"], node_pods(C): ["w"]})
    assert dict(first.updated(later)) == {A.metadata.uid: "x", B.metadata.uid: "z", C.metadata.uid: "w"}
    assert dict(first.updated(PodDestinations({node_pods(B): ["v"]}))) == {A.metadata.uid: "x", B.metadata.uid: "v"}
