"""What of a call goes over the wire, held against a server that notes it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from nodewright.adapters.kube.api import MERGE_PATCH, ApiError, Request
from nodewright.adapters.kube.connection import Connection, connect
from nodewright.model.errors import ConfigError

KUBECONFIG = """
current-context: here
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
users: [{name: me, user: {}}]
"""


class Notes(BaseHTTPRequestHandler):
    """Notes each call and answers an empty object."""

    seen: list[tuple[str, str, bytes, str]]

    def do_PUT(self) -> None:
        """Not now: later, as the path says."""
        self.send_response(429)
        self.send_header("Retry-After", self.path.rpartition("/")[2])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _note(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.seen.append((self.command, self.path, body, self.headers.get("Content-Type") or ""))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_PATCH = do_DELETE = _note  # noqa: N815 - as the standard library calls them

    def log_message(self, *_: object) -> None:
        """Nothing is said of it."""


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    Notes.seen = []
    with HTTPServer(("127.0.0.1", 0), Notes) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        named = {"name": "here", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        config = {
            "current-context": "here",
            "clusters": [named],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "users": [{"name": "me", "user": {"token": "secret"}}],
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        yield connect(kubeconfig=str(tmp_path / "kubeconfig"))
        server.shutdown()


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("PATCH", b"[1]"), ("DELETE", b"[1]")])
def test_every_call_brings_its_query_and_its_body(connection: Connection, method: str, body: bytes | None) -> None:
    query = {"fieldManager": "a b", "labelSelector": "x=y,z!=1"}
    call = Request(method=method, path="/apis/x/status", query=query, body=body, content_type=MERGE_PATCH)
    assert connection.send(call) == b"{}"
    [(verb, path, sent, content)] = Notes.seen
    assert (verb, path) == (method, "/apis/x/status?fieldManager=a+b&labelSelector=x%3Dy%2Cz%21%3D1")
    assert (sent, content) == ((body, MERGE_PATCH) if body else (b"", ""))


def test_a_call_without_query_has_none(connection: Connection) -> None:
    connection.send(Request(method="GET", path="/readyz"))
    assert Notes.seen[0][1] == "/readyz"


@pytest.mark.parametrize("text", ["junk: [", "a word", "[1]", "{clusters: 7}", "", "{users: [{}]}", "\x00"])
def test_what_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"^--kubeconfig: .*kubeconfig") as caught:
        connect(kubeconfig=str(file))
    assert "\n" not in str(caught.value)


def test_an_address_without_a_scheme_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    assert connect(kubeconfig=str(file), server="https://there:6443").server == "https://there:6443"
    with pytest.raises(ConfigError, match=r"^--kubernetes: there:6443 is no address like https://"):
        connect(kubeconfig=str(file), server="there:6443")


@pytest.mark.parametrize(
    ("asked", "kept"), [("7", 7.0), ("86400", 60.0), ("inf", 60.0), ("nan", 0.0), ("-1", 0.0), ("soon", 0.0)]
)
def test_how_long_to_wait_is_asked_for_within_reason(connection: Connection, asked: str, kept: float) -> None:
    with pytest.raises(ApiError) as caught:
        connection.send(Request(method="PUT", path=f"/{asked}"))
    assert (caught.value.status, caught.value.retry_after) == (429, kept)
