"""What somebody does to nodes by hand: cordons, taints and deletions of their objects."""

from collections.abc import Iterable

from msgspec.structs import replace

from nodewright.adapters.simulated.cluster import SimulatedCluster
from nodewright.model.node import Node, Taint

CORDON, TAINT, DELETE = "cordon", "taint", "delete"
BY_HAND = Taint(key="example.com/by-hand", value="true", effect="NoSchedule")


def touch(cluster: SimulatedCluster, names: Iterable[str], how: str, at: float) -> list[Node]:
    """Do it to the nodes; return those that are deleted, as they were."""
    deleted = []
    for name, node in _present(cluster, names):
        if how == DELETE:
            cluster.remove_node(name, at)
            deleted.append(node)
        elif how == CORDON:
            cluster.change_node(replace(node, spec=replace(node.spec, unschedulable=True)))
        else:
            cluster.change_node(replace(node, spec=replace(node.spec, taints=(*node.spec.taints, BY_HAND))))
    return deleted


def undo(cluster: SimulatedCluster, names: Iterable[str], how: str) -> None:
    """Take the cordon or the taint from those of the nodes that are still there."""
    for _, node in _present(cluster, names):
        if how == CORDON:
            cluster.change_node(replace(node, spec=replace(node.spec, unschedulable=False)))
        else:
            left = tuple(taint for taint in node.spec.taints if taint.key != BY_HAND.key)
            cluster.change_node(replace(node, spec=replace(node.spec, taints=left)))


def _present(cluster: SimulatedCluster, names: Iterable[str]) -> list[tuple[str, Node]]:
    live = cluster.live
    rows = ((name, live.find_row(name)) for name in names)
    return [(name, live.node(row)) for name, row in rows if row is not None]
