"""Which group CA's fast path multiplies by arithmetic."""

from collections.abc import Sequence

from nodewright.estimator.pod_group import PodGroup
from nodewright.model.meta import Resources
from nodewright.model.node import HOSTNAME_LABEL, Node
from nodewright.model.pod import PodAffinityTerm
from nodewright.predicates.selectors import matches_selector
from nodewright.snapshot.pod_class import PodClass


def move_fastest_last(groups: Sequence[PodGroup], node: Node) -> tuple[list[PodGroup], PodGroup | None]:
    """The groups with the one whose arithmetic saves most simulation last (of equals, the later one)."""
    fast, best = None, -1
    for group in groups:
        saving = _saving(group, node.status.capacity)
        if saving is not None and saving >= best:
            fast, best = group, saving
    if fast is None:
        return list(groups), None
    return [group for group in groups if group is not fast] + [fast], fast


def _saving(group: PodGroup, capacity: Resources) -> int | None:
    """Pods that need no simulation, or None where arithmetic would be wrong."""
    spec = group.pod_class.spec
    terms = _anti_affinity(group.pod_class)
    if spec.topology_spread_constraints or any(term.topology_key != HOSTNAME_LABEL for term in terms):
        return None
    pods = len(group.pods)
    nodes = pods if _repels_itself(group.pod_class, terms) else 1
    requests = spec.containers[0].resources.requests if spec.containers else {}
    for name in ("cpu", "memory"):
        if name in requests and name in capacity and capacity[name].nano:
            nodes = max(nodes, -(-pods * requests[name].nano // capacity[name].nano))
    return pods - pods // nodes


def _anti_affinity(pod_class: PodClass) -> tuple[PodAffinityTerm, ...]:
    affinity = pod_class.spec.affinity
    return affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ()


def _repels_itself(pod_class: PodClass, terms: Sequence[PodAffinityTerm]) -> bool:
    return any(
        term.label_selector is not None and matches_selector(pod_class.labels, term.label_selector) for term in terms
    )
