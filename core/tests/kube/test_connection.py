"""Which parts of a call are sent, checked on a server that records requests."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from kubernetes.config.config_exception import ConfigException

from nodewright.adapters.kube.api import MERGE_PATCH, ApiError, Request
from nodewright.adapters.kube.connection import Connection, PodEnvironment, connect, load_credentials, load_pod
from nodewright.model.errors import ConfigError

EXEC = "client.authentication.k8s.io/v1"
KUBECONFIG = """
current-context: here
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
users: [{name: me, user: {}}]
"""


class Notes(BaseHTTPRequestHandler):
    """Notes each call and answers an empty object."""

    seen: list[tuple[str, str, bytes, str]]
    tokens: list[str]
    refused: set[str]

    def do_PUT(self) -> None:
        """Not now: later, as the path says."""
        self.send_response(429)
        self.send_header("Retry-After", self.path.rpartition("/")[2])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _note(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.seen.append((self.command, self.path, body, self.headers.get("Content-Type") or ""))
        token = self.headers.get("Authorization") or ""
        self.tokens.append(token)
        self.send_response(401 if token in self.refused else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_PATCH = do_DELETE = _note  # noqa: N815 - as the standard library calls them

    def log_message(self, *_: object) -> None:
        """Nothing is said of it."""


MakeConnection = Callable[..., Connection]


@pytest.fixture
def connect_as(tmp_path: Path) -> Iterator[MakeConnection]:
    """A connection as the user that is described; once more, the kubeconfig is written again."""
    Notes.seen, Notes.tokens, Notes.refused = [], [], set()

    with HTTPServer(("127.0.0.1", 0), Notes) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

        def make(user: dict[str, Any], port: int = server.server_port) -> Connection:
            named = {"name": "here", "cluster": {"server": f"http://127.0.0.1:{port}"}}
            config = {
                "current-context": "here",
                "clusters": [named],
                "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
                "users": [{"name": "me", "user": user}],
            }
            (tmp_path / "kubeconfig").write_text(json.dumps(config))
            return connect(kubeconfig=str(tmp_path / "kubeconfig"))

        yield make
        server.shutdown()


@pytest.fixture
def connection(connect_as: MakeConnection) -> Connection:
    return connect_as({"token": "secret"})


def ask(connection: Connection) -> str:
    """The token that the last try brought."""
    connection.send(Request(method="GET", path="/readyz"))
    return Notes.tokens[-1]


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
    with pytest.raises(ConfigError, match=r"^--kubernetes: there:6443 is not an address like https://"):
        connect(kubeconfig=str(file), server="there:6443")


@pytest.mark.parametrize(
    ("asked", "kept"), [("7", 7.0), ("86400", 60.0), ("inf", 60.0), ("nan", 0.0), ("-1", 0.0), ("soon", 0.0)]
)
def test_how_long_to_wait_is_asked_for_within_reason(connection: Connection, asked: str, kept: float) -> None:
    with pytest.raises(ApiError) as caught:
        connection.send(Request(method="PUT", path=f"/{asked}"))
    assert (caught.value.status, caught.value.retry_after) == (429, kept)


# Credentials


def test_what_the_api_server_refuses_is_asked_for_again(connect_as: MakeConnection) -> None:
    """Once, and only if there is something else to try: the kubeconfig was written again."""
    connection = connect_as({"token": "first"})
    assert ask(connection) == "Bearer first"
    Notes.refused = {"Bearer first"}
    with pytest.raises(ApiError) as caught:
        ask(connection)
    assert caught.value.status == 401
    connect_as({"token": "second"})
    assert ask(connection) == "Bearer second"
    assert ask(connection) == "Bearer second"
    assert Notes.tokens == ["Bearer first"] * 3 + ["Bearer second"] * 2


@pytest.mark.parametrize("found", ["", "{}", "clusters: 7"])
def test_a_kubeconfig_that_is_broken_when_it_is_needed_costs_that_call(
    connect_as: MakeConnection, tmp_path: Path, found: str
) -> None:
    connection = connect_as({"token": "first"})
    Notes.refused = {"Bearer first"}
    (tmp_path / "kubeconfig").write_text(found)
    with pytest.raises(ApiError, match="the credentials were refused, and there are no others: --kubeconfig: ") as told:
        ask(connection)
    assert told.value.status == 401
    connect_as({"token": "second"})
    assert ask(connection) == "Bearer second"


def test_credentials_of_another_cluster_are_not_sent_to_this_one(connect_as: MakeConnection, tmp_path: Path) -> None:
    """An operator has chosen another context since."""
    connection = connect_as({"token": "first"})
    Notes.refused = {"Bearer first"}
    (tmp_path / "kubeconfig").write_text(KUBECONFIG.replace("user: {}", "user: {token: of-the-other}"))
    with pytest.raises(ApiError):
        ask(connection)
    assert Notes.tokens == ["Bearer first"]


def test_nobody_becomes_anonymous(connect_as: MakeConnection) -> None:
    connection = connect_as({"token": "first"})
    Notes.refused = {"Bearer first"}
    connect_as({})
    with pytest.raises(ApiError):
        ask(connection)
    assert Notes.tokens == ["Bearer first"]


def test_a_plugin_without_an_answer_is_an_error_at_the_start(connect_as: MakeConnection) -> None:
    with pytest.raises(ConfigError, match=r"^--kubeconfig: false returned no credentials"):
        connect_as({"exec": {"apiVersion": EXEC, "command": "false", "interactiveMode": "Never"}})


def test_a_token_file_is_read_for_every_call(connect_as: MakeConnection, tmp_path: Path) -> None:
    """As editors end it, with a line feed. One that is away, empty, or no text for a moment changes nothing."""
    file = tmp_path / "token"
    file.write_text("first")
    connection = connect_as({"tokenFile": "token"})
    assert ask(connection) == "Bearer first"
    file.write_text("second\n")
    assert ask(connection) == "Bearer second"
    for content in (b"", b"\xff\xfe", b"two\nlines"):
        file.write_bytes(content)
        assert ask(connection) == "Bearer second"
    file.unlink()
    assert ask(connection) == "Bearer second"
    file.write_text("third")
    assert ask(connection) == "Bearer third"


def test_a_token_file_that_is_not_there_is_named(connect_as: MakeConnection, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"^--kubeconfig: {tmp_path / 'token'}: No such file or directory$"):
        connect_as({"tokenFile": "token"})


@pytest.mark.parametrize("missing", ["token", "ca.crt", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"])
def test_a_pod_that_is_not_told_everything_is_none(tmp_path: Path, missing: str) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text("x")
    assert load_credentials("", PodEnvironment(tmp_path, environ)).configuration.host == "https://10.0.0.1:443"
    environ.pop(missing, None)
    (tmp_path / missing).unlink(missing_ok=True)
    with pytest.raises(ConfigException):
        load_pod(PodEnvironment(tmp_path, environ))


def test_a_watch_that_has_ended_can_be_abandoned(connection: Connection) -> None:
    with connection.follow(Request(method="GET", path="/api/v1/pods")) as lines:
        assert list(lines) == []  # to its end: the connection is in the pool again
        lines.abandon()
    lines.abandon()


def test_a_watch_that_the_api_server_cut_can_be_abandoned(connect_as: MakeConnection) -> None:
    is_read = threading.Event()

    def cut(server: socket.socket) -> None:
        """Begin an answer, and reset the connection."""
        peer, _ = server.accept()
        with peer:
            peer.recv(4096)
            peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            is_read.wait(10)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with socket.create_server(("127.0.0.1", 0)) as server:
        cutting = threading.Thread(target=cut, args=(server,))
        cutting.start()
        connection = connect_as({"token": "secret"}, server.getsockname()[1])
        with connection.follow(Request(method="GET", path="/api/v1/pods")) as lines:
            is_read.set()
            cutting.join()
            lines.abandon()
