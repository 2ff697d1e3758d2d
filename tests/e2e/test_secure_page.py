"""The page beyond the pod on a real API server: its tokens, its rights, and only the chart's role for nodewright itself."""

import http.client
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.accounts import Account, make_account
from tests.e2e.conftest import StartDaemon
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import DaemonProcess, wait_until
from tests.e2e.helm import render
from tests.e2e.rights import Right, bind_role, granted, is_used, read_asked

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.kube.token_review import PREFIX
from nodewright.cli.daemon.debug_server import DebugServer

RBAC = "/apis/rbac.authorization.k8s.io/v1"
# What the guide tells for a monitoring.
METRICS = "nodewright-metrics-reader"
METRICS_ROLE = {
    "metadata": {"name": METRICS},
    "rules": [{"nonResourceURLs": [f"{PREFIX}/metrics"], "verbs": ["get"]}],
}
SETTINGS = {"secure-address": "127.0.0.1:0"}
READER = "nodewright-page-reader"
REVIEWS = {
    Right("authentication.k8s.io", "tokenreviews", "create"),
    Right("authorization.k8s.io", "subjectaccessreviews", "create"),
}


@pytest.fixture
def reader_role(plane: ControlPlane) -> Iterator[str]:
    plane.request(f"{RBAC}/clusterroles", method="POST", body=read_reader_role())
    yield READER
    plane.request(f"{RBAC}/clusterroles/{READER}", method="DELETE")


@pytest.fixture
def rights(plane: ControlPlane) -> Iterator[None]:
    """The role of nodewright as the chart makes it for this page; afterwards as it was."""
    bind_role(plane, settings=SETTINGS)
    yield
    bind_role(plane)


class Client:
    def __init__(self, daemon: DaemonProcess, authority: Path) -> None:
        wait_until(lambda: daemon.says("starting"), "start")
        [told] = daemon.says("starting")
        self._port = told["ports"]["secure_address"]
        self._context = ssl.create_default_context(cafile=str(authority))

    def ask(self, path: str, token: str = "") -> int:
        line = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=120, context=self._context)
        try:
            line.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
            reply = line.getresponse()
            reply.read()
            return reply.status
        finally:
            line.close()


def bind(plane: ControlPlane, account: Account, role: str, name: str) -> None:
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": account.user}
    body = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
    plane.request(f"{RBAC}/clusterrolebindings", method="POST", body=body)


def may_get(plane: ControlPlane, account: Account, path: str) -> bool:
    """Whether the account has the right to a page of the API server."""
    body = {"spec": {"user": account.user, "nonResourceAttributes": {"path": path, "verb": "get"}}}
    told = plane.request("/apis/authorization.k8s.io/v1/subjectaccessreviews", method="POST", body=body)
    allowed: bool = told["status"]["allowed"]
    return allowed


@pytest.mark.usefixtures("rights")
def test_only_users_of_the_cluster_with_the_right_see_the_page(
    clean: ControlPlane, reader_role: str, start: StartDaemon, tmp_path: Path
) -> None:
    pair = tmp_path / "server.pem"
    clean.clients.issue_server(pair)
    secure = ("--secure-address=127.0.0.1:0", f"--tls-cert-file={pair}", f"--tls-private-key-file={pair}")
    client = Client(start(*secure), clean.clients.bundle)
    with ExitStack() as held:
        reader, scraper, foreign, stranger = (
            held.enter_context(make_account(clean, name)) for name in ("reader", "scraper", "foreign", "stranger")
        )
        clean.request(f"{RBAC}/clusterroles", method="POST", body=METRICS_ROLE)
        held.callback(clean.request, f"{RBAC}/clusterroles/{METRICS}", method="DELETE")
        for account, role in ((reader, reader_role), (scraper, METRICS), (foreign, "system:monitoring")):
            bind(clean, account, role, f"page-{account.user.rpartition(':')[2]}")
            path = f"{RBAC}/clusterrolebindings/page-{account.user.rpartition(':')[2]}"
            held.callback(clean.request, path, method="DELETE")
        token, secret = reader.issue()
        wait_until(lambda: client.ask("/groups", token) == 200, "page for its reader")
        assert client.ask("/static/console.css", token) == 200
        assert client.ask("/metrics", token) == 200
        assert client.ask("/nothing", token) == 403
        monitoring, _ = scraper.issue()
        wait_until(lambda: client.ask("/metrics", monitoring) == 200, "metrics for those who may read them")
        assert client.ask("/groups", monitoring) == 403
        # Rights to the API server's own pages are none to ours, and the other way round.
        wait_until(lambda: may_get(clean, foreign, "/metrics"), "right to the metrics of the API server")
        assert client.ask("/metrics", foreign.issue()[0]) == 403
        assert not any(may_get(clean, account, path) for account in (reader, scraper) for path in ("/metrics", "/"))
        assert client.ask("/groups", stranger.issue()[0]) == 403
        assert client.ask("/groups", "rubbish") == 401
        assert client.ask("/groups") == 401
        assert client.ask("/health-check") == 200
        wait_until(lambda: client.ask("/readyz") == 200, "readiness")
        clean.request(secret, method="DELETE")
        wait_until(lambda: client.ask("/groups", token) == 401, "end of a token that was withdrawn", 60)
    assert granted(settings=SETTINGS) - granted() == REVIEWS
    asked = read_asked(clean)
    assert all(is_used(right, asked) for right in REVIEWS)


def test_the_role_of_readers_names_each_page(farm_binary: Path) -> None:
    assert farm_binary.exists()
    [rule] = read_reader_role()["rules"]
    pages = {
        path if not path.startswith("/static/") else "/static/*" for path in DebugServer(VirtualClock(0.0)).pages()
    }
    assert set(rule["nonResourceURLs"]) == {f"{PREFIX}{path}" for path in pages | {"/metrics", "/shadowz"}}
    assert rule["verbs"] == ["get", "head"]


def read_reader_role() -> dict[str, Any]:
    """Return the ClusterRole of the chart for users of the page."""
    values = {"securePage": {"enabled": True, "secretName": "tls"}}
    [role] = [document for document in render(values) if document["metadata"]["name"] == READER]
    return role
