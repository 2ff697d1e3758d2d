"""Health by CA's rules, and a server that only reads."""

import http.client
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.web import ClientLimits, HealthCheck, HealthLimits, Page, WebServer
from nodewright.model.address import parse_address
from nodewright.model.errors import ConfigError

LIMITS = HealthLimits(inactivity=600, failing=900, startup=1200)


def test_who_waits_to_lead_is_healthy() -> None:
    clock = VirtualClock(1000.0)
    check = HealthCheck(LIMITS, clock)
    clock.sleep(100_000)
    assert not check.problem()
    check.begin()
    assert not check.problem()


def test_a_start_may_take_its_time() -> None:
    clock = VirtualClock(1000.0)
    check = HealthCheck(LIMITS, clock)
    check.begin()
    clock.sleep(1200)
    assert not check.problem()
    clock.sleep(1)
    assert "since the start 20m1s ago" in check.problem()


def test_a_loop_that_hangs() -> None:
    clock = VirtualClock(1000.0)
    check = HealthCheck(LIMITS, clock)
    check.begin()
    check.ran(succeeded=True)
    clock.sleep(600)
    assert not check.problem()
    clock.sleep(1)
    assert "the last loop ended 10m1s ago" in check.problem()


def test_loops_that_fail() -> None:
    clock = VirtualClock(1000.0)
    check = HealthCheck(LIMITS, clock)
    check.begin()
    check.ran(succeeded=True)
    for _ in range(91):
        clock.sleep(10)
        check.ran(succeeded=False)
    assert "last successful loop ended 15m10s ago" in check.problem()
    check.ran(succeeded=True)
    assert not check.problem()


@pytest.fixture
def server() -> Iterator[WebServer]:
    pages = {
        "/metrics": lambda query: Page(f"up {query.get('x', '0')}\n".encode()),
        "/health-check": lambda _: Page(b"Error: no\n", 500),
        "/broken": lambda query: Page(query["nothing"].encode()),
    }
    running = WebServer("address", "127.0.0.1:0", pages)
    running.start()
    yield running
    running.stop()


def ask(server: WebServer, path: str, method: str = "GET") -> tuple[int, bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310 - as above
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_pages(server: WebServer) -> None:
    assert ask(server, "/metrics?x=1") == (200, b"up 1\n")
    assert ask(server, "/health-check") == (500, b"Error: no\n")
    assert ask(server, "/snapshotz")[0] == 404
    assert ask(server, "/broken") == (500, b"a bug in nodewright: KeyError: 'nothing'\n")
    assert ask(server, "/metrics", "POST")[0] == 405


def test_who_answers_is_told_and_not_by_what(server: WebServer) -> None:
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    line.request("GET", "/metrics")
    assert (line.getresponse().getheader("Server") or "").strip() == "nodewright"
    line.close()


def test_whoever_only_asks_whether_it_is_well_gets_no_page(server: WebServer) -> None:
    """Some load balancers ask so; Go's servers answer them without being told to."""
    assert ask(server, "/metrics", "HEAD") == (200, b"")
    assert ask(server, "/health-check", "HEAD") == (500, b"")
    assert ask(server, "/snapshotz", "HEAD") == (404, b"")


def test_a_page_of_a_stranger_gets_no_answer(server: WebServer) -> None:
    """A browser sends the name by which it was led to this machine."""
    for host, status in (("evil.example", 400), (f"localhost:{server.port}", 200), ("127.0.0.1", 200)):
        line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        line.request("GET", "/metrics", headers={"Host": host})
        assert line.getresponse().status == status
        line.close()


def test_a_browser_is_told_what_a_page_may_do(server: WebServer) -> None:
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    line.request("GET", "/metrics")
    headers = line.getresponse().headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    line.close()


@contextmanager
def serve(limits: ClientLimits) -> Iterator[WebServer]:
    running = WebServer("address", "127.0.0.1:0", {"/readyz": lambda _: Page(b"OK\n")}, limits)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def test_a_client_that_never_ends_its_request_is_cut() -> None:
    with (
        serve(ClientLimits(request_seconds=0.2)) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as line,
        suppress(ConnectionError),
    ):
        line.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n")
        assert line.recv(100) == b""


def test_a_client_that_sends_too_much_is_refused() -> None:
    with (
        serve(ClientLimits(request_seconds=600.0, request_bytes=1000)) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as line,
    ):
        line.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 2000)
        assert line.recv(100).startswith(b"HTTP/1.1 400")


def test_too_many_connections_are_cut() -> None:
    with serve(ClientLimits(request_seconds=600.0, connections=2)) as server, ExitStack() as opened:
        lines = [
            opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30)) for _ in range(3)
        ]
        with suppress(ConnectionResetError):
            assert lines[2].recv(100) == b""
        lines[0].sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert lines[0].recv(100).startswith(b"HTTP/1.1 200")


def find_loopbacks() -> list[str]:
    """This machine's: there may be none of IPv6."""
    found = []
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with suppress(OSError), socket.socket(family) as tried:
            tried.bind((host, 0))
            found.append(host)
    return found


@pytest.mark.parametrize("host", find_loopbacks())
def test_an_address_without_a_host_is_every_one_of_both_versions_of_ip(host: str) -> None:
    """As Go's ``:8085``: the kubelet asks a pod of a cluster that has only IPv6 by its one address."""
    for address in (":0", f"[{host}]:0"):
        running = WebServer("address", address, {"/readyz": lambda _: Page(b"OK\n")})
        running.start()
        try:
            line = http.client.HTTPConnection(host, running.port, timeout=10)
            line.request("GET", "/readyz")
            assert line.getresponse().read() == b"OK\n"
            line.close()
        finally:
            running.stop()


def test_an_address_in_use_is_told_by_its_flag(server: WebServer) -> None:
    other = WebServer("debug_address", f"127.0.0.1:{server.port}", {})
    with pytest.raises(ConfigError, match="--debug-address: 127"):
        other.start()
    other.stop()
    assert ask(server, "/metrics") == (200, b"up 0\n")


def test_what_is_not_started_holds_no_port() -> None:
    WebServer("address", "127.0.0.1:0", {}).stop()
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        assert WebServer("address", f"127.0.0.1:{own.getsockname()[1]}", {}).port == own.getsockname()[1]


@pytest.mark.parametrize(
    ("text", "address"), [(":8085", ("", 8085)), ("127.0.0.1:1", ("127.0.0.1", 1)), ("[::1]:80", ("::1", 80))]
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address("--address", text) == address


@pytest.mark.parametrize("text", ["8085", "host:", "host:http", "host:70000", ""])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match="--address"):
        parse_address("--address", text)
