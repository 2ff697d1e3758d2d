"""InterPodAffinity: required affinity and anti-affinity of the pod, and anti-affinity of pods on the nodes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from nodewright.model.pod import PodAffinity, PodAffinityTerm
from nodewright.predicates.predicate import Predicate, Texts, whole
from nodewright.predicates.selectors import Labels, Selector, parse_selector
from nodewright.snapshot.column import Ids, Mask
from nodewright.snapshot.domains import DomainQuery, Shortlist
from nodewright.snapshot.node_table import NodeTable
from nodewright.snapshot.pod_class import PodClass, per_class
from nodewright.snapshot.snapshot import Snapshot

Namespaces = Mapping[str, Mapping[str, str]]
NO_LABELS: Mapping[str, str] = {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Term:
    """One term. ``selector`` None matches no pod, ``namespace_selector`` None selects no namespace."""

    key: str
    selector: Selector | None
    namespaces: frozenset[str]
    namespace_selector: Selector | None

    def is_about(self, pod: PodClass, namespace_labels: Labels) -> bool:
        """Return whether the term selects a pod whose namespace has these labels."""
        if pod.namespace not in self.namespaces and not self._selects(namespace_labels):
            return False
        return self.selector is not None and self.selector.matches(pod.labels)

    def _selects(self, namespace_labels: Labels) -> bool:
        return self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels)


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """All required terms of a pod. An invalid selector voids all terms of its kind; ``broken`` names the kind."""

    affinity: tuple[Term, ...]
    anti_affinity: tuple[Term, ...]
    broken: str | None


@per_class
def terms_of(pod: PodClass) -> Terms:
    """Return the terms as the pod states them, for a pod that is on a node."""
    stated = pod.spec.affinity
    affinity = _parse(pod, stated.pod_affinity if stated else None)
    anti_affinity = _parse(pod, stated.pod_anti_affinity if stated else None)
    broken = "requiredAntiAffinityTerms" if anti_affinity is None else None
    return Terms(
        affinity=affinity or (),
        anti_affinity=anti_affinity or (),
        broken=broken or ("requiredAffinityTerms" if affinity is None else None),
    )


@per_class
def marks_of_guard(pod: PodClass) -> frozenset[tuple[str, str] | None]:
    """Return a label of the pods that each anti-affinity term selects; None for a term without a single such label."""
    selectors = (term.selector for term in terms_of(pod).anti_affinity)
    return frozenset(selector.label for selector in selectors if selector is not None)


def with_selected(terms: tuple[Term, ...], namespaces: Namespaces) -> tuple[Term, ...]:
    """Return the terms as kube-scheduler evaluates them for an incoming pod.

    The namespaces that a non-empty selector matches are added to the listed ones. The selector itself stays, and is then
    matched against an empty set of labels (docs/adr/0002-namespace-selector-quirk.md).
    """
    return tuple(_with_selected(term, namespaces) for term in terms)


def _with_selected(term: Term, namespaces: Namespaces) -> Term:
    selector = term.namespace_selector
    if selector is None or selector.is_everything:
        return term
    selected = (name for name, labels in namespaces.items() if selector.matches(labels))
    names = term.namespaces.union(selected)
    return Term(key=term.key, selector=term.selector, namespaces=names, namespace_selector=selector)


def _parse(pod: PodClass, affinity: PodAffinity | None) -> tuple[Term, ...] | None:
    terms = [_parse_term(pod, term) for term in affinity.required] if affinity else []
    usable = tuple(term for term in terms if term is not None)
    return usable if len(usable) == len(terms) else None


def _parse_term(pod: PodClass, term: PodAffinityTerm) -> Term | None:
    selector = parse_selector(term.label_selector) if term.label_selector else None
    namespace_selector = parse_selector(term.namespace_selector) if term.namespace_selector else None
    if (selector is None) != (term.label_selector is None):
        return None
    if (namespace_selector is None) != (term.namespace_selector is None):
        return None
    own = [pod.namespace] if not term.namespaces and term.namespace_selector is None else term.namespaces
    return Term(
        key=term.topology_key,
        selector=selector,
        namespaces=frozenset(own),
        namespace_selector=namespace_selector,
    )


AFFINITY_REASON = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY_REASON = "node(s) didn't match pod anti-affinity rules"
EXISTING_REASON = "node(s) didn't satisfy existing pods anti-affinity rules"

# A topology key and the pods counted in its domains.
Counted = tuple[str, DomainQuery]


@dataclass(frozen=True, kw_only=True, eq=False)
class _CompiledTerms:
    """The compiled terms of an incoming pod: one query per topology key.

    ``wanted`` counts pods that all affinity terms select; ``unwanted`` counts pods that any anti-affinity term of the key
    selects. ``starts``: the pod selects itself, so it may be placed where no wanted pod exists anywhere.
    """

    names: tuple[frozenset[str], ...]
    wanted: tuple[Counted, ...]
    unwanted: tuple[Counted, ...]
    starts: bool


def is_guarded_against(snapshot: Snapshot, pod: PodClass) -> bool:
    """Return whether the anti-affinity of any pod on a node selects pods of this class."""
    return any(snapshot.domain_counts(query).total for _, query in _guards(snapshot, pod))


def is_countable(snapshot: Snapshot, pod: PodClass) -> bool:
    """Return whether only amounts of resources limit the pods of the class per node."""
    return pod.is_plain and not is_guarded_against(snapshot, pod)


def has_guards(snapshot: Snapshot) -> bool:
    """Return whether any pod on a node, now or before, had anti-affinity."""
    return bool(snapshot.placed_by(marks_of_guard))


def _domains(key: str) -> Callable[[NodeTable], Ids]:
    return lambda table: table.labels(key)


def _demand(pod: PodClass, namespaces: Namespaces) -> _CompiledTerms:
    """Return the compiled terms, cached until the selected namespaces change."""
    known: tuple[Namespaces, _CompiledTerms] | None = pod.compiled.get(_demand)
    if known is not None and known[0] is namespaces:
        return known[1]
    terms = terms_of(pod)
    affinity = with_selected(terms.affinity, namespaces)
    unwanted = with_selected(terms.anti_affinity, namespaces)
    names = tuple(term.namespaces for term in (*affinity, *unwanted))
    demand = known[1] if known and known[1].names == names else _compile(pod, names, affinity, unwanted)
    pod.compiled[_demand] = (namespaces, demand)
    return demand


def _compile(
    pod: PodClass, names: tuple[frozenset[str], ...], affinity: tuple[Term, ...], unwanted: tuple[Term, ...]
) -> _CompiledTerms:
    def is_wanted(other: PodClass) -> bool:
        return all(term.is_about(other, NO_LABELS) for term in affinity)

    return _CompiledTerms(
        names=names,
        wanted=tuple((key, DomainQuery(_domains(key), is_wanted, _shortlist(affinity[:1]))) for key in _keys(affinity)),
        unwanted=tuple((key, _any_of(key, unwanted)) for key in _keys(unwanted)),
        starts=is_wanted(pod),
    )


def _keys(terms: Iterable[Term]) -> list[str]:
    return list(dict.fromkeys(term.key for term in terms))


def _any_of(key: str, terms: tuple[Term, ...]) -> DomainQuery:
    chosen = tuple(term for term in terms if term.key == key)

    def is_unwanted(other: PodClass) -> bool:
        return any(term.is_about(other, NO_LABELS) for term in chosen)

    return DomainQuery(_domains(key), is_unwanted, _shortlist(chosen))


def _shortlist(terms: tuple[Term, ...]) -> Shortlist | None:
    """Return a shortlist of the pods that a single term selects; None for several terms."""
    selector = terms[0].selector if len(terms) == 1 else None
    return selector.shortlist if selector is not None else None


def _guards(snapshot: Snapshot, pod: PodClass) -> tuple[Counted, ...]:
    """Return for each topology key the counts of pods whose anti-affinity is about this class, without empty ones."""
    index = snapshot.placed_by(marks_of_guard)
    if not index:
        return ()
    labels = snapshot.context.namespaces.get(pod.namespace, NO_LABELS)
    known = pod.compiled.get(_guards)
    if known is not None and known[0] is index and known[1] is labels:
        found: tuple[Counted, ...] = known[2]
        return found
    owners = [owner for mark in (None, *pod.labels.items()) for owner in index.get(mark, ())]
    keys = sorted({term.key for owner in owners for term in terms_of(owner).anti_affinity})
    queries = [(key, _guard_query(pod, key, labels)) for key in keys]
    found = tuple((key, query) for key, query in queries if any(query.weight(owner) for owner in owners))
    pod.compiled[_guards] = (index, labels, found)
    return found


def _guard_query(pod: PodClass, key: str, labels: Mapping[str, str]) -> DomainQuery:
    name = (_guard_query, key, frozenset(labels.items()))
    query: DomainQuery | None = pod.compiled.get(name)
    if query is None:

        def guards(owner: PodClass) -> bool:
            return any(term.key == key and term.is_about(pod, labels) for term in terms_of(owner).anti_affinity)

        wanted = frozenset([None, *pod.labels.items()])
        query = pod.compiled[name] = DomainQuery(_domains(key), guards, Shortlist(marks_of_guard, wanted))
    return query


def _mask(snapshot: Snapshot, pod: PodClass, window: slice) -> Mask | None:
    demand = _demand(pod, snapshot.context.namespaces)
    found = _affinity_mask(snapshot, demand, window) if demand.wanted else None
    for key, query in (*demand.unwanted, *_guards(snapshot, pod)):
        counts = snapshot.domain_counts(query)
        if counts.total:
            free = counts.pods_at(snapshot.labels(key)[window]) == 0
            found = free if found is None else found & free
    return found


def _affinity_mask(snapshot: Snapshot, demand: _CompiledTerms, window: slice) -> Mask:
    """Return a mask of the rows with every key of the affinity terms and wanted pods in each of these domains."""
    found: Mask = np.ones(window.stop - window.start, dtype=np.bool_)
    counted = [(snapshot.labels(key)[window], snapshot.domain_counts(query)) for key, query in demand.wanted]
    first = demand.starts and not any(counts.total for _, counts in counted)
    for ids, counts in counted:
        found &= ids >= 0 if first else (ids >= 0) & (counts.pods_at(ids) > 0)
    return found


def _refuse_pod(_: Snapshot, pod: PodClass) -> Texts | None:
    broken = terms_of(pod).broken
    return (f"parsing pod: {broken}: a label selector breaks the rules for labels",) if broken else None


def _explain(snapshot: Snapshot, pod: PodClass, row: int) -> Texts | None:
    demand = _demand(pod, snapshot.context.namespaces)
    labels = snapshot.node(row).metadata.labels
    if not _has_wanted_pods(snapshot, demand, labels):
        return (AFFINITY_REASON,)
    if any(_pods_near(snapshot, labels, counted) for counted in demand.unwanted):
        return (ANTI_AFFINITY_REASON,)
    if any(_pods_near(snapshot, labels, counted) for counted in _guards(snapshot, pod)):
        return (EXISTING_REASON,)
    return None


def _has_wanted_pods(snapshot: Snapshot, demand: _CompiledTerms, labels: Mapping[str, str]) -> bool:
    if any(key not in labels for key, _ in demand.wanted):
        return False
    none_exists = not any(snapshot.domain_counts(query).total for _, query in demand.wanted)
    return (none_exists and demand.starts) or all(_pods_near(snapshot, labels, counted) for counted in demand.wanted)


def _pods_near(snapshot: Snapshot, labels: Mapping[str, str], counted: Counted) -> int:
    """Return the number of counted pods in the domain of a node with these labels; 0 if it lacks the key."""
    key, query = counted
    value = labels.get(key)
    if value is None:
        return 0
    return snapshot.domain_counts(query).pods_in(snapshot.vocabulary.value_id(key, value))


PREDICATE = Predicate(name="InterPodAffinity", reads=whole, mask=_mask, explain=_explain, refuse_pod=_refuse_pod)
