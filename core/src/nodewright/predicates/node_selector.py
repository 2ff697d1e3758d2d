"""Node selectors, as columns over many nodes and as a test of one node (as in component-helpers' nodeaffinity)."""

from collections.abc import Iterable
from functools import cached_property, reduce

import numpy as np

from nodewright.model.meta import Requirement
from nodewright.model.node import Node
from nodewright.model.pod import NodeSelector, NodeSelectorTerm
from nodewright.predicates.selectors import Labels, SelectorRequirement, parse_requirement
from nodewright.snapshot.column import ColumnKey, Ids, Mask
from nodewright.snapshot.node_table import NodeTable
from nodewright.snapshot.pod_class import PodClass, per_class

NAME_FIELD = "metadata.name"
# The number of a label value that no node bears; a node without the label has -1.
_UNKNOWN = -2


class NodeDemand:
    """A pod's nodeSelector and required terms; equal demands share one column."""

    def __init__(self, equal: dict[str, str] | None, selector: NodeSelector | None) -> None:
        self.equal = tuple(sorted(equal.items())) if equal else ()
        self.selector = selector
        self.key = ColumnKey("node demand", self.equal, selector)
        self._hash = hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeDemand) and self.key == other.key

    @property
    def is_free(self) -> bool:
        """Return whether every node meets the demand."""
        return not self.equal and self.selector is None

    @cached_property
    def names(self) -> frozenset[str] | None:
        """The names of the only nodes that PreFilter admits; None if a term does not restrict the name.

        A list of several names counts here, although the filter itself then refuses it.
        """
        if self.selector is None or not self.selector.node_selector_terms:
            return None
        names: set[str] = set()
        for term in self.selector.node_selector_terms:
            named = _names_of_term(term)
            if named is None:
                return None
            names |= named
        return frozenset(names)

    def mask(self, table: NodeTable, window: slice) -> Mask:
        """Return a mask of the rows that meet the demand."""
        parts = [_has_value(table, window, key, value) for key, value in self.equal]
        if self.selector is not None:
            parts.append(selector_mask(table, window, self.selector))
        return _all(parts, window)

    def holds(self, node: Node) -> bool:
        """Return whether a node meets the demand."""
        labels = node.metadata.labels
        if any(labels.get(key) != value for key, value in self.equal):
            return False
        return self.selector is None or matches_node(self.selector, labels, node.name)


_NO_DEMAND = NodeDemand(None, None)


def demand_of(pod: PodClass) -> NodeDemand:
    """Return the demand of the pods of a class on their node."""
    spec = pod.spec
    return _demand_of(pod) if spec.node_selector or spec.affinity is not None else _NO_DEMAND


@per_class
def _demand_of(pod: PodClass) -> NodeDemand:
    affinity = pod.spec.affinity
    node_affinity = affinity.node_affinity if affinity else None
    return NodeDemand(pod.spec.node_selector, node_affinity.required if node_affinity else None)


def demand_column(table: NodeTable, demand: NodeDemand) -> Mask:
    """Return a mask of the rows that meet a demand; cached for all equal demands."""
    return table.column(demand.key, demand.mask)


def matches_node(selector: NodeSelector, labels: Labels, name: str = "") -> bool:
    """Return whether any term matches. A term that is empty or has an invalid requirement never matches.

    Without a name, field requirements are ignored (PersistentVolumes).
    """
    return any(_term_holds(term, labels, name) for term in selector.node_selector_terms)


def _names_of_term(term: NodeSelectorTerm) -> set[str] | None:
    lists = [set(r.values) for r in term.match_fields if r.key == NAME_FIELD and r.operator == "In"]
    return set.intersection(*lists) if lists else None


def _term_holds(term: NodeSelectorTerm, labels: Labels, name: str) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    for requirement in term.match_expressions:
        parsed = parse_requirement(requirement, compare=True)
        if parsed is None or not parsed.holds(labels):
            return False
    if not all(map(_is_field_usable, term.match_fields)):
        return False
    return not name or all(_field_holds(requirement, name) for requirement in term.match_fields)


def _is_field_usable(requirement: Requirement) -> bool:
    return requirement.operator in ("In", "NotIn") and len(requirement.values) == 1


def _field_holds(requirement: Requirement, name: str) -> bool:
    own = name if requirement.key == NAME_FIELD else ""
    return (own == requirement.values[0]) == (requirement.operator == "In")


def selector_mask(table: NodeTable, window: slice, selector: NodeSelector, *, named: bool = True) -> Mask:
    """Return a mask of the rows that match any term; ``named``: field requirements on node names count."""
    found = np.zeros(window.stop - window.start, dtype=np.bool_)
    for term in selector.node_selector_terms:
        passing = _term_mask(table, window, term, named=named)
        if passing is not None:
            found |= passing
    return found


def _term_mask(table: NodeTable, window: slice, term: NodeSelectorTerm, *, named: bool) -> Mask | None:
    """Return a mask of the rows that match a term; None if it never matches."""
    if not term.match_expressions and not term.match_fields:
        return None
    parsed = [parse_requirement(requirement, compare=True) for requirement in term.match_expressions]
    if not all(map(_is_field_usable, term.match_fields)) or None in parsed:
        return None
    parts = [requirement_mask(table, window, requirement) for requirement in parsed if requirement is not None]
    if named:
        parts.extend(_field_mask(table, window, requirement) for requirement in term.match_fields)
    return _all(parts, window)


def requirement_mask(table: NodeTable, window: slice, requirement: SelectorRequirement) -> Mask:
    """Return a mask of the rows whose labels meet a requirement."""
    ids = table.labels(requirement.key)[window]
    match requirement.operator:
        case "In":
            return _is_one_of(table, ids, requirement)
        case "NotIn":
            return ~_is_one_of(table, ids, requirement)
        case "Exists":
            return ids >= 0
        case "DoesNotExist":
            return ids < 0
    return _compares(table, ids, requirement)


def _has_value(table: NodeTable, window: slice, key: str, value: str) -> Mask:
    found: Mask = table.labels(key)[window] == table.vocabulary.label_values.get(key, {}).get(value, _UNKNOWN)
    return found


def _is_one_of(table: NodeTable, ids: Ids, requirement: SelectorRequirement) -> Mask:
    known = table.vocabulary.label_values.get(requirement.key, {})
    wanted = [known[value] for value in requirement.values if value in known]
    return np.isin(ids, wanted) if len(wanted) > 1 else ids == (wanted[0] if wanted else _UNKNOWN)


def _compares(table: NodeTable, ids: Ids, requirement: SelectorRequirement) -> Mask:
    present, where = np.unique(ids, return_inverse=True)
    texts = list(table.vocabulary.label_values.get(requirement.key, {}))
    verdicts = [index >= 0 and requirement.compares(texts[index]) for index in present.tolist()]
    found: Mask = np.array(verdicts, dtype=np.bool_)[where]
    return found


def _field_mask(table: NodeTable, window: slice, requirement: Requirement) -> Mask:
    rows = range(window.start, window.stop)
    verdicts = (_field_holds(requirement, table.name(row)) for row in rows)
    return np.fromiter(verdicts, dtype=np.bool_, count=len(rows))


def _all(parts: Iterable[Mask], window: slice) -> Mask:
    return reduce(np.logical_and, parts, np.ones(window.stop - window.start, dtype=np.bool_))
