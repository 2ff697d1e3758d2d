"""Requests to a daemon, or to another process that listens at its address."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from nodewright.adapters.web import Page, WebServer
from nodewright.cli.debug_client import ask_daemon
from nodewright.model.errors import ConfigError


class Stranger(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Discard it: no test reads it."""


@pytest.fixture
def stranger() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_daemon_answers() -> None:
    pages = {"/status": lambda query: Page(query["a"].encode()), "/explain": lambda _: Page(b"there is no pod\n", 404)}
    server = WebServer("debug_address", "127.0.0.1:0", pages)
    server.start()
    try:
        assert ask_daemon(f"127.0.0.1:{server.port}", "/status", {"a": "b c"}) == "b c"
        with pytest.raises(ConfigError, match=r"the daemon at 127\.0\.0\.1:\d+: there is no pod"):
            ask_daemon(f"127.0.0.1:{server.port}", "/explain", {})
    finally:
        server.stop()


def test_whoever_else_listens_there_is_not_taken_for_one(stranger: str) -> None:
    """Its port is also that of a database."""
    with pytest.raises(ConfigError, match=r"--debug-address: 127\.0\.0\.1:\d+: the process there is not nodewright"):
        ask_daemon(stranger, "/status", {})


def test_nobody_is_there() -> None:
    assert ask_daemon("", "/status", {}) is None
    assert ask_daemon("127.0.0.1:1", "/status", {}) is None
