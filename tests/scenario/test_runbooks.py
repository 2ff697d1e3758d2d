"""Each scenario of docs/scenarios/runbooks fires its alert, and the steps of the runbook end it."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

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

_COMPARED = re.compile(r"(\w+) (>|==) ([\d.]+)")
_INCREASE = re.compile(r"increase\((\w+)\[(\w+)\].*\) > (\d+)$")
_PEAK = re.compile(r"^max_over_time\((\w+)\[(\w+)\]\) > (\d+)$")
_SINCE = re.compile(r"^time\(\) - max\((\w+)\{activity=\"(\w+)\"\}.*?\) > (\d+)")


class Watch:
    """The metrics of a run, as Prometheus would scrape them after each loop, and when the expression of an alert held.

    It knows the forms of expression that these alerts have: comparisons that all must hold, the growth of a counter by reason,
    the highest value of a gauge within a time, and the time since an activity.
    """

    def __init__(self, alert: dict[str, Any], metrics: Metrics) -> None:
        self._expression, self._metrics = " ".join(alert["expr"].split()), metrics
        self._counts: list[tuple[float, dict[str, float]]] = []
        self._peaked_at = -math.inf
        metrics.leads(True)
        self.held: list[tuple[float, bool]] = []

    def see(self, report: LoopReport) -> None:
        self._metrics.observe(report)
        self.held.append((report.finished, self._holds(report.finished)))

    def _holds(self, now: float) -> bool:
        if growth := _INCREASE.search(self._expression):
            return self._has_grown(growth[1], now, parse_duration(growth[2]), float(growth[3]))
        if peak := _PEAK.search(self._expression):
            value = self._read(peak[1])
            if value is not None and value > float(peak[3]):
                self._peaked_at = now
            return now - self._peaked_at <= parse_duration(peak[2])
        if since := _SINCE.search(self._expression):
            last = self._read(since[1], activity=since[2])
            return last is not None and now - last > float(since[3])
        values = [(self._read(name), sign, float(bound)) for name, sign, bound in _COMPARED.findall(self._expression)]
        assert values
        return all(
            value is not None and (value > bound if sign == ">" else value == bound) for value, sign, bound in values
        )

    def _has_grown(self, name: str, now: float, window: float, bound: float) -> bool:
        counts = {
            sample.labels["reason"]: sample.value
            for family in self._metrics.registry.collect()
            for sample in family.samples
            if sample.name == name
        }
        self._counts.append((now, counts))
        before = next(past for at, past in self._counts if at >= now - window)
        return any(value - before.get(reason, 0.0) > bound for reason, value in counts.items())

    def _read(self, name: str, **labels: str) -> float | None:
        return self._metrics.registry.get_sample_value(name, labels)


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
