"""An HTTPS server that asks a player what to answer to each request."""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from azurecloud.certificates import HOST


@dataclass(frozen=True)
class Request:
    """One call; ``body`` is decoded JSON, or text where it is none."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class LostAnswer(Exception):
    """The connection breaks before the answer arrives."""


Play = Callable[[Request], Answer]


class Server:
    """Listens on a port of its own until it is closed."""

    def __init__(self, context: ssl.SSLContext, play: Play) -> None:
        self.play = play
        server = self

        class Handler(_Handler):
            outer = server

        self._server = _TlsServer(context, Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _TlsServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, context: ssl.SSLContext, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._context = context

    def get_request(self) -> tuple[socket.socket, Any]:
        """Hands are shaken by the thread that serves, not by the one that accepts."""
        plain, address = super().get_request()
        return self._context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: clients that do not trust us hang up, and that is their right."""


class _Handler(BaseHTTPRequestHandler):
    outer: Server
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet: half of them alone wait 40 ms for an acknowledgement

    def log_message(self, *_: object) -> None:
        """Nothing: the calls are counted."""

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def _serve(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            answer = self.outer.play(self._read(raw))
        except LostAnswer:
            self.close_connection = True
            return
        body = b"" if answer.body is None else json.dumps(answer.body).encode()
        self.send_response_only(answer.status)
        headers = {"Content-Type": "application/json", **answer.headers, "Content-Length": str(len(body))}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _read(self, raw: bytes) -> Request:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        body: Any = raw.decode("latin-1")
        if self.headers.get("Content-Type", "").startswith("application/json") and raw:
            body = json.loads(raw)
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Request(method=self.command, path=url.path, query=query, headers=headers, body=body)
