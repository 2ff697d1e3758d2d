"""Faults of nodes: a kubelet that does not answer for a while, and what an operator does by hand (cordon, taint, delete)."""

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec.structs import replace

from nodewright.clusterstate.readiness import is_ready
from nodewright.model.node import Node, NodeCondition, Taint
from nodewright.model.settings import TemplateSettings
from nodewright_simulator.cluster import SimulatedCluster

NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")


def ready_nodes(cluster: SimulatedCluster, settings: TemplateSettings) -> list[str]:
    """Names of the nodes that are ready, the oldest first."""
    nodes = [node for _, node in cluster.live.nodes() if is_ready(node, settings)]
    return [node.name for node in sorted(nodes, key=_age)]


def turn(cluster: SimulatedCluster, names: Iterable[str], *, ready: bool, at: float) -> None:
    """The nodes of those names that are still there are ready from now on, or are not."""
    present = {node.name: node for _, node in cluster.live.nodes()}
    for name in names:
        if name in present:
            cluster.change_node(turned(present[name], ready=ready, at=at))


def turned(node: Node, *, ready: bool, at: float) -> Node:
    """The node as it is when it becomes ready or stops being so ``at``."""
    since = datetime.fromtimestamp(at, tz=UTC)
    condition = NodeCondition(type="Ready", status="True" if ready else "False", last_transition_time=since)
    others = tuple(taint for taint in node.spec.taints if taint.key != NOT_READY.key)
    spec = replace(node.spec, taints=others if ready else (*others, NOT_READY))
    return replace(node, spec=spec, status=replace(node.status, conditions=(condition,)))


def _age(node: Node) -> tuple[float, str]:
    created = node.metadata.creation_timestamp
    return (created.timestamp() if created is not None else 0.0, node.name)


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
