"""A small HTTP server for a few pages: GET and HEAD only, nothing is ever changed by a request."""

import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import NamedTuple
from urllib.parse import parse_qsl

from nodewright.model.address import SERVER_NAME, parse_address
from nodewright.model.clock import Clock
from nodewright.model.duration import format_duration
from nodewright.model.errors import ConfigError

_PLAIN = "text/plain; charset=utf-8"
_SLOWEST_CLIENT = 10.0


class Page(NamedTuple):
    """An answer."""

    body: bytes
    status: int = 200
    content_type: str = _PLAIN


Query = Mapping[str, str]
Render = Callable[[Query], Page]
Pages = Mapping[str, Render]


class WebServer:
    """Serve ``pages`` by path, in threads of its own, until ``stop``.

    A page gets the query; of a repeated key it gets the last value. ``name`` is the setting that holds the address. Raise
    ConfigError for what is no address.
    """

    def __init__(self, name: str, address: str, pages: Pages) -> None:
        self.name = name
        self._flag = f"--{name.replace('_', '-')}"
        self._address = address
        self._place = parse_address(self._flag, address)
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

        class Handler(BaseHTTPRequestHandler):
            timeout = _SLOWEST_CLIENT
            server_version, sys_version = SERVER_NAME, ""

            def do_GET(self) -> None:
                self.wfile.write(self._answer())

            def do_HEAD(self) -> None:
                self._answer()

            def _answer(self) -> bytes:
                path, _, query = self.path.partition("?")
                page = _render(pages.get(path), dict(parse_qsl(query)))
                self.send_response(page.status)
                self.send_header("Content-Type", page.content_type)
                self.send_header("Content-Length", str(len(page.body)))
                self.end_headers()
                return page.body

            def log_message(self, *_: object) -> None:
                """Log nothing: probes come every few seconds."""

        self._handler = Handler

    @property
    def port(self) -> int:
        """The one that it listens on since ``start``, also when the system chose it (0)."""
        return self._place[1] if self._server is None else int(self._server.server_address[1])

    def start(self) -> None:
        """Listen at the address. Raise ConfigError if that cannot be done, for instance because it is in use."""
        try:
            self._server = server = _Server(self._place, self._handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"{self._flag}: {self._address}: {getattr(error, 'strerror', None) or error}") from None
        self._thread = threading.Thread(target=server.serve_forever, name=f"http-{self.port}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Listen no more; return once the last page that was asked for is rendered."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _render(render: Render | None, query: Query) -> Page:
    if render is None:
        return Page(b"there is no such page\n", 404)
    try:
        return render(query)
    except Exception as error:  # noqa: BLE001 - the client gets the error instead of a cut connection
        return Page(f"a bug in nodewright: {type(error).__name__}: {error}\n".encode(errors="replace"), 500)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Connections that are still open at the end are cut, not waited for.
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        """Listen on the host of ``address``; without one on every IPv4 and IPv6 address, since a pod may have either."""
        host = address[0]
        if ":" in host or (not host and socket.has_dualstack_ipv6()):
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind without the method of HTTPServer, which asks DNS for a name of this machine that is never used."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)

    def handle_error(self, *_: object) -> None:
        """Ignore clients that closed the connection."""


@dataclass(frozen=True, kw_only=True)
class HealthLimits:
    """Seconds without a loop, without a successful one, and before the first success."""

    inactivity: float
    failing: float
    startup: float


class HealthCheck:
    """Check whether the loop is alive and succeeds, by cluster-autoscaler's rules. Before ``begin`` (waiting to lead) it passes."""

    def __init__(self, limits: HealthLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._active: float | None = None
        self._succeeded: float | None = None
        self._began = 0.0

    def begin(self) -> None:
        self._began = self._active = self._clock.now()

    def ran(self, *, succeeded: bool) -> None:
        """Record that a loop ended."""
        self._active = self._clock.now()
        if succeeded:
            self._succeeded = self._active

    def problem(self) -> str:
        """Return why the process should be restarted; empty: it should not."""
        if self._active is None:
            return ""
        now, limits = self._clock.now(), self._limits
        startup = max(limits.startup, limits.inactivity, limits.failing)
        idle, failing = now - self._active, now - (self._succeeded or self._began)
        if self._succeeded is None:
            if failing <= startup:
                return ""
            return f"no loop has succeeded since the start {format_duration(round(failing))} ago"
        if idle > limits.inactivity:
            return f"the last loop ended {format_duration(round(idle))} ago"
        if failing > limits.failing:
            return f"the last successful loop ended {format_duration(round(failing))} ago"
        return ""
