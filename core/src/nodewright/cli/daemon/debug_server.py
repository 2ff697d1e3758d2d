"""Debug pages of the daemon (/snapshotz, /explain, /status): read-only, never on the public port."""

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec

from nodewright.actuation import Pause
from nodewright.actuation.write_gate import cluster_limits
from nodewright.adapters.web import Page, Pages, Query
from nodewright.cli.dry_run.dry_run import DryRun
from nodewright.cli.explanation import KINDS, explain
from nodewright.cli.explanation_view import as_json as explain_json
from nodewright.cli.explanation_view import print_explanation
from nodewright.cli.screen import make_console, safe
from nodewright.cli.status_view import as_json as status_json
from nodewright.cli.status_view import print_status
from nodewright.clusterstate.readiness import describe_unhealthy
from nodewright.engine.daemon import Engine, Scope
from nodewright.engine.report import LoopReport
from nodewright.engine.status import StatusReport, make_status
from nodewright.model.clock import Clock
from nodewright.model.duration import format_moment
from nodewright.model.errors import ConfigError
from nodewright.model.quantity import Quantity
from nodewright.model.settings import Settings
from nodewright.planner.explain import buffers_planned, requests_seen

NO_LOOP = "no loop has ended yet: ask again"
_JSON = "application/json"
_TABLE = "table"
# A page waits for a running loop, which may wait for a cloud, at most so long.
_PATIENCE_SECONDS = 90.0


class DebugServer:
    """Render pages from the last loop.

    Pages are rendered in the web server's threads, one at a time and never while a loop runs: both use the same caches
    about pods. ``excuse`` returns why there was no loop yet.
    """

    def __init__(self, clock: Clock, excuse: Callable[[], str] = lambda: NO_LOOP) -> None:
        self._clock = clock
        self._excuse = excuse
        self._turn = threading.Lock()
        self._report: LoopReport | None = None
        self._settings = Settings()
        self._pause: Pause | None = None

    def pages(self) -> Pages:
        return {"/snapshotz": self._snapshot, "/explain": self._explain, "/status": self._status}

    def publish(self, report: LoopReport, settings: Settings, pause: Pause | None) -> None:
        """Remember a loop that has ended."""
        with self._turn:
            self._report, self._settings, self._pause = report, settings, pause

    def in_turn(self, engine: Engine) -> Engine:
        """Return the engine, made to wait while a page is rendered."""
        return _InTurn(engine, self._turn)

    def _snapshot(self, _: Query) -> Page:
        """Return the cluster as the last loop saw it, with cluster-autoscaler's keys."""
        with self._last() as report:
            if report is None or report.state is None:
                return Page(_ENCODER.encode({"Error": self._why_not(report)}), 500, _JSON)
            seen = report.state.observation
            document = {
                "NodeList": [{"Node": node, "Pods": seen.snapshot.pods(row)} for row, node in seen.snapshot.nodes()],
                "UnscheduledPods": seen.pending,
                "TemplateNodes": {str(ref): {"Node": group.template} for ref, group in seen.groups.items()},
                "StartTimestamp": format_moment(report.started),
                "EndTimestamp": format_moment(report.finished),
                "Error": report.problem,
            }
            return Page(_ENCODER.encode(document), content_type=_JSON)

    def _explain(self, query: Query) -> Page:
        kind = query.get("kind", "")
        if kind not in KINDS:
            return _refuse(f"kind is one of {', '.join(KINDS)}", 400)
        with self._last() as report:
            if report is None or report.state is None or report.plan is None:
                return _refuse(self._why_not(report), 503)
            dry_run = DryRun(state=report.state, plan=report.plan, settings=self._settings)
            try:
                found = explain(dry_run, kind, query.get("name", ""))
            except ConfigError as error:
                return _refuse(str(error), 404)
        if query.get("output") != _TABLE:
            return _write(explain_json(found))
        text = io.StringIO()
        print_explanation(make_console(text, _width(query)), found)
        return Page(text.getvalue().encode())

    def _status(self, query: Query) -> Page:
        with self._last() as report:
            if report is None or report.state is None:
                return _refuse(self._why_not(report), 503)
            status = self._make_status(report)
            health = _health(report, self._pause)
        if query.get("output") != _TABLE:
            return _write(status_json(status) | health)
        text = io.StringIO()
        console = make_console(text, _width(query))
        print_status(console, status)
        for sentence in health["problems"]:
            console.print(safe(sentence, "yellow"), soft_wrap=True)
        return Page(text.getvalue().encode())

    def _why_not(self, report: LoopReport | None) -> str:
        return report.problem if report is not None and report.problem else self._excuse()

    def _make_status(self, report: LoopReport) -> StatusReport:
        state = report.state
        assert state is not None
        status = make_status(
            state.memory,
            self._clock.now(),
            pause=self._pause,
            limits=cluster_limits(state, self._settings.deletion_limits),
            removing=report.removing,
            capacity=requests_seen(state, report.plan),
        )
        if report.plan is None:
            return replace(status, buffers=())
        return replace(status, buffers=buffers_planned(report.plan), outdated=report.plan.outdated)

    @contextmanager
    def _last(self) -> Iterator[LoopReport | None]:
        if not self._turn.acquire(timeout=_PATIENCE_SECONDS):
            yield None
            return
        try:
            yield self._report
        finally:
            self._turn.release()


class _InTurn:
    """Implements Engine."""

    def __init__(self, engine: Engine, turn: threading.Lock) -> None:
        self._engine = engine
        self._turn = turn
        self.next_loop_at = engine.next_loop_at
        self.next_step_at = engine.next_step_at
        self.batch_window = engine.batch_window

    def run_once(self, scope: Scope = Scope.ALL) -> LoopReport:
        with self._turn:
            return self._engine.run_once(scope)

    def step_removals(self) -> object:
        with self._turn:
            return self._engine.step_removals()


def _health(report: LoopReport, pause: Pause | None) -> dict[str, Any]:
    """Return what only a running daemon knows. A pause that cannot be read counts as a pause."""
    state = report.state
    assert state is not None
    problems = [report.problem] if report.problem else []
    if pause is None and report.plan is not None and report.plan.paused:
        problems.append(f"writes to clouds are {report.plan.paused}")
    if state.memory.unhealthy is not None:
        problems.append(describe_unhealthy(state.memory.unhealthy, state.now))
    problems += [
        f"provider {name}: {held.problem}" for name, held in state.observation.providers.items() if held.problem
    ]
    problems += [f"{ref}: {held.problem}" for ref, held in state.observation.groups.items() if held.problem]
    problems += [f"{ref} is unhealthy" for ref, group in state.groups.items() if not group.healthy]
    counts = {str(ref): len(group.readiness.ready) for ref, group in state.groups.items()}
    return {
        "loop": report.loop,
        "loop_ended": format_moment(report.finished),
        "healthy": state.healthy,
        "ready": counts,
        "problems": problems,
    }


def _width(query: Query) -> int | None:
    text = query.get("width", "")
    return int(text) if text.isdecimal() and 20 <= int(text[:4]) <= 1000 else None


def _write(document: dict[str, Any]) -> Page:
    return Page(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n", content_type=_JSON)


def _refuse(sentence: str, status: int) -> Page:
    return Page(f"{sentence}\n".encode(), status)


def _text(value: object) -> str:
    if isinstance(value, Quantity):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no part of a snapshot")


_ENCODER = msgspec.json.Encoder(enc_hook=_text)
