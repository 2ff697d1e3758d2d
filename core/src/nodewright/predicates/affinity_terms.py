"""Parsed terms of required pod affinity and anti-affinity."""

from collections.abc import Mapping
from dataclasses import dataclass

from nodewright.model.pod import PodAffinity, PodAffinityTerm
from nodewright.predicates.selectors import Labels, Selector, parse_selector
from nodewright.snapshot.pod_class import PodClass, per_class

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
