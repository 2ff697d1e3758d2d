"""PodTopologySpread: the hard spread constraints must hold with one more pod."""

from collections.abc import Iterable
from dataclasses import dataclass

from nodewright.model.pod import TopologySpreadConstraint
from nodewright.predicates.node_selector import NodeDemand, demand_column, demand_of
from nodewright.predicates.predicate import Predicate, Texts, whole
from nodewright.predicates.selectors import Selector, SelectorRequirement, parse_selector
from nodewright.predicates.taint_toleration import Tolerance, tolerance_column, tolerance_of
from nodewright.snapshot.column import ColumnKey, Ids, Ints, Mask
from nodewright.snapshot.domains import DomainCounts, DomainQuery
from nodewright.snapshot.node_table import NodeTable
from nodewright.snapshot.pod_class import PodClass, per_class
from nodewright.snapshot.snapshot import Snapshot

SKEW_REASON = "node(s) didn't match pod topology spread constraints"
KEY_REASON = f"{SKEW_REASON} (missing required label)"
SELECTOR_REASON = "getting pod's hard topology spread constraints: a label selector breaks the rules for labels"
# kube-scheduler's smallest count if no domain exists and minDomains is not set.
_NO_DOMAIN = 2**31 - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class _Nodes:
    """The nodes that take part in a constraint; equal ones share one column."""

    key: str
    keys: tuple[str, ...]
    demand: NodeDemand | None
    tolerance: Tolerance | None

    @property
    def column_key(self) -> ColumnKey:
        demand, tolerance = self.demand, self.tolerance
        return ColumnKey("spread", self.key, self.keys, demand and demand.key, tolerance and tolerance.key)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Constraint:
    """One compiled hard constraint. ``own`` is 1 if its selector matches the pod itself, or else 0."""

    key: str
    max_skew: int
    min_domains: int
    own: int
    query: DomainQuery


def hard_constraints(pod: PodClass) -> list[TopologySpreadConstraint]:
    """Return the constraints that kube-scheduler filters by."""
    return [c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == "DoNotSchedule"]


def _selector(pod: PodClass, constraint: TopologySpreadConstraint) -> Selector | None:
    """Return the selector with the pod's own values of matchLabelKeys; None: it matches nothing."""
    parsed = parse_selector(constraint.label_selector) if constraint.label_selector else None
    own = [key for key in constraint.match_label_keys if key in pod.labels]
    if not own:
        return parsed
    # Without a selector, kube-scheduler uses the keys alone.
    equal = [SelectorRequirement(key, "In", frozenset([pod.labels[key]])) for key in own]
    return Selector((*equal, *(parsed.requirements if parsed else ())))


def _counts_for(pod: PodClass, other: PodClass, selector: Selector | None) -> bool:
    """Return whether other pods count: same namespace, not terminating, selected. An empty selector selects no pod."""
    if selector is None or selector.is_everything or other.terminating:
        return False
    return other.namespace == pod.namespace and selector.matches(other.labels)


@per_class
def _constraints(pod: PodClass) -> tuple[_Constraint, ...]:
    keys = tuple(sorted({constraint.topology_key for constraint in hard_constraints(pod)}))
    return tuple(_compile(pod, constraint, keys) for constraint in hard_constraints(pod))


def _compile(pod: PodClass, constraint: TopologySpreadConstraint, keys: tuple[str, ...]) -> _Constraint:
    demand, selector = demand_of(pod), _selector(pod, constraint)
    nodes = _Nodes(
        key=constraint.topology_key,
        keys=keys,
        demand=demand if constraint.node_affinity_policy == "Honor" and not demand.is_free else None,
        tolerance=tolerance_of(pod) if constraint.node_taints_policy == "Honor" else None,
    )
    column_key = nodes.column_key

    def domains(table: NodeTable) -> Ids:
        return table.column(column_key, lambda table, window: _participants(table, window, nodes))

    return _Constraint(
        key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        own=int(selector is not None and selector.matches(pod.labels)),
        query=DomainQuery(
            domains, lambda other: _counts_for(pod, other, selector), selector.shortlist if selector else None
        ),
    )


def _participants(table: NodeTable, window: slice, nodes: _Nodes) -> Ids:
    """Return the domain ids of the nodes that take part; -1 for other nodes."""
    ids: Ids = table.labels(nodes.key)[window].copy()
    for key in nodes.keys:
        ids[table.labels(key)[window] < 0] = -1
    if nodes.demand is not None:
        ids[~demand_column(table, nodes.demand)[window]] = -1
    if nodes.tolerance is not None:
        ids[~tolerance_column(table, nodes.tolerance)[window]] = -1
    return ids


def _mask(snapshot: Snapshot, pod: PodClass, window: slice) -> Mask | None:
    found: Mask | None = None
    for constraint in _constraints(pod):
        counts = snapshot.domain_counts(constraint.query)
        ids = snapshot.labels(constraint.key)[window]
        limit = constraint.max_skew - constraint.own + _least(counts, constraint.min_domains)
        passing = (counts.pods_at(ids) <= limit) & (ids >= 0)
        found = passing if found is None else found & passing
    return found


@dataclass(frozen=True, eq=False)
class Skew:
    """One constraint that counts the pods of the class itself, with the smallest count of a domain now."""

    _constraint: _Constraint
    _least: int

    def room(self, snapshot: Snapshot, window: slice) -> Ints:
        """Return how many more pods each row takes while the smallest count does not change."""
        counts = snapshot.domain_counts(self._constraint.query)
        ids = snapshot.labels(self._constraint.key)[window]
        found: Ints = self._constraint.max_skew + self._least - counts.pods_at(ids)
        return found

    def is_pinned(self, snapshot: Snapshot, window: slice, full: Mask) -> bool:
        """Return whether a full row is in a domain with the smallest count; then pods of the class cannot raise that count."""
        counts = snapshot.domain_counts(self._constraint.query)
        ids = self._constraint.query.domains(snapshot)[window]
        fixed = self._least == 0 or self._constraint.min_domains <= 1
        return fixed and bool((full & (ids >= 0) & (counts.pods_at(ids) == self._least)).any())


def skews(snapshot: Snapshot, pod: PodClass) -> tuple[Skew, ...]:
    """Return the constraints of a class that count its own pods."""
    own = (constraint for constraint in _constraints(pod) if constraint.own)
    return tuple(Skew(one, _least(snapshot.domain_counts(one.query), one.min_domains)) for one in own)


def pods_in_domains(snapshot: Snapshot, pod: PodClass, key: str, values: Iterable[str]) -> dict[str, int]:
    """Return how many pods the class's constraint on this topology key counts in each domain."""
    query = next(constraint.query for constraint in _constraints(pod) if constraint.key == key)
    counts = snapshot.domain_counts(query)
    return {value: int(counts.pods_in(snapshot.vocabulary.value_id(key, value))) for value in values}


def _least(counts: DomainCounts, min_domains: int) -> int:
    """Return the smallest count of a domain; 0 if there are fewer domains than ``min_domains``."""
    existing = counts.pods[counts.nodes > 0]
    if len(existing) < min_domains:
        return 0
    return int(existing.min()) if len(existing) else _NO_DOMAIN


@per_class
def _is_broken(pod: PodClass) -> bool:
    stated = (constraint.label_selector for constraint in hard_constraints(pod))
    return any(selector is not None and parse_selector(selector) is None for selector in stated)


def _refuse_pod(_: Snapshot, pod: PodClass) -> Texts | None:
    return (SELECTOR_REASON,) if _is_broken(pod) else None


def _explain(snapshot: Snapshot, pod: PodClass, row: int) -> Texts | None:
    labels = snapshot.node(row).metadata.labels
    for constraint in _constraints(pod):
        value = labels.get(constraint.key)
        if value is None:
            return (KEY_REASON,)
        counts = snapshot.domain_counts(constraint.query)
        there = counts.pods_in(snapshot.vocabulary.value_id(constraint.key, value))
        if there + constraint.own - _least(counts, constraint.min_domains) > constraint.max_skew:
            return (SKEW_REASON,)
    return None


def _concerns(pod: PodClass) -> bool:
    return bool(hard_constraints(pod))


PREDICATE = Predicate(
    name="PodTopologySpread", reads=whole, mask=_mask, explain=_explain, refuse_pod=_refuse_pod, concerns=_concerns
)
