"""Every expression of the alerts and of the dashboard can be evaluated with the existing metrics."""

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from tests.deploy.promql import Checker, Series, Wrong, labels_in, read_series

from nodewright.adapters.metrics import Metrics
from nodewright.model.settings import ServingSettings, Settings

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy" / "chart" / "files"
SERIES = read_series(Metrics(Settings(serving=ServingSettings(emit_per_nodegroup_metrics=True))).registry)
RULES: list[dict[str, Any]] = yaml.safe_load((FILES / "rules.yaml").read_text())
SERIES |= {rule["record"]: Series(frozenset(), grows=False) for rule in RULES}
CHECKER = Checker(SERIES)
ALERTS: list[dict[str, Any]] = yaml.safe_load((FILES / "alerts.yaml").read_text())
DASHBOARD: dict[str, Any] = json.loads((FILES / "dashboard.json").read_text())
VARIABLES: list[dict[str, Any]] = DASHBOARD["templating"]["list"]
ROWS = [panel for panel in DASHBOARD["panels"] if panel["type"] == "row"]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
PANELS += [panel for row in ROWS for panel in row["panels"]]
QUERIES = [
    pytest.param(panel, target, id=f"{panel['title']} {target['refId']}")
    for panel in PANELS
    for target in panel["targets"]
]
_WORDS = {
    word
    for path in (ROOT / "core/src/nodewright/adapters/metrics").glob("*.py")
    for word in re.findall(r'"(\w+)"', path.read_text())
}


def check_values(expr: str) -> None:
    """A value that a selector names is one that the metrics' sources know."""
    assert set(re.findall(r'\w="(\w+)"', expr)) <= _WORDS


def fill(expr: str) -> str:
    """As Grafana does, with the variables that the dashboard has."""
    for variable in VARIABLES:
        expr = expr.replace(f"${variable['name']}", ".+")
    return expr.replace("$__rate_interval", "2m").replace("$__range", "6h")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_an_alert_can_be_answered_and_tells_labels_that_it_has(alert: dict[str, Any]) -> None:
    expr = alert["expr"]
    labels = CHECKER.labels(expr)
    check_values(expr)
    for text in alert["annotations"].values():
        assert labels_in(text) - {"value"} <= labels
    # A cluster-autoscaler beside it has metrics of these names, too.
    assert expr.count("cluster_autoscaler_") <= expr.count(" and on (job, instance) ")
    # Without a comparison it would fire whenever there is an answer.
    assert re.search(r" (>|<|==) |^absent\(", expr)
    assert alert.keys() <= {"alert", "expr", "for", "labels", "annotations"}
    assert promql_parser.parse_duration(alert.get("for", "1m")).total_seconds() > 0


@pytest.mark.parametrize(("panel", "target"), QUERIES)
def test_a_panel_can_be_drawn_and_its_legend_tells_labels_that_it_has(
    panel: dict[str, Any], target: dict[str, str]
) -> None:
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert target["expr"].count("nodewright_") + target["expr"].count("cluster_autoscaler_") == target["expr"].count(
        "$job"
    )
    expr = fill(target["expr"])
    assert "$" not in expr
    # A line for each set of labels, or the lines have the same name.
    assert labels_in(target["legendFormat"]) == CHECKER.labels(expr)
    check_values(expr)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
def test_a_panel_is_described_and_overlaps_no_other(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith((".", "99 %."))
    place = panel["gridPos"]
    assert place["x"] + place["w"] <= 24
    for other in PANELS:
        there = other["gridPos"]
        beside = place["x"] + place["w"] <= there["x"] or there["x"] + there["w"] <= place["x"]
        above = place["y"] + place["h"] <= there["y"] or there["y"] + there["h"] <= place["y"]
        assert other["id"] == panel["id"] or beside or above


def test_each_group_that_is_chosen_has_a_row() -> None:
    [row] = [row for row in ROWS if row.get("repeat")]
    assert row["repeat"] in {variable["name"] for variable in VARIABLES}
    for panel in row["panels"]:
        assert all('group=~"$group"' in target["expr"] for target in panel["targets"])
    ids = [panel["id"] for panel in (*PANELS, *ROWS)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("note", DASHBOARD["annotations"]["list"], ids=lambda note: str(note["name"]))
def test_failures_and_moves_are_marked(note: dict[str, Any]) -> None:
    expr = fill(note["expr"])
    assert labels_in(note["titleFormat"] + note["textFormat"]) == CHECKER.labels(expr)
    assert expr.endswith(" > 0")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["record"]))
def test_a_rule_counts_what_is_above_a_bound_of_the_histogram(rule: dict[str, Any]) -> None:
    assert not CHECKER.labels(rule["expr"])
    page = Metrics(Settings()).page().decode()
    [pattern] = re.findall(r'le=~"(.+?)"', rule["expr"])
    bounds = re.findall(r'^nodewright_pod_decision_seconds_bucket{le="(.+?)"}', page, re.MULTILINE)
    assert [bound for bound in bounds if re.fullmatch(pattern.replace("\\\\", "\\"), bound)] == ["60.0"]


def test_variables_of_the_dashboard_have_values() -> None:
    for variable in VARIABLES[1:]:
        [(metric, label)] = re.findall(r"^label_values\((.+), (\w+)\)$", variable["query"])
        assert label in CHECKER.labels(metric)
    assert VARIABLES[0]["type"] == "datasource"


@pytest.mark.parametrize(
    ("expr", "said"),
    [
        ("rate(nodewright_kube_requests_total[5m]", "unclosed left parenthesis"),
        ("rate(nodewright_kube_requests_total)", "expected type matrix"),
        ("rat(nodewright_kube_requests_total[5m])", "unknown function"),
        ("nodewright_unhelped_podz > 0", "no metric nodewright_unhelped_podz"),
        ('nodewright_leader{name="x"} > 0', "no label name"),
        ("sum by (code) (rate(nodewright_hook_calls_total[5m]))", "no label code"),
        ("increase(nodewright_unhelped_pods[5m]) > 0", "for counters"),
        ("nodewright_plan_violations_total > 0", "for counters"),
        ("rate(cluster_autoscaler_function_duration_seconds[5m])", "no metric"),
        (
            "histogram_quantile(0.9, sum by (function) (rate(cluster_autoscaler_function_duration_seconds_bucket[5m])))",
            "label le",
        ),
        (
            "histogram_quantile(0.9, sum by (le) (rate(cluster_autoscaler_function_duration_seconds_sum[5m])))",
            "label le",
        ),
        ("histogram_quantile(0.9, rate(cluster_autoscaler_errors_total[5m]))", "label le"),
        ("(max(nodewright_leader) == 1) and nodewright_paused", "ever have the same labels"),
        ("nodewright_leader and on (state) nodewright_paused", "no label state"),
        ("sum(nodewright_leader) and on (instance) nodewright_paused", "no label instance"),
        ("topk(3, nodewright_leader)", "topk is not known"),
        ("nodewright_leader > 0 and 1", "set operator"),
    ],
)
def test_what_cannot_be_answered_is_found(expr: str, said: str) -> None:
    with pytest.raises((Wrong, ValueError), match=said):
        CHECKER.labels(expr)


@pytest.mark.parametrize(
    ("expr", "labels"),
    [
        ("max by (reason) (cluster_autoscaler_unremovable_nodes_count)", {"reason"}),
        ("sum(rate(nodewright_kube_requests_total[5m])) / 2", set()),
        ("sum by (job, code) (rate(nodewright_kube_requests_total[5m])) > 1", {"job", "code"}),
        (
            "sum by (job, type) (rate(cluster_autoscaler_errors_total[5m])) / on (job) max by (job) (nodewright_leader)",
            {"job"},
        ),
        ("max by (job) (nodewright_leader) or max(nodewright_leader)", set()),
    ],
)
def test_labels_of_an_answer(expr: str, labels: set[str]) -> None:
    assert CHECKER.labels(expr) == labels
