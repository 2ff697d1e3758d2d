"""Each scenario of docs/scenarios/runbooks fires its alert, and the steps of the runbook end it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.promql_value import Scrapes

from nodewright.adapters.metrics import Metrics
from nodewright.engine.report import LoopReport
from nodewright.model.duration import parse_duration
from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.scenario_file import load_scenario, read_flat_settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "scenarios" / "runbooks"
ALERTS: dict[str, dict[str, Any]] = {
    alert["alert"]: alert for alert in yaml.safe_load((ROOT / "deploy/chart/files/alerts.yaml").read_text())
}
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


class Watch:
    """The metrics of a run, as Prometheus would scrape them after each loop, and when the expression of an alert held."""

    def __init__(self, alert: dict[str, Any], metrics: Metrics) -> None:
        self._expression, self._metrics = alert["expr"], metrics
        self._scrapes = Scrapes()
        metrics.leads(True)
        self.held: list[tuple[float, bool]] = []

    def see(self, report: LoopReport) -> None:
        self._metrics.observe(report)
        self._scrapes.take(self._metrics.registry, report.finished)
        self.held.append((report.finished, bool(self._scrapes.value(self._expression))))


def has_fired(held: Sequence[tuple[float, bool]], lasts: float) -> bool:
    """Return whether the expression held for so many seconds. Between two loops it is what it was after the first."""
    since = None
    for at, holds in held:
        if since is not None and at - since >= lasts:
            return True
        if not holds:
            since = None
        elif since is None:
            since = at
    return since is not None and lasts == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_fires_its_alert_and_the_steps_end_it(name: str) -> None:
    scenario, alert = load_scenario(FOLDER / f"{name}.yaml"), ALERTS[name]
    watch = Watch(alert, Metrics(read_flat_settings(scenario.settings, name)))
    grows_with_time = "_undecided_seconds" in alert["expr"]
    options = BuildOptions(every_tick=grows_with_time, meters_costs=False, on_loop=watch.see)
    result = build_simulation(scenario, options).run()
    assert has_fired(watch.held, parse_duration(alert.get("for", "0s")))
    assert not watch.held[-1][1], "the alert still fires at the end"
    assert result.final.pending == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_runbook_names_its_scenario(name: str) -> None:
    section = (ROOT / "docs" / "runbooks.md").read_text().partition(f"### {name}\n")[2].partition("\n### ")[0]
    assert f"(scenarios/runbooks/{name}.yaml)" in section


def test_an_alert_without_a_scenario_is_named_in_the_docs() -> None:
    intro = (ROOT / "docs" / "runbooks.md").read_text().partition("## By alert\n")[2].partition("\n### ")[0]
    assert {alert for alert in ALERTS if f"`{alert}`" in intro} == ALERTS.keys() - set(NAMES)
