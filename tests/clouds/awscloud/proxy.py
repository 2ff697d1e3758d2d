"""An HTTP proxy before moto: passes requests on, asks a player what to do with each."""

import http.client
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs
from uuid import uuid4
from xml.sax.saxutils import escape

_SERVICE = re.compile(r"Credential=[^/]+/[0-9]+/[^/]+/(?P<service>[^/]+)/")


@dataclass(frozen=True)
class Request:
    """One call of the API; ``action`` is empty for services that do not speak the query protocol."""

    service: str
    action: str
    form: Mapping[str, str]
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class LostAnswer(Exception):
    """The connection breaks before the answer arrives."""


Play = Callable[[Request], Answer]


def refuse(code: str, message: str, status: int = 400, headers: Mapping[str, str] | None = None) -> Answer:
    """An error as the query protocol writes it; EC2 reads the same members elsewhere, so both are there."""
    said = f"<Error><Type>Sender</Type><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
    text = f"<ErrorResponse>{said}<Errors>{said}</Errors><RequestId>{uuid4()}</RequestId></ErrorResponse>"
    return Answer(status=status, body=text.encode(), headers={"Content-Type": "text/xml", **(headers or {})})


class Proxy:
    """Listens on a port of its own; ``play`` answers each request, mostly by ``forward``."""

    def __init__(self, moto_port: int, play: Play, now: Callable[[], float]) -> None:
        self._moto_port = moto_port
        self._play = play
        self._now = now
        self._local = threading.local()
        proxy = self

        class Handler(_Handler):
            outer = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: Request) -> Answer:
        played = self._play(request)
        return Answer(played.status, played.body, {"Date": formatdate(self._now(), usegmt=True), **played.headers})

    def forward(self, request: Request) -> Answer:
        """What moto answers."""
        link = http.client.HTTPConnection("127.0.0.1", self._moto_port, timeout=60)
        try:
            link.request(request.method, request.path, request.body, dict(request.headers))
            reply = link.getresponse()
            kept = {
                name: value
                for name, value in reply.getheaders()
                if name.lower() in ("content-type", "x-amzn-errortype")
            }
            return Answer(reply.status, reply.read(), kept)
        finally:
            link.close()


class _Handler(BaseHTTPRequestHandler):
    outer: Proxy
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet: half of them alone wait 40 ms for an acknowledgement

    def do_POST(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def log_message(self, *_: object) -> None:
        """Nothing: the calls are counted."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            answer = self.outer.answer(self._read(body))
        except LostAnswer:
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def _read(self, body: bytes) -> Request:
        found = _SERVICE.search(self.headers.get("Authorization", ""))
        form = {name: values[0] for name, values in parse_qs(body.decode("latin-1"), keep_blank_values=True).items()}
        return Request(
            service=found["service"] if found else "",
            action=form.get("Action") or self.headers.get("X-Amz-Target", "").partition(".")[2],
            form=form,
            method=self.command,
            path=self.path,
            headers={name: value for name, value in self.headers.items() if name.lower() != "connection"},
            body=body,
        )
