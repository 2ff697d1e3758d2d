"""The Date header of real HTTP responses tells the API server's time."""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nodewright.adapters.clocks import BootClock, SystemClock
from nodewright.adapters.kube.api import ApiError, Request
from nodewright.adapters.kube.connection import Connection, connect
from nodewright.adapters.server_time import ServerTime

DAY = 86400.0


class Dated(BaseHTTPRequestHandler):
    """Responds with these headers alone."""

    headers_to_send: dict[str, str]
    status = 200

    def do_GET(self) -> None:
        """Respond with an empty object."""
        self.send_response_only(self.status)
        for name, value in self.headers_to_send.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[tuple[type[Dated], str]]:
    handler = type("DatedOfOne", (Dated,), {"headers_to_send": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as front:
        threading.Thread(target=front.serve_forever, args=(0.01,), daemon=True).start()
        yield handler, f"http://127.0.0.1:{front.server_port}"
        front.shutdown()


@pytest.fixture
def time() -> ServerTime:
    return ServerTime(SystemClock(), BootClock().now)


@pytest.fixture
def connection(server: tuple[type[Dated], str], time: ServerTime, tmp_path: Path) -> Connection:
    here = {"name": "here", "cluster": {"server": server[1]}}
    config = {
        "current-context": "here",
        "clusters": [here],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    return connect(kubeconfig=str(tmp_path / "kubeconfig"), time=time)


def dated(ahead: float) -> str:
    moment = datetime.fromtimestamp(SystemClock().now() + ahead, tz=UTC)
    return format_datetime(moment, usegmt=True)


def ahead_by(time: ServerTime) -> float:
    return time.now() - SystemClock().now()


@pytest.mark.parametrize("status", [200, 403, 500])
@pytest.mark.parametrize("ahead", [DAY, -DAY])
def test_any_response_tells_the_time(
    server: tuple[type[Dated], str], connection: Connection, time: ServerTime, ahead: float, status: int
) -> None:
    server[0].headers_to_send, server[0].status = {"Date": dated(ahead)}, status
    with suppress(ApiError):
        connection.send(Request(method="GET", path="/version"))
    assert ahead_by(time) == pytest.approx(ahead, abs=5.0)


def test_a_watch_tells_the_time(server: tuple[type[Dated], str], connection: Connection, time: ServerTime) -> None:
    server[0].headers_to_send = {"Date": dated(DAY)}
    with connection.follow(Request(method="GET", path="/api/v1/pods", query={"watch": "true"})):
        assert ahead_by(time) == pytest.approx(DAY, abs=5.0)


@pytest.mark.parametrize(
    "headers", [{}, {"Date": "today"}, {"Date": ""}, {"Date": dated(-DAY), "Age": "86400"}, {"Date": dated(4000 * DAY)}]
)
def test_what_no_api_server_says_is_not_its_time(
    server: tuple[type[Dated], str], connection: Connection, time: ServerTime, headers: dict[str, str]
) -> None:
    """No date, one that is none, a response from a cache, and a time that cannot be."""
    server[0].headers_to_send = headers
    connection.send(Request(method="GET", path="/version"))
    assert ahead_by(time) == pytest.approx(0.0, abs=0.1)
    assert not time.is_heard
    assert "this machine's clock is used" in time.problem()
