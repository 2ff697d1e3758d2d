"""Places of pods by the roll of their node, and by their ids where that has changed."""

from nodewright.model.pod import Pod
from nodewright.snapshot.node_pods import NodePods
from nodewright.snapshot.pod_places import PodPlaces
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_pod


def roll_of(*pods: Pod) -> NodePods:
    snapshot = Snapshot()
    return NodePods([snapshot.class_of(pod, placed=True) for pod in pods], pods)


A, B, C = (build_pod(name, node_name="n") for name in "abc")


def test_a_roll_that_has_changed_is_looked_up_by_its_pods() -> None:
    known = roll_of(A, B)
    places = PodPlaces({known: ["x", ""], roll_of(C): ["y"]})
    assert places.of(known) == ["x", ""]
    assert places.of(roll_of(C, B, A)) == ["y", "", "x"]
    assert dict(places) == {A.metadata.uid: "x", C.metadata.uid: "y"}


def test_without_any_place_there_is_nothing_to_follow() -> None:
    assert not PodPlaces()
    assert not PodPlaces({roll_of(A): [""]})
    assert PodPlaces({roll_of(A): [""], roll_of(B): ["x"]})


def test_what_was_found_out_later_counts() -> None:
    same = roll_of(A, B)
    first, later = PodPlaces({same: ["x", "y"]}), PodPlaces({same: ["", "z"], roll_of(C): ["w"]})
    assert dict(first.updated(later)) == {A.metadata.uid: "x", B.metadata.uid: "z", C.metadata.uid: "w"}
    assert dict(first.updated(PodPlaces({roll_of(B): ["v"]}))) == {A.metadata.uid: "x", B.metadata.uid: "v"}
