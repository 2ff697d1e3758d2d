"""The dependent nodes of seed 003: the pods that move first take the room."""

from nodewright.predicates import feasible
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_node, build_pod


def _fits(snapshot: Snapshot, cpu: str, node: str) -> bool:
    row = snapshot.row(node)
    return bool(feasible(snapshot, snapshot.class_of(build_pod(f"probe-{cpu}", cpu=cpu)))[row])


def _move(snapshot: Snapshot, cpu: str, node: str) -> Snapshot:
    moved = snapshot.fork()
    moved.place(moved.class_of(build_pod(f"moved-{cpu}", cpu=cpu)), moved.row(node))
    return moved


def test_seed_003_dependent_nodes() -> None:
    """A needs 400m and B 350m of the 450m free on X; C needs room on Y, which neither touches."""
    cluster = Snapshot()
    cluster.add_nodes([build_node("x", cpu="450m"), build_node("y", cpu="300m")])
    assert _fits(cluster, "400m", "x")
    assert _fits(cluster, "350m", "x")
    without_a = _move(cluster, "400m", "x")
    assert not _fits(without_a, "350m", "x")
    assert _fits(without_a, "250m", "y")
    assert _fits(cluster, "350m", "x"), "the fork must not have changed the cluster"
