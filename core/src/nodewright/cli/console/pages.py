"""The page of the daemon as HTML: its views by path. It changes nothing, and loads nothing from other servers."""

import io
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import cache
from importlib.resources import files
from typing import Any, Protocol, TypeVar
from urllib.parse import urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from nodewright.adapters.web import Page, Pages, Query
from nodewright.cli.console.history import History, PastEvent
from nodewright.cli.console.last_loop import LastLoop
from nodewright.cli.console.views import View
from nodewright.cli.console.what_if import WhatIfs, read_question
from nodewright.cli.explanation import KINDS, Explanation
from nodewright.cli.explanation_view import print_explanation
from nodewright.cli.screen import count, make_console
from nodewright.model.clock import Clock
from nodewright.model.duration import format_moment
from nodewright.model.errors import ConfigError
from nodewright.model.meta import Object
from nodewright.model.printable import printable

T = TypeVar("T")

# Seconds that a page waits for a running loop: short if it can show its last content instead, long if it has none.
_SHORT, _LONG = 0.5, 60.0
_ROWS = 100
_FEW_GROUPS, _FEW_ROWS = 8, 6
_WIDTH = 110
_KEPT_PAGES = 64
_STATIC = {
    "icon.svg": "image/svg+xml",
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "uPlot.iife.min.js": "text/javascript; charset=utf-8",
    "uPlot.min.css": "text/css; charset=utf-8",
}
_STATIC_SECONDS = 3600
_HTML, _JSON = "text/html; charset=utf-8", "application/json"
_VIEWS = {
    "/": "Now",
    "/groups": "Groups",
    "/pods": "Waiting pods",
    "/nodes": "Nodes",
    "/events": "Events",
    "/what-if": "What if",
}


class LoopSource(Protocol):
    """A source of the last loop, its view and explanations of it."""

    def look(self, patience: float) -> AbstractContextManager[LastLoop | str]:
        """Give the last loop, or why there is none, while no loop runs; wait at most ``patience`` seconds for that."""

    def writing(self) -> AbstractContextManager[object]:
        """Wait until no other page is written; enter this without a loop's ``look``."""

    def view_of(self, last: LastLoop) -> View:
        """Return the view of the loop that ``look`` gives now."""

    def objects(self, kind: str) -> Iterable[Object]:
        """Return the objects of a kind, as last read."""

    def find_explanation(self, last: LastLoop | str, kind: str, name: str) -> Explanation | str:
        """Explain an object, or return why the loop explains nothing. Raise ConfigError for a name that does not exist."""


class Console:
    """Render the views, in any thread."""

    def __init__(self, source: LoopSource, history: History, clock: Clock, note: str = "") -> None:
        self._source = source
        self._what_ifs = WhatIfs(source.objects, clock.now)
        self._note = note
        self._history = history
        self._lock = threading.Lock()
        # The last content of each page, by path and query; guarded by the lock.
        self._shown: dict[tuple[str, str], Mapping[str, Any]] = {}

    def pages(self) -> Pages:
        static = {f"/static/{name}": _serve_static(name, kind) for name, kind in _STATIC.items()}
        return {
            "/": self._page("/", "now.html", self._now),
            "/groups": self._page("/groups", "groups.html", self._groups),
            "/pods": self._page("/pods", "pods.html", self._pods),
            "/nodes": self._page("/nodes", "nodes.html", self._nodes),
            "/events": lambda query: self._render("/events", "events.html", query, self._events(query)),
            "/what-if": self._what_if,
            "/object": self._object,
            "/series.json": self._series,
            **static,
        }

    def _page(
        self, path: str, template: str, find: Callable[[View, Query], Mapping[str, Any]]
    ) -> Callable[[Query], Page]:
        """Return a function that renders a view of the last loop."""

        def render(query: Query) -> Page:
            key = (path, urlencode(sorted(query.items())))
            with self._lock:
                shown = self._shown.get(key)
            with self._source.look(_SHORT if shown is not None else _LONG) as last:
                if isinstance(last, LastLoop):
                    view = self._source.view_of(last)
                    shown = {**_head(view), **find(view, query), "late": ""}
                elif shown is not None:
                    shown = {**shown, "late": "A loop is running: this is the result of the one before."}
            if shown is None:
                return self._render(path, "nothing.html", query, {"why": last}, 503)
            with self._lock:
                while len(self._shown) >= _KEPT_PAGES:
                    del self._shown[next(iter(self._shown))]
                self._shown[key] = shown
            return self._render(path, template, query, shown)

        return render

    def _render(self, path: str, template: str, query: Query, shown: Mapping[str, Any], status: int = 200) -> Page:
        here = f"{path}?{urlencode(query)}" if query else path
        around = {"views": _VIEWS, "path": path, "here": here, "query": query, "note": self._note}
        with self._source.writing():
            text = _templates().get_template(template).render(**around, **shown)
        return Page(text.encode(errors="replace"), status, _HTML)

    def _now(self, view: View, _: Query) -> Mapping[str, Any]:
        notable = [row for row in view.groups if row.tone in ("bad", "warn") or row.upcoming or row.under_way]
        return {
            # Sorted: groups with problems or activity come first.
            "groups": view.with_growth(view.groups[:_FEW_GROUPS]),
            "all_groups": len(view.groups),
            "notable": len(notable),
            "waiting": view.waiting[:_FEW_ROWS],
            "all_waiting": len(view.waiting),
            "doing": view.doing,
            "budgets": view.budgets,
            "events": self._history.events()[:_FEW_ROWS],
        }

    def _groups(self, view: View, query: Query) -> Mapping[str, Any]:
        wanted = query.get("q", "")
        found = [row for row in view.groups if wanted in row.name]
        rows, pager = _cut(found, query)
        return {"groups": view.with_growth(rows), "pager": pager}

    def _pods(self, view: View, query: Query) -> Mapping[str, Any]:
        wanted = query.get("q", "")
        found = [row for row in view.waiting if not wanted or any(wanted in pod for pod in row.pods)]
        rows, pager = _cut(found, query)
        return {"waiting": rows, "pager": pager}

    def _nodes(self, view: View, query: Query) -> Mapping[str, Any]:
        wanted, group = query.get("q", ""), query.get("group", "")
        found = [key for key in view.node_keys if wanted in key.name and (not group or key.group == group)]
        keys, pager = _cut(found, query)
        return {"nodes": view.node_rows(keys), "pager": pager, "group": group}

    def _events(self, query: Query) -> Mapping[str, Any]:
        wanted = query.get("q", "").lower()
        found = [one for one in self._history.events() if wanted in _searched(one)]
        rows, pager = _cut(found, query)
        return {"events": rows, "pager": pager}

    def _what_if(self, query: Query) -> Page:
        """Show the form, and the answer if something is asked."""
        shown: dict[str, Any] = {"answer": None, "why_not": "", "as_of": 0.0}
        try:
            what = read_question(query)
            if what is None:
                return self._render("/what-if", "what_if.html", query, shown)
            with self._source.look(_LONG) as last:
                if not isinstance(last, str):
                    shown |= {"answer": self._what_ifs.answer(last, what), "as_of": last.report.started}
            if isinstance(last, str):
                return self._render("/what-if", "what_if.html", query, shown | {"why_not": last}, 503)
        except ConfigError as error:
            return self._render("/what-if", "what_if.html", query, shown | {"why_not": str(error)}, 400)
        return self._render("/what-if", "what_if.html", query, shown)

    def _object(self, query: Query) -> Page:
        """Explain one object, as ``nodewright explain`` does."""
        kind, name = query.get("kind", ""), query.get("name", "")
        if kind not in KINDS:
            return self._render("/object", "nothing.html", query, {"why": f"kind is one of {', '.join(KINDS)}"}, 400)
        with self._source.look(_LONG) as last:
            found: Explanation | ConfigError | str
            try:
                found = self._source.find_explanation(last, kind, name)
            except ConfigError as error:
                found = error
        if isinstance(found, ConfigError):
            return self._render("/object", "nothing.html", query, {"why": str(found)}, 404)
        if isinstance(found, str):
            return self._render("/object", "nothing.html", query, {"why": found}, 503)
        text = io.StringIO()
        with self._source.writing():
            print_explanation(make_console(text, _WIDTH), found)
        return self._render("/object", "object.html", query, {"kind": kind, "name": name, "text": text.getvalue()})

    def _series(self, _: Query) -> Page:
        """Return the samples as columns, and the moments of warnings."""
        samples = self._history.samples()
        names = samples[0]._fields if samples else ()
        columns = {name: [sample[place] for sample in samples] for place, name in enumerate(names)}
        since = samples[0].at if samples else 0.0
        warnings = [
            (one.at, one.event.reason)
            for one in self._history.events()
            if one.event.type == "Warning" and one.at >= since
        ]
        return Page(msgspec.json.encode({"samples": columns, "warnings": warnings}), content_type=_JSON)


def _head(view: View) -> Mapping[str, Any]:
    """Return the values at the top of every view."""
    report = view.last.report
    paused = view.status.pause
    return {
        "at": report.finished,
        "now": view.last.now,
        "loop": report.loop,
        "problems": view.problems + ([f"Writes to clouds are {paused}."] if paused is not None else []),
        "nodes_count": view.nodes,
        "groups_count": len(view.groups),
        "upcoming": report.upcoming_machines,
        "pending": view.pending,
        "unhelped": view.unhelped,
        "cost": sum(view.costs.values()) if view.costs else None,
        "removing": len(view.status.removing),
        "moves": len(view.status.moves),
        "unneeded": len(view.status.unneeded),
    }


def _cut(found: list[T] | tuple[T, ...], query: Query) -> tuple[list[T], Mapping[str, Any]]:
    """Return the rows of the requested page, and links to the others."""
    text = query.get("page", "1")
    pages = max(1, -(-len(found) // _ROWS))
    page = min(pages, max(1, int(text))) if text.isascii() and text.isdecimal() and len(text) < 7 else 1
    rest = {key: value for key, value in query.items() if key != "page"}
    links = {
        word: f"?{urlencode({**rest, 'page': to})}"
        for word, to in (("earlier", page - 1), ("later", page + 1))
        if 1 <= to <= pages
    }
    return list(found[(page - 1) * _ROWS : page * _ROWS]), {
        "page": page,
        "pages": pages,
        "rows": len(found),
        "links": links,
    }


def _searched(one: PastEvent) -> str:
    event = one.event
    return f"{event.reason} {event.kind} {event.name} {event.message}".lower()


def _serve_static(name: str, kind: str) -> Callable[[Query], Page]:
    def serve(_: Query) -> Page:
        return Page(_read_static(name), content_type=kind, lasts=_STATIC_SECONDS)

    return serve


@cache
def _read_static(name: str) -> bytes:
    return files(__package__).joinpath("static", name).read_bytes()


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "moment": format_moment,
        "clock": lambda at: format_moment(at)[5:-1].replace("T", " "),
        "printable": printable,
        "count": count,
        "usd": lambda amount: "–" if amount is None else f"${amount:,.2f}" if amount >= 1 else f"${amount:,.4f}",  # noqa: RUF001
        "object": lambda name, kind: f"/object?{urlencode({'kind': kind, 'name': name})}",
        "of_group": lambda group: f"/nodes?{urlencode({'group': group})}",
    }
    return environment
