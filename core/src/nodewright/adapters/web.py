"""The daemon's HTTP server: pages by path, GET and HEAD only. A request changes nothing."""

import asyncio
import binascii
import socket
import ssl
import threading
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from nodewright.model.address import SERVER_NAME, is_loopback, parse_address
from nodewright.model.clock import Clock
from nodewright.model.duration import format_duration
from nodewright.model.errors import ConfigError

_PLAIN = "text/plain; charset=utf-8"
_IDLE_SECONDS, _LAST_SECONDS = 5, 5
# The most tokens that are reviewed at a time; further requests wait.
_REVIEWS = 4
# The host names by which a browser on this machine asks for a page. A foreign page whose DNS name leads to this machine (DNS
# rebinding) asks by its own name, and is refused.
_OWN_NAMES = ["localhost", "127.0.0.1", "[::1]"]
_HEADERS = {
    "Server": SERVER_NAME,
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Page(NamedTuple):
    """A response; ``lasts`` are the seconds for which a browser may cache it."""

    body: bytes
    status: int = 200
    content_type: str = _PLAIN
    lasts: int = 0


class ClientLimits(NamedTuple):
    """Limits for clients.

    Seconds until a request has arrived completely; seconds until its response has been received (a page may wait 90 s for
    a loop); bytes of a request's headers; connections of all clients together.
    """

    request_seconds: float = 10.0
    answer_seconds: float = 120.0
    request_bytes: int = 16 * 1024
    connections: int = 200


Query = Mapping[str, str]
Render = Callable[[Query], Page]
Pages = Mapping[str, Render]


class Denied(NamedTuple):
    """The refusal of a request: HTTP's status, and a sentence that says why."""

    status: int
    sentence: str


class Secured(NamedTuple):
    """A server's TLS, and who may see its pages.

    ``deny`` returns why the bearer of a token may not ask for a path with a method (None: it may). It is called in other
    threads, and may block. ``open_to_all`` are paths that need no token.
    """

    context: ssl.SSLContext
    deny: Callable[[str, str, str], Denied | None]
    open_to_all: frozenset[str] = frozenset()


class WebServer:
    """Serve ``pages`` by path, in threads of its own, until ``stop``.

    A page gets the query; of a repeated key it gets the last value. ``name`` is the setting that holds the address. Without
    ``secured`` it serves plain HTTP to every client; at a loopback address then only requests for a name of this machine
    are answered. Raise ConfigError if ``address`` is invalid.
    """

    def __init__(
        self,
        name: str,
        address: str,
        pages: Pages,
        limits: ClientLimits = ClientLimits(),  # noqa: B008 - it cannot be changed
        secured: Secured | None = None,
    ) -> None:
        self.name = name
        self._flag = f"--{name.replace('_', '-')}"
        self._address = address
        self._place = parse_address(self._flag, address)
        self._limits = limits
        self._secured = secured
        names = _OWN_NAMES if secured is None and is_loopback(self._place[0]) else ["*"]
        self._app = _make_app(pages, limits, names, secured)
        self._port = self._place[1]
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """Return the port on which the server listens after ``start``. For port 0 the operating system chooses one."""
        return self._port

    def start(self) -> None:
        """Listen at the address. Raise ConfigError if that cannot be done, for instance because it is in use."""
        try:
            listening = _listen(*self._place, self._limits.connections)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"{self._flag}: {self._address}: {_say(error)}") from None
        self._port = int(listening.getsockname()[1])
        config = uvicorn.Config(
            self._app,
            http=type("Protocol", (_BoundedProtocol,), {"limits": self._limits}),
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=self._limits.request_bytes,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=_LAST_SECONDS,
        )
        if self._secured is not None:
            config.load()
            config.ssl = self._secured.context
        self._server = server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listening]}, name=f"http-{self.port}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; return once the pages that were asked for are rendered."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join()


class _BoundedListener(socket.socket):
    """A listening socket that closes a connection at once while ``most`` are open.

    It counts connections whose TLS handshake has not ended, too, of which the protocol does not know yet.
    """

    most: int
    opened: list[socket.socket]

    def accept(self) -> tuple[socket.socket, Any]:
        made, peer = super().accept()
        self.opened = [one for one in self.opened if one.fileno() >= 0]
        if len(self.opened) >= self.most:
            made.close()
            raise ConnectionAbortedError  # asyncio goes on with the next one
        self.opened.append(made)
        return made, peer


def _listen(host: str, port: int, most: int) -> socket.socket:
    """Return a socket that listens on the host; without one on every IPv4 and IPv6 address, since a pod may have either."""
    both = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if ":" in host or both else socket.AF_INET
    made = socket.create_server((host, port), family=family, dualstack_ipv6=both)
    listening = _BoundedListener(made.family, made.type, made.proto, made.detach())
    listening.most, listening.opened = most, []
    return listening


def _say(error: Exception) -> str:
    """Return what is wrong with an address, without the address."""
    said: str = getattr(error, "strerror", None) or str(error)
    return said.partition(" (while")[0]


def _make_app(pages: Pages, limits: ClientLimits, names: list[str], secured: Secured | None) -> ASGIApp:
    app: ASGIApp = Starlette(
        routes=[Route(path, _endpoint(render), methods=["GET"]) for path, render in pages.items()],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)],
        exception_handlers={404: lambda *_: _respond(Page(b"there is no such page\n", 404))},
    )
    if secured is not None:
        app = _Guarded(app, secured)
    return _BoundedTime(app, limits.answer_seconds)


class _Guarded:
    """An ASGI application that gives only requests to ``app`` whose token may ask for their path."""

    def __init__(self, app: ASGIApp, secured: Secured) -> None:
        self._app = app
        self._secured = secured
        self._reviews = asyncio.Semaphore(_REVIEWS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        denied = None if scope["path"] in self._secured.open_to_all else await self._review(scope)
        if denied is None:
            await self._app(scope, receive, send)
            return
        response = _respond(Page(f"{denied.sentence}\n".encode(errors="replace"), denied.status))
        if denied.status == _UNAUTHORIZED:
            # A browser asks its user for a name and a password; programs send a bearer token.
            response.headers["WWW-Authenticate"] = 'Basic realm="nodewright: the password is a token", charset="UTF-8"'
            response.headers.append("WWW-Authenticate", "Bearer")
        await response(scope, receive, send)

    async def _review(self, scope: Scope) -> Denied | None:
        token = _find_token(Headers(scope=scope).get("authorization", ""))
        if not token:
            return Denied(_UNAUTHORIZED, "this needs a token: as a bearer token, or as the password of any user")
        async with self._reviews:
            return await run_in_threadpool(self._secured.deny, token, scope["method"], scope["path"])


_UNAUTHORIZED = 401


def _find_token(header: str) -> str:
    """Return the bearer token of an Authorization header, or the password of Basic; empty: there is none."""
    scheme, _, rest = header.strip().partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return b64decode(rest.strip(), validate=True).decode().partition(":")[2].strip()
    except (binascii.Error, ValueError):
        return ""


def _endpoint(render: Render) -> Callable[[Request], Response]:
    """Return a function that responds to a request, in a thread."""

    def answer(request: Request) -> Response:
        try:
            return _respond(render(dict(request.query_params)))
        except Exception as error:  # noqa: BLE001 - the client gets the error instead of a cut connection
            said = f"a bug in nodewright: {type(error).__name__}: {error}\n"
            return _respond(Page(said.encode(errors="replace"), 500))

    return answer


def _respond(page: Page) -> Response:
    kept = {"Cache-Control": f"max-age={page.lasts}"} if page.lasts else {}
    return Response(page.body, page.status, {"Content-Type": page.content_type, **kept})


class _BoundedTime:
    """An ASGI application that bounds the time until the client has received a response, and adds our headers."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                ours = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *(one for one in ours if one[0] not in given)]
            await send(message)

        async with asyncio.timeout(self._seconds):
            await self._app(scope, receive, send_with_headers)


class _BoundedProtocol(H11Protocol):
    """uvicorn's protocol, with a bound on the time until a request has arrived completely."""

    limits: ClientLimits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's own
        super().connection_made(transport)
        self._expect_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_request()

    def _expect_request(self) -> None:
        self.loop.call_later(self.limits.request_seconds, self._give_up, self.cycle)

    def _give_up(self, last: object) -> None:
        """Close a connection on which no request has arrived since ``last``; cut it if the client does not receive the rest."""
        if self.cycle is last:
            self.transport.close()
            self.loop.call_later(self.limits.answer_seconds, self.transport.abort)


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
