"""Pages of the daemon about pods and nodes (/, /snapshotz, /explain, /status): read-only, never on the public port."""

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from nodewright.actuation import Pause
from nodewright.adapters.web import Page, Pages, Query
from nodewright.cli import bundle
from nodewright.cli.console.history import History
from nodewright.cli.console.last_loop import LastLoop
from nodewright.cli.console.pages import Console
from nodewright.cli.console.top import print_top
from nodewright.cli.console.views import View
from nodewright.cli.daemon.turn import Turn
from nodewright.cli.explanation import KINDS, LOOP, Explanation, LoopExplanation, explain
from nodewright.cli.explanation_view import as_json as explain_json
from nodewright.cli.explanation_view import print_explanation
from nodewright.cli.screen import make_console, safe
from nodewright.cli.settings.values import without_logins, without_secrets
from nodewright.cli.status_view import as_json as status_json
from nodewright.cli.status_view import print_status
from nodewright.engine.daemon import Engine, Scope
from nodewright.engine.report import LoopReport
from nodewright.model.clock import Clock
from nodewright.model.duration import format_duration, format_moment
from nodewright.model.errors import ConfigError
from nodewright.model.meta import Object
from nodewright.model.objects import KINDS as STORED_KINDS
from nodewright.model.quantity import Quantity
from nodewright.model.settings import Settings

NO_LOOP = "no loop has ended yet: ask again"
_JSON = "application/json"
_TABLE = "table"
# The most seconds that a page waits for a running loop, which may itself wait for a cloud.
_PATIENCE_SECONDS = 90.0


def _no_bytes() -> bytes:
    return b""


def _no_objects(_: str) -> Iterable[Object]:
    return ()


@dataclass(frozen=True, kw_only=True)
class BundleSources:
    """Functions that return other contents of a bundle: metrics, the end of the log, objects by kind, settings."""

    metrics: Callable[[], bytes] = _no_bytes
    log: Callable[[], bytes] = _no_bytes
    objects: Callable[[str], Iterable[Object]] = _no_objects
    settings: Callable[[], Settings] = Settings


class DebugServer:
    """Render pages from the last loop. Implements LoopSource.

    Pages are rendered in the web server's threads, by ``turn``: never while a loop runs or waits. ``excuse`` returns why there
    was no loop yet. ``note`` is a sentence at the top of each view.
    """

    def __init__(
        self,
        clock: Clock,
        excuse: Callable[[], str] = lambda: NO_LOOP,
        history: History | None = None,
        sources: BundleSources | None = None,
        note: str = "",
        turn: Turn | None = None,
    ) -> None:
        self._clock = clock
        self._note = note
        self._sources = sources or BundleSources()
        self._excuse = excuse
        self._turn = turn or Turn()
        self._report: LoopReport | None = None
        self._settings = Settings()
        self._pause: Pause | None = None
        self._view: View | None = None
        self.history = history or History(clock)

    def pages(self) -> Pages:
        """Return the pages for programs and for the commands, and the console's for people."""
        console = Console(self, self.history, self._clock, self._note)
        return {
            **console.pages(),
            "/snapshotz": self._snapshot,
            "/explain": self._explain,
            "/status": self._status,
            "/top": self._top,
            "/bundle": self._bundle,
        }

    def publish(self, report: LoopReport, settings: Settings, pause: Pause | None) -> None:
        """Remember a loop that has ended."""
        with self._turn.loop():
            self._report, self._settings, self._pause, self._view = report, settings, pause, None
        self.history.take(report)

    def in_turn(self, engine: Engine) -> Engine:
        """Return a wrapper of the engine that waits for the page whose turn it is, and for no other."""
        return _InTurn(engine, self._turn)

    def _snapshot(self, _: Query) -> Page:
        """Return the cluster as the last loop saw it, with cluster-autoscaler's keys."""
        with self._last() as report:
            if isinstance(report, str) or report.state is None:
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
        with self.look() as last:
            try:
                found = self.find_explanation(last, kind, query.get("name", ""))
            except ConfigError as error:
                return _refuse(str(error), 404)
        if isinstance(found, str):
            return _refuse(found, 503)
        if query.get("output") != _TABLE:
            return _write(explain_json(found))
        text = io.StringIO()
        with self.writing():
            print_explanation(make_console(text, _width(query)), found)
        return Page(text.getvalue().encode())

    def objects(self, kind: str) -> Iterable[Object]:
        return self._sources.objects(kind)

    def find_explanation(self, last: LastLoop | str, kind: str, name: str) -> Explanation | str:
        """Explain an object, or return why the loop explains nothing. Raise ConfigError for a name that does not exist."""
        dry_run = last.dry_run if isinstance(last, LastLoop) else None
        if dry_run is not None:
            return explain(dry_run, kind, name)
        why = last if isinstance(last, str) else self._why_not(last.report)
        return LoopExplanation(now=self._clock.now(), stops=(why,)) if kind == LOOP else why

    def _status(self, query: Query) -> Page:
        with self.look() as last:
            if isinstance(last, str):
                return _refuse(last, 503)
            status, health = last.make_status(), last.as_json()
        if query.get("output") != _TABLE:
            return _write(status_json(status) | health)
        text = io.StringIO()
        console = make_console(text, _width(query))
        with self.writing():
            print_status(console, status)
            for sentence in health["problems"]:
                console.print(safe(sentence, "yellow"), soft_wrap=True)
        return Page(text.getvalue().encode())

    def _bundle(self, _: Query) -> Page:
        """Return an archive for ``nodewright bundle``; before the first loop it lacks the cluster."""
        now, sources = self._clock.now(), self._sources
        told = [
            {"at": format_moment(past.at), "times": past.times, **msgspec.to_builtins(past.event)}
            for past in self.history.events()
        ]
        files: dict[str, Iterable[bytes]] = {
            bundle.SETTINGS: (_write_settings(sources.settings()),),
            "decisions.json": (_write({"schema": 1, "events": told}).body,),
            "metrics.txt": (sources.metrics(),),
            "log.txt": (without_logins(sources.log().decode(errors="replace")).encode(),),
        }
        loop, why_not = "", ""
        with self.look() as last:
            if isinstance(last, str):
                why_not = last
            else:
                now, loop = last.report.started, last.report.loop
                # A loop waits meanwhile, so only references to immutable values are taken here.
                status = status_json(last.make_status()) | last.as_json()
                objects = {kind: tuple(sources.objects(kind)) for kind in STORED_KINDS}
                group_of_node, groups = dict(last.state.group_of_node), tuple(last.state.groups.values())
        with self.writing():
            if not why_not:
                files["status.json"] = (_write(status).body,)
                files[bundle.CLUSTER] = bundle.write_cluster(objects, group_of_node)
                files[bundle.GROUPS] = (bundle.write_groups(groups),)
            files[bundle.ABOUT] = (bundle.write_about(now, loop, why_not),)
            return Page(bundle.pack(files, now), content_type="application/gzip")

    def _top(self, query: Query) -> Page:
        """Return a screen for ``nodewright top``."""
        text = io.StringIO()
        with self.look() as last:
            if isinstance(last, str):
                return _refuse(last, 503)
            height = query.get("height", "")
            print_top(
                make_console(text, _width(query)),
                self.view_of(last),
                int(height) if height.isdecimal() and len(height) < 4 else 0,
            )
        return Page(text.getvalue().encode())

    def _why_not(self, report: LoopReport | str) -> str:
        return report if isinstance(report, str) else report.problem or self._excuse()

    @contextmanager
    def look(self, patience: float = _PATIENCE_SECONDS) -> Iterator[LastLoop | str]:
        """Give the last loop, or why there is none, while no loop runs; wait at most ``patience`` seconds for that."""
        with self._last(patience) as report:
            if isinstance(report, str) or report.state is None:
                yield self._why_not(report)
                return
            yield LastLoop(
                report=report,
                state=report.state,
                settings=self._settings,
                pause=self._pause,
                now=self._clock.now(),
            )

    def writing(self) -> AbstractContextManager[object]:
        return self._turn.writing()

    def view_of(self, last: LastLoop) -> View:
        """Return the view of the loop that ``look`` gives now; it is made once for each loop."""
        if self._view is None:
            self._view = View(last)
        return self._view

    @contextmanager
    def _last(self, patience: float = _PATIENCE_SECONDS) -> Iterator[LoopReport | str]:
        with self._turn.page(patience) as got:
            late = f"loops and other pages have been running for over {format_duration(round(patience))}: ask again"
            yield (self._report or self._excuse()) if got else late


class _InTurn:
    """Implements Engine."""

    def __init__(self, engine: Engine, turn: Turn) -> None:
        self._engine = engine
        self._turn = turn
        self.next_loop_at = engine.next_loop_at
        self.next_step_at = engine.next_step_at
        self.batch_window = engine.batch_window

    def run_once(self, scope: Scope = Scope.ALL) -> LoopReport:
        with self._turn.loop():
            return self._engine.run_once(scope)

    def step_removals(self) -> object:
        with self._turn.loop():
            return self._engine.step_removals()


def _width(query: Query) -> int | None:
    text = query.get("width", "")
    return int(text) if text.isdecimal() and len(text) < 5 and 20 <= int(text) <= 1000 else None


def _write(document: dict[str, Any]) -> Page:
    return Page(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n", content_type=_JSON)


def _write_settings(settings: Settings) -> bytes:
    """Return the settings as JSON; secrets among the options of providers, and users in URLs, are left out."""
    document: dict[str, Any] = without_logins(msgspec.to_builtins(settings))
    for held in document["providers"].values():
        held["options"] = without_secrets(held["options"])
    return _write(document).body


def _refuse(sentence: str, status: int) -> Page:
    return Page(f"{sentence}\n".encode(), status)


def _text(value: object) -> str:
    if isinstance(value, Quantity):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no place in a snapshot")


_ENCODER = msgspec.json.Encoder(enc_hook=_text)
