"""What the engine reads from the caches, and when it must not act on it."""

import threading
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import pytest
from core.tests.kube.conftest import NOW, ApiServer

from nodewright.actuation.ports import EvictionAnswer
from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.kube.api import ApiError
from nodewright.adapters.kube.caches import CacheOptions, Caches, Listeners
from nodewright.adapters.kube.cluster import DryCluster, KubeCluster
from nodewright.adapters.kube.reflector import ObjectCache
from nodewright.adapters.kube.resources import Resource
from nodewright.expander import CONFIG_MAP
from nodewright.model.errors import KubeApiError
from nodewright.model.meta import Object
from nodewright.testkit import build_pod

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
MAPS = "/api/v1/namespaces/kube-system/configmaps"
UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "lastTransitionTime": "2027-01-15T08:00:00Z",
}


class Site:
    """Caches of a server in memory, and a cluster that reads them; ``rings`` are new unschedulable pods."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.clock = VirtualClock(NOW)
        self.rings = 0
        options = CacheOptions(config_maps=(CONFIG_MAP,))
        self.caches = Caches(server, self.clock, Random(1), options, Listeners(on_unschedulable=self._ring))
        self.cluster = KubeCluster(server, self.caches, max_age=180.0)

    def _ring(self) -> None:
        self.rings += 1


@pytest.fixture
def site(server: ApiServer) -> Iterator[Site]:
    made = Site(server)
    yield made
    made.caches.stop()


def open_site(site: Site) -> Site:
    """Everything is listed, and every watch is open."""
    site.caches.start()
    assert site.caches.wait_synced(10)
    return site


def pod(
    name: str, *, condition: bool = True, node: str = "", labels: Mapping[str, str] | None = None
) -> dict[str, object]:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "labels": labels or {}},
        "spec": {"nodeName": node},
        "status": {"conditions": [UNSCHEDULABLE] if condition else []},
    }


def test_a_part_is_not_taken_for_the_whole(site: Site) -> None:
    site.server.refusals["/apis/storage.k8s.io/v1/csidrivers"] = ApiError("csidrivers is forbidden", status=403)
    site.caches.start()
    site.caches.of("Node").wait_synced(10)
    with pytest.raises(KubeApiError, match="CSIDriver"):
        site.cluster.read(NOW)


def test_a_role_from_before_devices_stops_nothing(site: Site) -> None:
    for plural in ("deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaimtemplates", "resourceslices"):
        site.server.refusals[f"/apis/resource.k8s.io/v1/{plural}"] = ApiError(f"{plural} is forbidden", status=403)
    site.server.put(f"{PODS}/off", pod("off"))
    seen = open_site(site).cluster.read(NOW)
    assert [held.metadata.name for held in seen.pending] == ["off"]
    assert seen.problem == ""


def test_what_is_read(site: Site) -> None:
    site.server.put(f"{NODES}/a", {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}})
    site.server.put(f"{PODS}/on", pod("on", node="a", condition=False))
    site.server.put(f"{PODS}/off", pod("off"))
    site.server.put(f"{MAPS}/{CONFIG_MAP}", {"data": {"priorities": "10: ['.*']"}})
    seen = open_site(site).cluster.read(NOW)
    assert [(node.name, [p.name for p in seen.snapshot.pods(row)]) for row, node in seen.snapshot.nodes()] == [
        ("a", ["on"])
    ]
    assert [waiting.name for waiting in seen.pending] == ["off"]
    assert seen.priorities == "10: ['.*']"
    assert not seen.problem


def test_a_node_of_the_future_is_as_old_as_it_is_known(site: Site) -> None:
    """The API server's clock is ahead; what is read later, after a change of the node, too, says when it came."""
    held = {"metadata": {"name": "a", "creationTimestamp": "2100-01-01T00:00:00Z"}}
    site.server.put(f"{NODES}/a", held)
    open_site(site)
    assert [node.created for _, node in site.cluster.read(NOW).snapshot.nodes()] == [NOW]
    site.server.put(f"{NODES}/a", {**held, "spec": {"unschedulable": True}})
    for _ in range(1000):
        nodes = [node for _, node in site.cluster.read(NOW + 50).snapshot.nodes()]
        if nodes[0].spec.unschedulable:
            break
        threading.Event().wait(0.01)
    assert [(node.created, node.spec.unschedulable) for node in nodes] == [(NOW, True)]


def test_an_old_picture_is_not_acted_upon(site: Site) -> None:
    open_site(site)
    site.clock.sleep(180)
    assert not site.cluster.read(site.clock.now()).problem
    site.clock.sleep(1)
    assert "has sent nothing about" in site.cluster.read(site.clock.now()).problem
    assert site.cluster.age(site.clock.now()) == 181.0


@pytest.mark.parametrize("is_known", [True, False])
def test_a_kind_that_the_api_server_does_not_know_grows_no_older(server: ApiServer, is_known: bool) -> None:
    if not is_known:
        server.refusals[Resource[Object]("CapacityBuffer").path] = ApiError("no such kind", status=404)
    caches = Caches(server, VirtualClock(NOW), Random(1), CacheOptions(optional=frozenset({"CapacityBuffer"})))
    caches.start()
    try:
        assert caches.wait_synced(10)
        assert ("CapacityBuffer" in caches.ages()) == is_known
    finally:
        caches.stop()


@pytest.mark.parametrize(
    ("held", "runs"),
    [
        ({}, True),
        (None, False),
        ({"metadata": {"uid": "uid-of-another"}}, False),
        ({"spec": {"nodeName": "b"}}, False),
        ({"status": {"phase": "Succeeded"}}, False),
    ],
    ids=["runs", "is gone", "is another", "is elsewhere", "has ended"],
)
def test_pods_that_a_later_list_lacks_are_read_by_name_until_they_have_ended(
    site: Site, held: dict[str, dict[str, str]] | None, runs: bool
) -> None:
    server, path = site.server, "/api/v1/namespaces/default/pods/p"
    server.put(f"{NODES}/a", {"metadata": {"name": "a"}})
    server.put(f"{PODS}/p", pod("p", node="a", condition=False))
    open_site(site).cluster.read(NOW)
    assert site.cluster.find_unlisted("a") == ()
    site.caches.of("Pod").replace(())  # a new list, without an event before it
    if held is not None:
        kept: dict[str, Any] = pod("p", node="a", condition=False)
        server.put(path, kept | {part: kept[part] | change for part, change in held.items()})
    site.cluster.read(NOW)
    assert [found.name for found in site.cluster.find_unlisted("a")] == ["p"] * runs
    assert server.reads[-1].path == path
    reads = len(server.reads)
    site.cluster.find_unlisted("a")
    assert (len(server.reads) > reads) == runs


def test_pods_of_a_node_that_a_list_lacks_are_read_by_name_when_it_is_back(site: Site) -> None:
    server = site.server
    server.put(f"{NODES}/a", {"metadata": {"name": "a"}})
    server.put(f"{PODS}/p", pod("p", node="a", condition=False))
    server.put("/api/v1/namespaces/default/pods/p", pod("p", node="a", condition=False))
    open_site(site).cluster.read(NOW)
    nodes = site.caches.of("Node").all()
    site.caches.of("Pod").replace(())
    site.cluster.read(NOW)
    site.caches.of("Node").replace(())
    site.cluster.read(NOW)
    site.caches.of("Node").replace(nodes)
    site.cluster.read(NOW)
    assert [found.name for found in site.cluster.find_unlisted("a")] == ["p"]


class Relisted:
    """A cache that is emptied by a new list right after each time that something is taken from it."""

    def __init__(self, cache: ObjectCache[Any]) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cache, name)
        if not name.startswith("take"):
            return found

        def take() -> object:
            taken = found()
            self._cache.replace(())
            return taken

        return take


class RelistedPods(Caches):
    def of(self, kind: str) -> Any:
        return Relisted(super().of(kind)) if kind == "Pod" else super().of(kind)


def test_a_list_between_two_reads_loses_no_pod(server: ApiServer) -> None:
    server.put(f"{NODES}/a", {"metadata": {"name": "a"}})
    server.put(f"{PODS}/p", pod("p", node="a", condition=False))
    server.put("/api/v1/namespaces/default/pods/p", pod("p", node="a", condition=False))
    caches = RelistedPods(server, VirtualClock(NOW), Random(1), CacheOptions(config_maps=(CONFIG_MAP,)))
    cluster = KubeCluster(server, caches, max_age=180.0)
    caches.start()
    try:
        assert caches.wait_synced(10)
        assert [[p.name for p in cluster.read(NOW).snapshot.pods(0)] for _ in range(3)] == [["p"], [], []]
        assert [found.name for found in cluster.find_unlisted("a")] == ["p"]
    finally:
        caches.stop()


def test_only_news_of_pods_without_a_place_ring(site: Site) -> None:
    site.server.put(f"{PODS}/known", pod("known"))
    open_site(site)
    assert site.rings == 1
    site.server.put(f"{PODS}/known", pod("known", labels={"changed": "yes"}))  # it was told of already: no arrival
    site.server.put(f"{PODS}/unseen", pod("unseen", condition=False))
    site.server.put(f"{PODS}/bound", pod("bound", node="a"))
    site.clock.sleep(11)  # the scheduler said so longer ago than that
    site.server.put(f"{PODS}/old", pod("old"))
    for _ in range(1000):
        if site.caches.of("Pod").get("default/old") is not None:
            break
        threading.Event().wait(0.01)
    assert {held.name for held in site.caches.of("Pod").all()} == {"known", "unseen", "bound", "old"}
    assert site.rings == 1


def test_a_dry_run_asks_nothing_of_nodes_and_says_so(site: Site) -> None:
    """What the engine finds and would take off, or evict, stays; and no right to read a single node is needed."""
    site.server.put(f"{NODES}/a", {"metadata": {"name": "a"}})
    open_site(site)
    dry = DryCluster(site.server, site.caches, max_age=180.0)
    before = len(site.server.reads)
    with pytest.raises(KubeApiError, match="node a is not changed: this is a dry run"):
        dry.edit_node("a", lambda node: node)
    assert dry.evict(build_pod("p"), 30).answer == EvictionAnswer.REFUSED
    assert len(site.server.reads) == before
    assert not site.server.writes
