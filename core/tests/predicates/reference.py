"""The predicates that count pods, without kept counts and without numpy: the reference for the fast ones."""

from collections.abc import Mapping

from nodewright.model.node import Node
from nodewright.model.pod import TopologySpreadConstraint
from nodewright.predicates.inter_pod_affinity import (
    AFFINITY_REASON,
    ANTI_AFFINITY_REASON,
    EXISTING_REASON,
    NO_LABELS,
    Term,
    terms_of,
    with_selected,
)
from nodewright.predicates.node_selector import demand_of
from nodewright.predicates.pod_topology_spread import KEY_REASON, SKEW_REASON
from nodewright.predicates.selectors import matches_selector
from nodewright.predicates.taint_toleration import tolerates_all
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import PODS, node_amounts
from nodewright.snapshot.snapshot import Snapshot

Reasons = tuple[str, ...]


def explain_fit(snapshot: Snapshot, pod: PodClass, row: int) -> Reasons | None:
    """NodeResourcesFit, by adding up every pod of the node."""
    offered = node_amounts(snapshot.node(row).allocatable)
    for other, rows in snapshot.placements():
        for name, amount in {PODS: 1, **other.placed_requests}.items():
            offered[name] = offered.get(name, 0) - amount * rows.get(row, 0)
    reasons = ["Too many pods"] if offered.get(PODS, 0) < 1 else []
    first = ["cpu", "memory", "ephemeral-storage"]
    names = [*first, *sorted(set(pod.requests) - set(first))]
    short = [name for name in names if pod.requests.get(name, 0) > max(offered.get(name, 0), 0)]
    reasons.extend(f"Insufficient {name}" for name in short)
    return tuple(reasons) or None


def explain_spread(snapshot: Snapshot, pod: PodClass, row: int) -> Reasons | None:
    """PodTopologySpread, by counting every pod of every node that takes part."""
    labels = snapshot.node(row).metadata.labels
    for constraint in _hard(pod):
        value = labels.get(constraint.topology_key)
        if value is None:
            return (KEY_REASON,)
        counts = _pods_by_domain(snapshot, pod, constraint)
        wanted = 1 if constraint.min_domains is None else constraint.min_domains
        least = 0 if len(counts) < wanted else min(counts.values(), default=2**31 - 1)
        own = _selects(pod, constraint, pod.labels)
        if counts.get(value, 0) + own - least > constraint.max_skew:
            return (SKEW_REASON,)
    return None


def _hard(pod: PodClass) -> list[TopologySpreadConstraint]:
    return [c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == "DoNotSchedule"]


def _selects(pod: PodClass, constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> bool:
    own = [key for key in constraint.match_label_keys if key in pod.labels]
    if any(labels.get(key) != pod.labels[key] for key in own):
        return False
    return matches_selector(labels, constraint.label_selector) or (constraint.label_selector is None and bool(own))


def _is_empty(pod: PodClass, constraint: TopologySpreadConstraint) -> bool:
    selector = constraint.label_selector
    stated = selector is not None and (selector.match_labels or selector.match_expressions)
    return not stated and not any(key in pod.labels for key in constraint.match_label_keys)


def _pods_by_domain(snapshot: Snapshot, pod: PodClass, constraint: TopologySpreadConstraint) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for row, node in snapshot.nodes():
        if _takes_part(pod, constraint, node):
            value = node.metadata.labels[constraint.topology_key]
            counts[value] = counts.get(value, 0) + _pods_on(snapshot, pod, constraint, row)
    return counts


def _takes_part(pod: PodClass, constraint: TopologySpreadConstraint, node: Node) -> bool:
    if any(other.topology_key not in node.metadata.labels for other in _hard(pod)):
        return False
    if constraint.node_affinity_policy == "Honor" and not demand_of(pod).holds(node):
        return False
    return constraint.node_taints_policy != "Honor" or tolerates_all(pod.spec.tolerations, node.spec.taints)


def _pods_on(snapshot: Snapshot, pod: PodClass, constraint: TopologySpreadConstraint, row: int) -> int:
    if _is_empty(pod, constraint):
        return 0
    return sum(
        rows.get(row, 0)
        for other, rows in snapshot.placements()
        if other.namespace == pod.namespace and not other.terminating and _selects(pod, constraint, other.labels)
    )


def explain_affinity(snapshot: Snapshot, pod: PodClass, row: int) -> Reasons | None:
    """InterPodAffinity, by looking at every pod of every node."""
    labels = snapshot.node(row).metadata.labels
    terms, namespaces = terms_of(pod), snapshot.context.namespaces
    affinity = with_selected(terms.affinity, namespaces)
    if affinity and not _has_wanted_pods(snapshot, pod, affinity, labels):
        return (AFFINITY_REASON,)
    for term in with_selected(terms.anti_affinity, namespaces):
        if any(term.is_about(other, NO_LABELS) and _near(snapshot, term, other, labels) for other in _placed(snapshot)):
            return (ANTI_AFFINITY_REASON,)
    own = namespaces.get(pod.namespace, NO_LABELS)
    for owner in _placed(snapshot):
        for term in terms_of(owner).anti_affinity:
            if term.is_about(pod, own) and _near(snapshot, term, owner, labels):
                return (EXISTING_REASON,)
    return None


def _has_wanted_pods(snapshot: Snapshot, pod: PodClass, terms: tuple[Term, ...], labels: Mapping[str, str]) -> bool:
    if any(term.key not in labels for term in terms):
        return False
    wanted_pods = [other for other in _placed(snapshot) if all(term.is_about(other, NO_LABELS) for term in terms)]
    pairs = {
        (term.key, there[term.key])
        for other in wanted_pods
        for there in _labels_where(snapshot, other)
        for term in terms
        if term.key in there
    }
    if not pairs:
        return all(term.is_about(pod, NO_LABELS) for term in terms)
    return all((term.key, labels[term.key]) in pairs for term in terms)


def _placed(snapshot: Snapshot) -> list[PodClass]:
    return [other for other, _ in snapshot.placements()]


def _labels_where(snapshot: Snapshot, other: PodClass) -> list[Mapping[str, str]]:
    return [snapshot.node(row).metadata.labels for row in snapshot.rows_of(other)]


def _near(snapshot: Snapshot, term: Term, other: PodClass, labels: Mapping[str, str]) -> bool:
    """Whether a pod of the other class is in the domain of a node with these labels."""
    value = labels.get(term.key)
    return value is not None and any(there.get(term.key) == value for there in _labels_where(snapshot, other))
