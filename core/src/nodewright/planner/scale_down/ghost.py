"""A tainted copy without pods that stands for a node on its way out, where pods count nodes with taints no longer."""

from msgspec.structs import replace

from nodewright.model.node import TO_BE_DELETED_TAINT, Node, Taint
from nodewright.snapshot.pod_class import PodClass, per_class
from nodewright.snapshot.snapshot import Snapshot


def leave_ghost(board: Snapshot, row: int, now: float) -> int:
    """Put a tainted copy without pods in place of a node; answers its row."""
    node = board.node(row)
    board.remove_node(row)
    return board.add_node(tainted(node, now))


def tainted(node: Node, now: float) -> Node:
    """The node as it will be marked for deletion."""
    mark = Taint(key=TO_BE_DELETED_TAINT, effect="NoSchedule", value=str(int(now)))
    return replace(node, spec=replace(node.spec, taints=(*node.spec.taints, mark)))


@per_class
def heeds_taints(pod_class: PodClass) -> bool:
    """Whether the pod spreads over nodes that it tolerates, of which a node marked for deletion is none."""
    return any(
        constraint.when_unsatisfiable == "DoNotSchedule" and constraint.node_taints_policy == "Honor"
        for constraint in pod_class.spec.topology_spread_constraints
    )
