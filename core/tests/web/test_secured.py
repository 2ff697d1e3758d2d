"""A server beyond loopback: TLS with files that are replaced, and tokens that may or may not ask for a path."""

import http.client
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from core.tests.web.certificates import write_certificate

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.tls import CertificateFiles
from nodewright.adapters.web import ClientLimits, Denied, Page, Secured, WebServer
from nodewright.model.clock import Clock
from nodewright.model.errors import ConfigError

PAGES = {"/": lambda _: Page(b"pods\n"), "/readyz": lambda _: Page(b"OK\n")}


def deny(token: str, method: str, path: str) -> Denied | None:
    if token == "down":  # noqa: S105 - of this test
        return Denied(503, "no answer")
    if token not in ("good", "poor"):
        return Denied(401, "unknown")
    return None if token == "good" else Denied(403, f"may not {method} {path}")  # noqa: S105 - of this test


@contextmanager
def serve(files: CertificateFiles, limits: ClientLimits = ClientLimits()) -> Iterator[WebServer]:  # noqa: B008 - it cannot be changed
    secured = Secured(files.context(), deny, frozenset(("/readyz",)))
    server = WebServer("secure_address", "127.0.0.1:0", PAGES, limits, secured=secured)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def files_in(folder: Path, password: bytes = b"") -> CertificateFiles:
    return make_files(*write_certificate(folder, password))


def make_files(
    certificate: Path,
    key: Path,
    see: Callable[[str], None] = lambda _: None,
    clock: Clock = VirtualClock(0.0),  # noqa: B008 - no test moves it
) -> CertificateFiles:
    return CertificateFiles(str(certificate), str(key), see, clock.now)


def ask(server: WebServer, authority: Path, path: str = "/", header: str = "") -> tuple[int, bytes, list[str]]:
    context = ssl.create_default_context(cafile=str(authority))
    line = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=30, context=context)
    try:
        line.request("GET", path, headers={"Authorization": header} if header else {})
        reply = line.getresponse()
        return reply.status, reply.read(), reply.headers.get_all("WWW-Authenticate") or []
    finally:
        line.close()


def basic(text: str) -> str:
    return f"Basic {b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Bearer good", 200),
        ("bearer  good ", 200),
        (basic("anyone:good"), 200),
        (basic(":good"), 200),
        ("Bearer poor", 403),
        ("Bearer bad", 401),
        ("Bearer down", 503),
        ("Bearer ", 401),
        ("", 401),
        ("Digest good", 401),
        ("Basic !", 401),
        (basic("good"), 401),
        ("Basic /w==", 401),
    ],
)
def test_who_may_see_a_page(header: str, status: int, tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    with serve(make_files(certificate, key)) as server:
        found, body, asked = ask(server, certificate, header=header)
        assert found == status
        assert (body == b"pods\n") is (status == 200)
        # A browser then asks its user for the token; for other refusals that would not help.
        assert [one.split()[0] for one in asked] == (["Basic", "Bearer"] if status == 401 else [])


def test_pages_without_a_secret_need_no_token_and_others_are_not_told_to_exist(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    with serve(make_files(certificate, key)) as server:
        assert ask(server, certificate, "/readyz")[:2] == (200, b"OK\n")
        assert ask(server, certificate, "/nothing")[0] == 401
        assert ask(server, certificate, "/nothing", "Bearer poor")[0] == 403
        assert ask(server, certificate, "/nothing", "Bearer good")[0] == 404


def test_plain_http_gets_nothing(tmp_path: Path) -> None:
    with (
        serve(files_in(tmp_path)) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as line,
        suppress(ConnectionError),
    ):
        line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer good\r\n\r\n")
        assert not line.recv(100).startswith(b"HTTP")


def test_a_renewed_certificate_is_served_at_once_and_a_broken_one_is_not(tmp_path: Path) -> None:
    problems: list[str] = []
    certificate, key = write_certificate(tmp_path)
    with serve(make_files(certificate, key, problems.append)) as server:
        old = tmp_path / "old.crt"
        old.write_bytes(certificate.read_bytes())
        certificate.write_text("broken")
        assert ask(server, old, "/readyz")[0] == 200
        assert "tls.crt and the key" in problems[-1]
        write_certificate(tmp_path)
        assert ask(server, certificate, "/readyz")[0] == 200
        assert problems[-1] == ""
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(server, old, "/readyz")


def test_a_renewed_certificate_that_could_not_be_read_is_tried_again(tmp_path: Path) -> None:
    """Files that stay as they are, too: only the reading failed, as that of a mount that hangs."""
    problems: list[str] = []
    clock, readable = VirtualClock(0.0), True

    class Flaky(CertificateFiles):
        def _load(self) -> ssl.SSLContext:
            if not readable:
                raise ConfigError("Input/output error")
            return super()._load()

    held, away = tmp_path / "held", tmp_path / "away"
    held.mkdir()
    certificate, key = write_certificate(held)
    with serve(Flaky(str(certificate), str(key), problems.append, clock.now)) as server:
        old = tmp_path / "old.crt"
        old.write_bytes(certificate.read_bytes())
        write_certificate(held)
        readable = False
        for _ in range(2):
            assert ask(server, old, "/readyz")[0] == 200
        assert problems == ["Input/output error"]
        readable = True
        assert ask(server, old, "/readyz")[0] == 200
        clock.sleep(1.0)
        assert ask(server, certificate, "/readyz")[0] == 200
        assert problems[1:] == [""]
        held.rename(away)
        assert ask(server, away / "tls.crt", "/readyz")[0] == 200
        away.rename(held)
        assert ask(server, certificate, "/readyz")[0] == 200
        assert ["tls.crt: No such file" in problem for problem in problems[2:]] == [True, False]


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    for given, said in (
        ((tmp_path / "no.crt", key), "--tls-cert-file: .*no.crt: No such file"),
        ((certificate, tmp_path), "--tls-private-key-file: .*Is a directory"),
        ((certificate, certificate), "--tls-cert-file: .*cannot be used"),
    ):
        with pytest.raises(ConfigError, match=said):
            make_files(*given).context()
    with pytest.raises(ConfigError, match="cannot be used"):
        files_in(tmp_path, b"secret").context()


def test_connections_without_a_handshake_count(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    with (
        serve(files, ClientLimits(connections=1)) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=30),
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as second,
        suppress(ConnectionError),
    ):
        assert second.recv(100) == b""
