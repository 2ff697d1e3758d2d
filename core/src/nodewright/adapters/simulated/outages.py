"""Nodes that stop being ready for a while: their kubelet does not answer, their pods stay."""

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec.structs import replace

from nodewright.adapters.simulated.cluster import SimulatedCluster
from nodewright.clusterstate.readiness import is_ready
from nodewright.model.node import Node, NodeCondition, Taint
from nodewright.model.settings import TemplateSettings

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
