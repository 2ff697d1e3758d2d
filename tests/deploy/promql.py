"""What a PromQL expression asks of our metrics, and which labels its answer has.

It knows what the chart's expressions use; anything else is ``Wrong`` until it is taught here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import promql_parser as promql
from prometheus_client import CollectorRegistry

# What the scrape of a ServiceMonitor adds.
_OF_THE_SCRAPE = frozenset({"job", "instance", "namespace", "pod", "container", "service", "endpoint"})
_ONLY_COUNTERS = {"rate", "increase"}
_AGGREGATIONS = {"sum", "max"}
_SETS = {"and", "or", "unless"}
_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}


class Wrong(Exception):
    """The expression cannot mean what it is there for."""


@dataclass(frozen=True)
class Series:
    """``grows``: a counter, or a part of a histogram."""

    labels: frozenset[str]
    grows: bool


def read_series(registry: CollectorRegistry) -> dict[str, Series]:
    """Every series by the name that a query uses; labels are asked of the client library, for a series with labels has
    no line on the page before it is first counted.
    """
    found = {}
    for collector in list(registry._collector_to_names):
        for family in collector.collect():
            labels = {*getattr(collector, "_labelnames", getattr(family, "_labelnames", ()))}
            for suffix in _SUFFIXES.get(family.type, ("",)):
                known = labels | ({"le"} if suffix == "_bucket" else set()) | _OF_THE_SCRAPE
                found[family.name + suffix] = Series(frozenset(known), grows=family.type in _SUFFIXES)
    return found


class Checker:
    def __init__(self, series: Mapping[str, Series]) -> None:
        self._series = series

    def labels(self, text: str) -> frozenset[str]:
        """The labels of the answer; raises ``Wrong``, or ValueError for what is no PromQL."""
        return self._of(promql.parse(text))

    def _of(self, expr: Any) -> frozenset[str]:
        match expr:
            case promql.NumberLiteral() | promql.StringLiteral():
                return frozenset()
            case promql.ParenExpr():
                return self._of(expr.expr)
            case promql.VectorSelector():
                return self._of_selector(expr, grows=False)
            case promql.AggregateExpr():
                return self._of_aggregation(expr)
            case promql.BinaryExpr():
                return self._of_two(expr)
            case promql.Call():
                return self._of_call(expr)
        raise Wrong(f"{type(expr).__name__} is not known")

    def _of_selector(self, selector: promql.VectorSelector, *, grows: bool) -> frozenset[str]:
        series = self._series.get(selector.name or "")
        if series is None:
            raise Wrong(f"there is no metric {selector.name}")
        if series.grows != grows:
            raise Wrong(f"{selector.name}: rate and increase are for counters, and counters are for them")
        _need({matcher.name for matcher in selector.matchers.matchers}, series.labels, selector.name)
        return series.labels

    def _of_aggregation(self, expr: promql.AggregateExpr) -> frozenset[str]:
        if str(expr.op) not in _AGGREGATIONS:
            raise Wrong(f"{expr.op} is not known")
        inner = self._of(expr.expr)
        if expr.modifier is None:
            return frozenset()
        if expr.modifier.type != promql.AggModifierType.By:
            raise Wrong(f"{expr.op} without is not known")
        _need(expr.modifier.labels, inner, expr.op)
        return frozenset(expr.modifier.labels)

    def _of_call(self, expr: promql.Call) -> frozenset[str]:
        name, args = expr.func.name, expr.args
        if name == "time":
            return frozenset()
        if name == "absent":
            self._of(args[0])
            return frozenset()
        if name in _ONLY_COUNTERS and isinstance(args[0], promql.MatrixSelector):
            return self._of_selector(args[0].vector_selector, grows=True)
        if name == "max_over_time" and isinstance(args[0], promql.MatrixSelector):
            return self._of_selector(args[0].vector_selector, grows=False)
        if name == "histogram_quantile":
            inner = self._of(args[1])
            _need({"le"}, inner, name)
            return inner - {"le"}
        raise Wrong(f"{name} is not known")

    def _of_two(self, expr: promql.BinaryExpr) -> frozenset[str]:
        sides = [self._of(side) for side in (expr.lhs, expr.rhs) if not _is_scalar(side)]
        if len(sides) < 2:
            return frozenset().union(*sides)
        left, right = sides
        if str(expr.op) == "or":
            return left & right
        matching = expr.modifier and expr.modifier.matching
        if matching is None and left != right:
            raise Wrong(
                f"{expr.op}: no two series ever have the same labels, {sorted(left ^ right)} are on one side only"
            )
        if matching is not None and matching.type != promql.LabelModifierType.Include:
            raise Wrong("ignoring is not known")
        keys = frozenset(matching.labels if matching is not None else left)
        _need(keys, left & right, f"{expr.op} on")
        return left if str(expr.op) in _SETS else keys


def _is_scalar(expr: Any) -> bool:
    return isinstance(expr, promql.NumberLiteral) or (isinstance(expr, promql.Call) and expr.func.name == "time")


def _need(wanted: Any, there: frozenset[str], what: object) -> None:
    if missing := sorted(set(wanted) - there):
        raise Wrong(f"{what}: there is no label {', '.join(missing)}")


def labels_in(text: str) -> set[str]:
    """Those that an annotation (``{{ $labels.x }}``) or a legend (``{{x}}``) shows."""
    return set(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text))
