"""Label selectors by apimachinery's rules: validation and matching.

Input may be hostile: an invalid selector matches nothing and never raises an exception.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from nodewright.model.meta import LabelSelector, Requirement
from nodewright.snapshot.domains import Shortlist, labels_of

Labels = Mapping[str, str]

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DNS_LABELS = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_MAX_PREFIX = 253
_MAX_NAME = 63
_MAX_TEXT = 4096
_INT64 = range(-(2**63), 2**63)
_ARITY = {"In": range(1, 2**31), "NotIn": range(1, 2**31), "Exists": range(1), "DoesNotExist": range(1)}


def is_label_key(key: str) -> bool:
    """Return whether this is a qualified name: ``[prefix/]name``."""
    return len(key) <= _MAX_PREFIX + 1 + _MAX_NAME and _is_short_key(key)


def is_label_value(value: str) -> bool:
    """Return whether this is a valid label value."""
    return len(value) <= _MAX_NAME and _is_short_value(value)


@lru_cache(maxsize=65536)
def _is_short_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > _MAX_PREFIX or _DNS_LABELS.fullmatch(prefix) is None):
        return False
    return _NAME.fullmatch(name) is not None


@lru_cache(maxsize=65536)
def _is_short_value(value: str) -> bool:
    return value == "" or _NAME.fullmatch(value) is not None


def parse_int64(text: str) -> int | None:
    """Return the decimal number as Go's ParseInt reads it; None if it refuses the text."""
    if len(text) > _MAX_TEXT or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number in _INT64 else None


class SelectorRequirement:
    """One valid requirement on labels."""

    __slots__ = ("bound", "key", "operator", "values")

    def __init__(self, key: str, operator: str, values: frozenset[str], bound: int = 0) -> None:
        self.key = key
        self.operator = operator
        self.values = values
        self.bound = bound

    def holds(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        return value is not None and self.compares(value)

    def compares(self, value: str) -> bool:
        """Return whether a label's value is greater (Gt) or less (Lt) than the bound."""
        number = parse_int64(value)
        if number is None:
            return False
        return number > self.bound if self.operator == "Gt" else number < self.bound


def parse_requirement(requirement: Requirement, *, compare: bool = False) -> SelectorRequirement | None:
    """Return the requirement; None if it is invalid. ``compare`` allows Gt and Lt, which are valid for nodes only."""
    operator, values = requirement.operator, requirement.values
    if not is_label_key(requirement.key) or not all(map(is_label_value, values)):
        return None
    if compare and operator in ("Gt", "Lt"):
        bound = parse_int64(values[0]) if len(values) == 1 else None
        return None if bound is None else SelectorRequirement(requirement.key, operator, frozenset(), bound)
    if operator not in _ARITY or len(values) not in _ARITY[operator]:
        return None
    return SelectorRequirement(requirement.key, operator, frozenset(values))


class Selector:
    """A valid label selector: all requirements must hold. Without any it matches everything."""

    __slots__ = ("requirements",)

    def __init__(self, requirements: Iterable[SelectorRequirement]) -> None:
        self.requirements = tuple(requirements)

    @property
    def is_everything(self) -> bool:
        return not self.requirements

    @property
    def label(self) -> tuple[str, str] | None:
        """Return a label that all matching objects have, taken from an In requirement with one value; None: no such one."""
        for one in self.requirements:
            if one.operator == "In" and len(one.values) == 1:
                return one.key, next(iter(one.values))
        return None

    @property
    def shortlist(self) -> Shortlist | None:
        """Return a shortlist that finds matching pods by a label; None if there is no such label."""
        return Shortlist(labels_of, frozenset([self.label])) if self.label else None

    def matches(self, labels: Labels) -> bool:
        return all(one.holds(labels) for one in self.requirements)


def parse_selector(selector: LabelSelector) -> Selector | None:
    """Return the selector; None if it is invalid."""
    equal = (Requirement(key=key, operator="In", values=(value,)) for key, value in selector.match_labels.items())
    parsed = [parse_requirement(requirement) for requirement in (*equal, *selector.match_expressions)]
    valid = [requirement for requirement in parsed if requirement is not None]
    return Selector(valid) if len(valid) == len(parsed) else None


def matches_selector(labels: Labels, selector: LabelSelector | None) -> bool:
    """Return whether labels match. None and an invalid selector match nothing."""
    parsed = parse_selector(selector) if selector is not None else None
    return parsed is not None and parsed.matches(labels)
