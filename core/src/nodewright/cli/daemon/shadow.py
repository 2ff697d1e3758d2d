"""The daemon beside another autoscaler: report differences in the log, in metrics and at /shadowz."""

import threading
from collections import Counter, deque

import msgspec

from nodewright.adapters.kube.caches import Caches
from nodewright.adapters.kube.status_config_map import Transitions, make_document
from nodewright.adapters.logs import DaemonLog
from nodewright.adapters.metrics import Metrics
from nodewright.adapters.shadow import Comparison, ComparisonVerdict, HealthShadow, Shadow
from nodewright.adapters.web import Page, Pages, Query
from nodewright.engine.report import LoopReport
from nodewright.model.duration import format_duration, format_moment
from nodewright.model.plan import Plan
from nodewright.model.settings import Settings

_KEPT = 500
# A cluster-autoscaler whose status is this old (seconds) does not run.
_SILENCE_SECONDS = 300.0
_STATUS_KEY = "status"
_MESSAGES = {
    ComparisonVerdict.SAME: "the other autoscaler did the same",
    ComparisonVerdict.OTHER_SIZE: "the other autoscaler chose another size",
    ComparisonVerdict.ONLY_THEIRS: "only the other autoscaler did this",
    ComparisonVerdict.ONLY_OURS: "the other autoscaler did not do this",
    ComparisonVerdict.NOT_YET: "the other autoscaler was faster",
}


class ShadowReporter:
    """Compares each loop with the other autoscaler. ``status_name`` is its status ConfigMap, which ``caches`` watch."""

    def __init__(self, caches: Caches, status_name: str, log: DaemonLog, metrics: Metrics, seed: int) -> None:
        self._caches = caches
        self._status_name = status_name
        self._log = log
        self._metrics = metrics
        self._shadow = Shadow(seed)
        self._health = HealthShadow()
        self._transitions = Transitions()
        self._lock = threading.Lock()
        self._found: deque[Comparison] = deque(maxlen=_KEPT)
        self._counts: Counter[str] = Counter()
        # By what, verdict and cause: how often, USD an hour (None: no price is known), and the first reason as an example.
        self._causes: dict[tuple[str, str, str], tuple[int, float | None, str]] = {}
        self._since = self._now = 0.0
        self._loops = 0
        # What the other autoscaler last wrote, and when that was first seen (epoch seconds).
        self._status: str | None = None
        self._status_at = 0.0

    def pages(self) -> Pages:
        return {"/shadowz": self._page}

    def take(self, report: LoopReport, plan: Plan | None, settings: Settings) -> None:
        """Compare one loop; ``plan`` is the plan before its writes were withheld."""
        found = [*self._shadow.compare(report, plan, settings)]
        self._look(report)
        if report.state is not None and plan is not None:
            ours = make_document(report.state, plan, self._transitions)
            found += self._health.compare(self._status_text(), ours, report.state.now)
        for one in found:
            self._report(one)

    def _look(self, report: LoopReport) -> None:
        """Count the loop, and check whether the other autoscaler lives: it writes its status in each of its loops."""
        text = self._status_text()
        with self._lock:
            self._since = self._since or report.started
            self._loops, self._now = self._loops + 1, report.finished
            if text != self._status:
                self._status, self._status_at = text, report.finished

    def _problem(self) -> str:
        if self._status is None:
            return f"No cluster-autoscaler is seen: there is no ConfigMap {self._status_name} with its status."
        silent = self._now - self._status_at
        if silent <= _SILENCE_SECONDS:
            return ""
        since = format_duration(round(silent))
        return f"No cluster-autoscaler is seen: the ConfigMap {self._status_name} has not changed for {since}."

    def _report(self, one: Comparison) -> None:
        with self._lock:
            key = (one.what, one.verdict.value, one.cause)
            if key not in self._causes and len(self._causes) >= _KEPT:
                key = (one.what, one.verdict.value, "other causes")
            times, cost, example = self._causes.get(key, (0, None, one.reason))
            self._causes[key] = times + 1, cost if one.cost is None else (cost or 0.0) + one.cost, example
            self._found.append(one)
            self._counts[f"{one.what} {one.verdict.value}"] += 1
        self._metrics.compared(one.what, one.verdict.value)
        fields = {
            key: value for key, value in msgspec.to_builtins(one).items() if key != "at" and value not in ("", None)
        }
        level = "info" if one.verdict in (ComparisonVerdict.SAME, ComparisonVerdict.NOT_YET) else "warning"
        self._log.say(_MESSAGES[one.verdict], level=level, shadow=fields)

    def _status_text(self) -> str | None:
        for held in self._caches.config_map(self._status_name).all():
            text: str | None = held.data.get(_STATUS_KEY)
            return text
        return None

    def _page(self, _: Query) -> Page:
        with self._lock:
            found = [{**msgspec.to_builtins(one), "at": format_moment(one.at)} for one in self._found]
            causes = [
                {
                    "what": what,
                    "verdict": verdict,
                    "cause": cause,
                    "example": example,
                    "count": times,
                    "cost_per_hour": cost,
                }
                for (what, verdict, cause), (times, cost, example) in self._causes.items()
            ]
            document = {
                "schema": 1,
                "since": format_moment(self._since) if self._loops else None,
                "loops": self._loops,
                "problem": self._problem() if self._loops else "No loop has ended yet.",
                "counts": dict(self._counts),
                "causes": causes,
                "comparisons": found[::-1],
            }
        return Page(msgspec.json.encode(document), content_type="application/json")
