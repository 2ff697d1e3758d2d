"""May a pod stand on a node at all, told from the two alone: taints, cordon, selectors and required node affinity."""

from nodewright.model.meta import Requirement
from nodewright.model.node import Node, Taint
from nodewright.model.pod import NodeSelectorTerm, Pod, Toleration
from nodewright.validate.movable import holds

_REPELLING = ("NoSchedule", "NoExecute")
_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def why_unfit(pod: Pod, node: Node) -> str:
    """Why the node takes no such pod; empty where nothing of this keeps it away."""
    for taint in node.spec.taints:
        if taint.effect in _REPELLING and not _is_tolerated(pod, taint):
            return f"node {node.name} has the taint {taint.key}"
    if node.spec.unschedulable and not _is_tolerated(pod, _CORDON):
        return f"node {node.name} is cordoned"
    wanted = (pod.spec.node_selector or {}).items()
    if any(node.metadata.labels.get(key) != value for key, value in wanted):
        return f"node {node.name} lacks a label that it selects"
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    if required is not None and not any(_is_met(term, node) for term in required.node_selector_terms):
        return f"node {node.name} is none that its node affinity requires"
    return ""


def _is_tolerated(pod: Pod, taint: Taint) -> bool:
    return any(_tolerates(toleration, taint) for toleration in pod.spec.tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def _is_met(term: NodeSelectorTerm, node: Node) -> bool:
    """A term that asks for nothing is met by no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    labels, fields = node.metadata.labels, {"metadata.name": node.name}
    by_labels = all(_holds(wanted, labels) for wanted in term.match_expressions)
    return by_labels and all(holds(wanted, fields) for wanted in term.match_fields)


def _holds(wanted: Requirement, labels: dict[str, str]) -> bool:
    if wanted.operator not in ("Gt", "Lt"):
        return holds(wanted, labels)
    try:
        has, limit = int(labels[wanted.key]), int(wanted.values[0])
    except (KeyError, IndexError, ValueError):
        return False
    return has > limit if wanted.operator == "Gt" else has < limit
