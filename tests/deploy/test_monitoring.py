"""Every alert and event has its runbook, and the docs list every metric."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodewright.adapters.metrics import Metrics
from nodewright.model.objects import KINDS
from nodewright.model.settings import ServingSettings, Settings

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy" / "chart" / "files"
DOCS = (ROOT / "docs" / "metrics.md").read_text()
_NAME = re.compile(r"\b(?:cluster_autoscaler|nodewright)_[a-z_]+")
_REASON = re.compile(r"([A-Z][a-z]+){2,}")
_PART = re.compile(r"_(bucket|count|sum)$")


def find_names() -> set[str]:
    """Every metric of the page, by all names that a query may use."""
    metrics = Metrics(Settings(serving=ServingSettings(emit_per_nodegroup_metrics=True)))
    found = set()
    for line in metrics.page().decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            found.add(name)
            if kind == "histogram":
                found |= {f"{name}_{part}" for part in ("bucket", "count", "sum")}
    return found


NAMES = find_names()
ALERTS: list[dict[str, Any]] = yaml.safe_load((FILES / "alerts.yaml").read_text())


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_an_alert_says_what_it_means_and_has_a_runbook(alert: dict[str, Any]) -> None:
    told = alert["annotations"]
    assert told.keys() == {"summary", "description", "runbook_url"}
    assert told["summary"].endswith(".")
    assert told["description"].endswith(".")
    page, _, anchor = told["runbook_url"].partition("#")
    headings = re.findall(r"^### (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor == alert["alert"].lower()
    assert alert["alert"] in headings


def test_every_runbook_of_an_alert_is_of_an_alert_that_is_there() -> None:
    table = (ROOT / "docs" / "runbooks.md").read_text().partition("## By alert")[2].partition("\n## ")[0]
    assert re.findall(r"^### (.+)$", table, re.MULTILINE) == [alert["alert"] for alert in ALERTS]


def find_events() -> set[str]:
    """The reasons of events that the engine tells of its own work, as they stand in its sources."""
    actuation = ROOT / "core" / "src" / "nodewright" / "actuation"
    trees = [ast.parse((actuation / name).read_text()) for name in ("events.py", "ports.py", "actuator.py", "drain.py")]
    texts = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return {text for text in texts if isinstance(text, str) and _REASON.fullmatch(text)} - set(KINDS)


def test_every_event_has_a_line_of_what_to_do() -> None:
    told = find_events()
    assert {"ScaledUpGroup", "ScaleDown", "StatusNotWritten"} <= told
    table = (ROOT / "docs" / "runbooks.md").read_text().partition("## By event")[2].partition("## By alert")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("|")]
    assert told <= set(re.findall(r"`(\w+)`", "\n".join(rows)))


def test_every_metric_of_ca_is_there_or_the_docs_say_why_not() -> None:
    listed = (ROOT / "core" / "tests" / "metrics" / "ca_metrics.txt").read_text().split()
    missing = {name for name in listed if f"cluster_autoscaler_{name}" not in NAMES}
    table = DOCS.partition("nodewright does not have these metrics, because")[2].partition("## nodewright's own")[0]
    assert missing == set(
        re.findall(r"`([a-z_]+)`", "\n".join(row.split("|")[1] for row in table.splitlines() if "|" in row))
    )


def test_the_docs_list_every_metric_of_ours() -> None:
    own = {
        _PART.sub("", name)
        for name in NAMES
        if name.startswith("nodewright_") and not name.endswith(("_created", "_seconds_total"))
    }
    assert own <= {_PART.sub("", name) for name in _NAME.findall(DOCS)} | set(_NAME.findall(DOCS))
