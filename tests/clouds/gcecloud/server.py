"""The HTTP side: reads a request, has it answered, writes the answer."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


@dataclass(frozen=True)
class Request:
    verb: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


@dataclass(frozen=True)
class Answer:
    status: int
    content: Any
    headers: Mapping[str, str] = field(default_factory=dict)


class LostAnswer(Exception):
    """The connection breaks before the answer arrives."""


def refuse(status: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    """An error as Google's APIs write it."""
    item = {"message": message, "domain": "global", "reason": reason}
    return Answer(status, {"error": {"code": status, "message": message, "errors": [item]}}, headers or {})


class Server:
    """Listens on a port of its own."""

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        class Handler(_Handler):
            respond = staticmethod(answer)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    respond: Callable[[Request], Answer]
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet: half of them alone wait 40 ms for an acknowledgement

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, *_: object) -> None:
        """Nothing: the calls are counted."""

    def _serve(self) -> None:
        url = urlsplit(self.path)
        request = Request(
            verb=self.command,
            path=unquote(url.path),
            query=dict(parse_qsl(url.query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(int(self.headers.get("Content-Length") or 0)),
        )
        try:
            answer = type(self).respond(request)
        except LostAnswer:
            self.close_connection = True
            return
        is_text = isinstance(answer.content, str)
        content = answer.content.encode() if is_text else json.dumps(answer.content).encode()
        self.send_response_only(answer.status)
        self.send_header("Content-Type", "text/plain" if is_text else "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
