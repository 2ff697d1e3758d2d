"""The public pages of the daemon, and when they report that it is not ready or not healthy."""

import http.client
from random import Random

import pytest
from core.tests.kube.conftest import ApiServer

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.kube.api import ApiError
from nodewright.adapters.kube.caches import CacheOptions, Caches
from nodewright.adapters.metrics import Metrics
from nodewright.adapters.web import HealthCheck, Pages
from nodewright.cli.daemon.build import health_limits, make_servers, public_pages, usual_address
from nodewright.cli.daemon.debug_server import DebugServer
from nodewright.model.settings import ServingSettings, Settings

CLOCK = VirtualClock(1_800_000_000.0)


def make_caches(server: ApiServer) -> Caches:
    return Caches(server, CLOCK, Random(1), CacheOptions())


def make_pages(caches: Caches, health: HealthCheck | None = None) -> Pages:
    settings = Settings()
    return public_pages(Metrics(settings), health or HealthCheck(health_limits(settings), CLOCK), caches)


def test_nothing_of_pods_and_nodes_is_on_the_public_port() -> None:
    public = make_pages(make_caches(ApiServer()))
    assert public.keys() == {"/metrics", "/health-check", "/readyz"}
    private = DebugServer(CLOCK).pages()
    assert not public.keys() & private.keys()
    assert serving(public, private, "127.0.0.1:0") == ["address", "debug_address"]
    assert serving(public, private, "") == ["address"]


def serving(public: Pages, private: Pages, debug_address: str) -> list[str]:
    """The names of the servers, after each has said what it is there for and nothing else."""
    settings = Settings(serving=ServingSettings(address="127.0.0.1:0", debug_address=debug_address))
    servers = make_servers(settings, public, private, None)
    for server in servers:
        server.start()
        try:
            line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            line.request("GET", "/snapshotz")
            assert line.getresponse().status == (404 if server.name == "address" else 500)
            line.close()
        finally:
            server.stop()
    return [server.name for server in servers]


def test_only_in_a_pod_others_are_told_by_default() -> None:
    assert usual_address({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == ":8085"
    assert usual_address({}) == "127.0.0.1:8085"


@pytest.mark.parametrize(("refused", "status"), [(True, 503), (False, 200)])
def test_it_is_ready_when_everything_was_listed(refused: bool, status: int) -> None:
    server = ApiServer()
    if refused:
        server.refusals["/api/v1/nodes"] = ApiError("nodes is forbidden", status=403)
    caches = make_caches(server)
    caches.start()
    try:
        assert caches.of("Pod").wait_synced(10)
        assert refused or caches.wait_synced(10)
        told = make_pages(caches)["/readyz"]({})
        assert (told.status, b"Node" in told.body) == (status, refused)
    finally:
        caches.stop()


@pytest.mark.parametrize(("seconds", "status"), [(1200, 200), (1201, 500)])
def test_a_loop_that_never_succeeds_is_not_well(seconds: float, status: int) -> None:
    clock = VirtualClock(0.0)
    health = HealthCheck(health_limits(Settings()), clock)
    health.begin()
    clock.sleep(seconds)
    assert make_pages(make_caches(ApiServer()), health)["/health-check"]({}).status == status
