"""The value of a PromQL expression over scrapes of our metrics: what the chart's alerts use, and nothing else.

Between two scrapes a series has its last value. So an increase is the difference of two values, without Prometheus' extrapolation.
"""

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import promql_parser as promql
from prometheus_client import CollectorRegistry
from tests.deploy.promql import Wrong

Labels = frozenset[tuple[str, str]]
Vector = Mapping[Labels, float]

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {"==": operator.eq, ">": operator.gt, ">=": operator.ge}


class _Scrape(NamedTuple):
    at: float
    series: Mapping[str, Vector]


class Scrapes:
    """Scrapes of one process in order of time (epoch seconds)."""

    def __init__(self) -> None:
        self._scrapes: list[_Scrape] = []

    def take(self, registry: CollectorRegistry, at: float) -> None:
        series: dict[str, dict[Labels, float]] = {}
        for family in registry.collect():
            for sample in family.samples:
                series.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
        self._scrapes.append(_Scrape(at, series))

    def value(self, text: str) -> Vector:
        """Return the series of the answer at the last scrape; empty: an alert with this expression does not fire."""
        found = self._of(promql.parse(text))
        assert not isinstance(found, float)
        return found

    def _of(self, expr: Any) -> Vector | float:
        match expr:
            case promql.NumberLiteral():
                return float(expr.val)
            case promql.ParenExpr():
                return self._of(expr.expr)
            case promql.VectorSelector():
                return _select(expr, self._scrapes[-1])
            case promql.AggregateExpr():
                return self._aggregate(expr)
            case promql.BinaryExpr():
                return _combine(expr, self._of(expr.lhs), self._of(expr.rhs))
            case promql.Call():
                return self._call(expr)
        raise Wrong(f"{type(expr).__name__} is not known")

    def _call(self, expr: promql.Call) -> Vector | float:
        name = expr.func.name
        if name == "time":
            return self._scrapes[-1].at
        if name not in ("increase", "max_over_time"):
            raise Wrong(f"{name} is not known")
        selector = expr.args[0].vector_selector
        since = self._scrapes[-1].at - expr.args[0].range.total_seconds()
        within = [scrape for scrape in self._scrapes if scrape.at > since]
        before = [scrape for scrape in self._scrapes if scrape.at <= since][-1:]
        scrapes = [_select(selector, scrape) for scrape in (*before, *within)]
        if name == "increase":
            return {labels: value - scrapes[0].get(labels, 0.0) for labels, value in scrapes[-1].items()}
        return {labels: max(held.get(labels, value) for held in scrapes) for labels, value in scrapes[-1].items()}

    def _aggregate(self, expr: promql.AggregateExpr) -> Vector:
        by = expr.modifier.labels if expr.modifier is not None else ()
        inner = self._of(expr.expr)
        assert not isinstance(inner, float)
        grouped: dict[Labels, list[float]] = {}
        for labels, value in inner.items():
            grouped.setdefault(_only(labels, by), []).append(value)
        if str(expr.op) not in ("sum", "max"):
            raise Wrong(f"{expr.op} is not known")
        is_sum = str(expr.op) == "sum"
        return {labels: sum(values) if is_sum else max(values) for labels, values in grouped.items()}


def _select(selector: Any, scrape: _Scrape) -> Vector:
    def suits(labels: Labels) -> bool:
        held = dict(labels)
        return all(_matches(one, held.get(one.name, "")) for one in selector.matchers.matchers)

    return {labels: value for labels, value in scrape.series.get(selector.name, {}).items() if suits(labels)}


def _matches(matcher: Any, value: str) -> bool:
    if matcher.op == promql.MatchOp.Equal:
        return bool(value == matcher.value)
    if matcher.op == promql.MatchOp.Re:
        return re.fullmatch(matcher.value, value) is not None
    raise Wrong(f"{matcher.op} is not known")


def _combine(expr: promql.BinaryExpr, left: Vector | float, right: Vector | float) -> Vector | float:
    sign = str(expr.op)
    if sign == "-" and isinstance(left, float) and not isinstance(right, float):
        return {labels: left - value for labels, value in right.items()}
    if isinstance(left, float):
        raise Wrong(f"{sign} with a number before it is not known")
    if sign in _COMPARISONS and isinstance(right, float):
        return {labels: value for labels, value in left.items() if _COMPARISONS[sign](value, right)}
    if isinstance(right, float):
        raise Wrong(f"{sign} with a number behind it is not known")
    on = expr.modifier.matching.labels if expr.modifier and expr.modifier.matching else None
    known = {_only(labels, on) for labels in right}
    match sign:
        case "and":
            return {labels: value for labels, value in left.items() if _only(labels, on) in known}
        case "unless":
            return {labels: value for labels, value in left.items() if _only(labels, on) not in known}
        case "or":
            mine = {_only(labels, on) for labels in left}
            return {**{labels: value for labels, value in right.items() if _only(labels, on) not in mine}, **left}
    raise Wrong(f"{sign} of two vectors is not known")


def _only(labels: Labels, names: Any) -> Labels:
    """Return the labels with these names; all, without names."""
    return labels if names is None else frozenset(pair for pair in labels if pair[0] in names)
