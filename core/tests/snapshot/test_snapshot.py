"""Rows, copies, columns and what is remembered of pods that went."""

import numpy as np
import pytest
from core.tests.predicates.manifests import cluster, node, pod

from nodewright.model.node import HOSTNAME_LABEL
from nodewright.predicates import feasible
from nodewright.snapshot import node_table
from nodewright.testkit import build_node, build_pod


def test_rows_keep_their_nodes() -> None:
    snapshot = cluster(node("a"), node("b"), node("c"))
    snapshot.remove_node(snapshot.row("b"))
    snapshot.add_node(node("b"))
    assert [(row, there.name) for row, there in snapshot.nodes()] == [(0, "a"), (2, "c"), (3, "b")]
    assert snapshot.row("b") == 3


def test_copies_have_names_and_hostnames_of_their_own() -> None:
    snapshot = cluster(node("a"))
    window = snapshot.add_copies(node("template", zone="z"), 2)
    names = [snapshot.node(row).name for row in range(window.start, window.stop)]
    assert len({"a", "template", *names}) == 4
    assert [snapshot.find_row(name) for name in names] == [1, 2]
    hosts = snapshot.labels(HOSTNAME_LABEL)
    assert len(set(hosts.tolist())) == 3
    assert snapshot.node(1).metadata.labels[HOSTNAME_LABEL] == names[0]


@pytest.mark.parametrize("name", ["copy-0", "copy-7", "copy-", "copy-x", "copy-99999999999999999999", "gone", "copy-٣"])
def test_no_row_of_that_name(name: str) -> None:
    snapshot = cluster(node("a"))
    snapshot.add_copies(node("template"), 1)
    assert snapshot.find_row(name) is None


def test_what_is_free_follows_the_pods() -> None:
    snapshot = cluster(node("a", offers={"cpu": "4", "pods": "10"}), node("b", offers={"cpu": "2", "pods": "10"}))
    two = snapshot.class_of(pod(requests={"cpu": "1500m", "x.com/y": "1"}))
    snapshot.place_many(two, np.array([0, 1]), np.array([2, 1]))
    snapshot.unplace(two, 0)
    snapshot.place(two, 1)
    columns = [snapshot.vocabulary.resources[name] for name in ("pods", "cpu", "x.com/y")]
    assert snapshot.free[:, columns].tolist() == [[9, 2500, -1], [8, -1000, -2]]
    assert snapshot.used[:, columns].tolist() == [[1, 1500, 1], [2, 3000, 2]]
    assert dict(snapshot.rows_of(two)) == {0: 1, 1: 2}


def test_pods_that_come_together_are_placed_as_one_by_one() -> None:
    pods = [build_pod(f"p{n}", cpu=str(1 + n % 2), node_name="ab"[n % 3 == 0]) for n in range(7)]
    together, singly = (cluster(node("a"), node("b")) for _ in range(2))
    for snapshot in (together, singly):
        snapshot.place(snapshot.class_of(pods[0], placed=True), 1, pod=pods[0])
    together.place_pods((together.row(known.spec.node_name), [known]) for known in pods[1:])
    for known in pods[1:]:
        singly.place(singly.class_of(known, placed=True), singly.row(known.spec.node_name), pod=known)
    assert together.free.tolist() == singly.free.tolist()
    for row in range(2):
        assert together.pods(row) == singly.pods(row)
        assert [pod_class.requests for pod_class in together.pod_classes(row)] == [
            pod_class.requests for pod_class in singly.pod_classes(row)
        ]
    assert len({*together.pod_classes(0), *together.pod_classes(1)}) == 2


def test_known_pods_come_and_go_with_their_nodes() -> None:
    snapshot, first, second = cluster(node("a")), build_pod("first"), build_pod("second", cpu="1")
    for known in (first, second):
        snapshot.place(snapshot.class_of(known), 0, pod=known)
    fork = snapshot.fork()
    classes = [snapshot.class_of(known) for known in (first, second)]
    assert len(set(classes)) == 2
    fork.unplace(fork.class_of(first), 0, pod=first)
    assert [known.name for known in fork.pods(0)] == ["second"]
    assert [known.name for known in snapshot.pods(0)] == ["first", "second"]
    assert (list(fork.pod_classes(0)), list(snapshot.pod_classes(0))) == (classes[1:], classes)
    fork.forget_pods(0, lambda pod_class: pod_class is classes[1])
    assert (fork.pods(0), fork.pod_classes(0)) == ((), ())
    fork.name_pods(classes[1], 0, [second])
    assert (fork.pods(0), list(fork.pod_classes(0))) == ((second,), classes[1:])
    fork.remove_node(0)
    assert (fork.pods(0), fork.pod_classes(0)) == ((), ())
    assert list(fork.placements()) == []


def test_classes_without_pods_are_dropped_in_time() -> None:
    snapshot = cluster(build_node("n", pods=100_000))
    lasting = snapshot.class_of(pod(labels={"app": "web"}))
    snapshot.place(lasting, 0)
    for number in range(1000):
        passing = snapshot.class_of(pod(labels={"job": str(number)}))
        snapshot.place(passing, 0)
        snapshot.unplace(passing, 0)
    assert len(snapshot.placed_classes(_anybody)) < 600
    assert [pod_class for pod_class, _ in snapshot.placements()] == [lasting]


def _anybody(_: object) -> bool:
    return True


def test_columns_are_bounded_and_made_again() -> None:
    snapshot = cluster(node("a", "z"), node("b"))
    asked = snapshot.class_of(pod(nodeSelector={"topology.kubernetes.io/zone": "z"}))
    before = feasible(snapshot, asked).tolist()
    for number in range(node_table.MAX_COLUMNS + 1):
        snapshot.labels(f"key-{number}")
    assert len(snapshot._columns) <= node_table.MAX_COLUMNS
    assert feasible(snapshot, asked).tolist() == before == [True, False]


def test_a_sibling_speaks_of_the_same_names_and_is_empty() -> None:
    snapshot = cluster(node("a", offers={"x.com/y": "1"}))
    empty = snapshot.sibling()
    assert len(empty) == 0
    assert empty.class_of(pod()) is snapshot.class_of(pod())
