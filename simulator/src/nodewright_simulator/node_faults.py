"""Faults of nodes: a silent kubelet, and what an operator does by hand.

Operators cordon, taint, label and delete Node objects, or create a second object for a machine.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec.structs import replace

from nodewright.clusterstate.readiness import is_ready
from nodewright.model.node import (
    DELETION_CANDIDATE_TAINT,
    HOSTNAME_LABEL,
    TO_BE_DELETED_TAINT,
    Node,
    NodeCondition,
    Taint,
)
from nodewright.model.settings import TemplateSettings
from nodewright_simulator.cluster import SimulatedCluster

_OF_AUTOSCALERS = (TO_BE_DELETED_TAINT, DELETION_CANDIDATE_TAINT)
NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")


def ready_nodes(cluster: SimulatedCluster, settings: TemplateSettings) -> list[str]:
    """Return the names of the nodes that are ready, the oldest first."""
    nodes = [node for _, node in cluster.live.nodes() if is_ready(node, settings)]
    return [node.name for node in sorted(nodes, key=_age)]


def turn(cluster: SimulatedCluster, names: Iterable[str], *, ready: bool, at: float) -> None:
    """Make the nodes of those names that still exist ready or not ready."""
    present = {node.name: node for _, node in cluster.live.nodes()}
    for name in names:
        if name in present:
            cluster.change_node(turned(present[name], ready=ready, at=at))


def turned(node: Node, *, ready: bool, at: float) -> Node:
    """Return the node as it is when it becomes ready or not ready ``at``."""
    since = datetime.fromtimestamp(at, tz=UTC)
    condition = NodeCondition(type="Ready", status="True" if ready else "False", last_transition_time=since)
    others = tuple(taint for taint in node.spec.taints if taint.key != NOT_READY.key)
    spec = replace(node.spec, taints=others if ready else (*others, NOT_READY))
    return replace(node, spec=spec, status=replace(node.status, conditions=(condition,)))


def _age(node: Node) -> tuple[float, str]:
    created = node.metadata.creation_timestamp
    return (created.timestamp() if created is not None else 0.0, node.name)


CORDON, TAINT, LABEL, DELETE, RENAME, DOUBLE, TWIN = "cordon", "taint", "label", "delete", "rename", "double", "twin"
BY_HAND = Taint(key="example.com/by-hand", value="true", effect="NoSchedule")


def touch(cluster: SimulatedCluster, names: Iterable[str], how: str, at: float) -> list[Node]:
    """Change the nodes as ``how`` says; return those that are deleted, as they were before."""
    deleted = []
    for name, node in _present(cluster, names):
        if how in (DELETE, RENAME):
            cluster.remove_node(name, at)
            deleted.append(node)
        elif how in (DOUBLE, TWIN):
            if cluster.live.find_row(_double_of(name)) is None:
                cluster.add_node(turned(renamed_copy(node, _double_of(name), at), ready=how == TWIN, at=at), at)
        elif how == CORDON:
            cluster.change_node(replace(node, spec=replace(node.spec, unschedulable=True)))
        elif how == LABEL:
            cluster.change_node(_labelled(node, {**node.metadata.labels, BY_HAND.key: BY_HAND.value}))
        else:
            cluster.change_node(replace(node, spec=replace(node.spec, taints=(*node.spec.taints, BY_HAND))))
    return deleted


def undo(cluster: SimulatedCluster, names: Iterable[str], how: str, at: float) -> None:
    """Remove the cordon, taint or label from the nodes that still exist, or delete their second Node objects."""
    is_doubled = how in (DOUBLE, TWIN)
    for name, node in _present(cluster, map(_double_of, names) if is_doubled else names):
        if is_doubled:
            cluster.remove_node(name, at)
        elif how == CORDON:
            cluster.change_node(replace(node, spec=replace(node.spec, unschedulable=False)))
        elif how == LABEL:
            kept = {key: value for key, value in node.metadata.labels.items() if key != BY_HAND.key}
            cluster.change_node(_labelled(node, kept))
        else:
            left = tuple(taint for taint in node.spec.taints if taint.key != BY_HAND.key)
            cluster.change_node(replace(node, spec=replace(node.spec, taints=left)))


def _labelled(node: Node, labels: dict[str, str]) -> Node:
    return replace(node, metadata=replace(node.metadata, labels=labels))


def renamed_copy(node: Node, name: str, at: float) -> Node:
    """Return the object that a kubelet registers for the node's machine ``at`` under another name.

    It has no taint of an autoscaler: a kubelet knows only the taints that it was configured with.
    """
    created = datetime.fromtimestamp(at, tz=UTC)
    labels = {**node.metadata.labels, HOSTNAME_LABEL: name}
    metadata = replace(node.metadata, name=name, uid=f"{name}@{at:g}", labels=labels, creation_timestamp=created)
    taints = tuple(taint for taint in node.spec.taints if taint.key not in _OF_AUTOSCALERS)
    return replace(node, metadata=metadata, spec=replace(node.spec, taints=taints))


def _double_of(name: str) -> str:
    return f"{name}-double"


def _present(cluster: SimulatedCluster, names: Iterable[str]) -> list[tuple[str, Node]]:
    live = cluster.live
    rows = ((name, live.find_row(name)) for name in names)
    return [(name, live.node(row)) for name, row in rows if row is not None]
