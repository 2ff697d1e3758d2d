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
from nodewright.model.duration import format_moment
from nodewright.model.plan import Plan
from nodewright.model.settings import Settings

_KEPT = 500
_STATUS_KEY = "status"
_MESSAGES = {
    ComparisonVerdict.SAME: "the other autoscaler did the same",
    ComparisonVerdict.OTHER_SIZE: "the other autoscaler chose another size",
    ComparisonVerdict.ONLY_THEIRS: "only the other autoscaler did this",
    ComparisonVerdict.ONLY_OURS: "the other autoscaler did not do this",
    ComparisonVerdict.NOT_YET: "the other autoscaler was faster",
}


class ShadowReporter:
    """``status_name`` is the other autoscaler's status ConfigMap, which ``caches`` watch."""

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

    def pages(self) -> Pages:
        return {"/shadowz": self._page}

    def take(self, report: LoopReport, plan: Plan | None, settings: Settings) -> None:
        """Compare one loop; ``plan`` is what would have been done."""
        found = [*self._shadow.compare(report, plan, settings)]
        if report.state is not None and plan is not None:
            ours = make_document(report.state, plan, self._transitions)
            found += self._health.compare(self._status_text(), ours, report.state.now)
        for one in found:
            self._report(one)

    def _report(self, one: Comparison) -> None:
        with self._lock:
            self._found.append(one)
            self._counts[f"{one.what} {one.verdict.value}"] += 1
        self._metrics.compared(one.what, one.verdict.value)
        fields = {key: value for key, value in msgspec.to_builtins(one).items() if key != "at" and value != ""}
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
            document = {"schema": 1, "counts": dict(self._counts), "comparisons": found[::-1]}
        return Page(msgspec.json.encode(document), content_type="application/json")
