"""What the daemon's shadow adds up, and what ``nodewright shadow report`` says about it."""

import io
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner

from nodewright.adapters.logs import DaemonLog
from nodewright.adapters.metrics import Metrics
from nodewright.adapters.shadow import Comparison, ComparisonVerdict
from nodewright.cli.commands import shadow
from nodewright.cli.daemon.shadow import ShadowReporter
from nodewright.cli.main import cli
from nodewright.engine.report import LoopReport
from nodewright.model.settings import Settings
from nodewright.testkit import FakeClock
from nodewright.testkit.world import NOW


class Beside:
    """A shadow beside an autoscaler that writes ``status`` (None: it writes none)."""

    def __init__(self, status: str | None) -> None:
        self.status = status
        maps = SimpleNamespace(config_map=lambda _: SimpleNamespace(all=self._all))
        log = DaemonLog(io.BytesIO(), FakeClock(NOW))
        self.reporter = ShadowReporter(cast("Any", maps), "status-map", log, Metrics(Settings()), 1)

    def _all(self) -> list[Any]:
        return [] if self.status is None else [SimpleNamespace(data={"status": self.status})]

    def loop(self, at: float, *found: Comparison) -> None:
        self.reporter.take(LoopReport(started=at, finished=at), None, Settings())
        for one in found:
            self.reporter._report(one)

    def page(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.reporter.pages()["/shadowz"]({}).body)
        return document


def compare(verdict: ComparisonVerdict, reason: str = "", cost: float | None = None, cause: str = "") -> Comparison:
    return Comparison(at=NOW, what="growth", subject="a", verdict=verdict, reason=reason, cost=cost, cause=cause)


def test_causes_that_differ_in_numbers_are_one() -> None:
    beside = Beside("time: 1")
    beside.loop(
        NOW,
        compare(ComparisonVerdict.SAME),
        compare(ComparisonVerdict.OTHER_SIZE, "3 pods are pending", 0.5, "another size"),
        compare(ComparisonVerdict.OTHER_SIZE, "41 pods are pending", 1.0, "another size"),
        compare(ComparisonVerdict.ONLY_OURS, "they chose another group"),
    )
    found = shadow.summarize(beside.page())
    assert (found["agreements"], found["differences"], found["cost_per_hour"], found["problem"]) == (1, 3, 1.5, "")
    assert found["causes"][0] == {
        "what": "growth",
        "verdict": "otherSize",
        "cause": "another size",
        "example": "3 pods are pending",
        "count": 2,
        "cost_per_hour": 1.5,
    }


def test_it_says_when_no_cluster_autoscaler_is_seen() -> None:
    nobody, stopped = Beside(None), Beside("time: 1")
    for at in (NOW, NOW + 700):
        nobody.loop(at)
        stopped.loop(at)
    assert (
        nobody.page()["problem"] == "No cluster-autoscaler is seen: there is no ConfigMap status-map with its status."
    )
    assert stopped.page()["problem"].endswith("the ConfigMap status-map has not changed for 11m40s.")
    stopped.status = "time: 2"
    stopped.loop(NOW + 710)
    assert stopped.page()["problem"] == ""


def test_the_report_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Beside(None)
    beside.loop(
        NOW,
        compare(ComparisonVerdict.SAME),
        compare(ComparisonVerdict.ONLY_THEIRS, "no pod needs it", -2.0, "unneeded"),
    )
    content = beside.reporter.pages()["/shadowz"]({}).body
    monkeypatch.setattr(shadow, "fetch_page", lambda *_: content)
    shown = CliRunner().invoke(cli, ["shadow", "report"])
    assert shown.exception is None
    for text in (
        "1 agreement, 1 difference",
        "cost -2.00 USD an hour",
        "No cluster-autoscaler is seen",
        "only the other one",
        "unneeded, such as:",
    ):
        assert text in shown.stdout
