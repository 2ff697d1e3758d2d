"""A cache equals the API server: after a list, during a watch, and after errors."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import msgspec
import pytest
from core.tests.kube.conftest import ApiServer

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.kube.api import ApiError
from nodewright.adapters.kube.reflector import ObjectCache, Reflector
from nodewright.adapters.kube.resources import PAGE, Resource
from nodewright.model.node import Node

NODES = "/api/v1/nodes"


class Follower:
    """A cache and the thread that feeds it; ``told`` are the changes in the order in which they came."""

    def __init__(self, server: ApiServer) -> None:
        self.told: list[str] = []
        self.clock = VirtualClock(1000.0)
        self._news = threading.Condition()
        self.cache: ObjectCache[Node] = ObjectCache(self._see)
        self.reflector: Reflector[Node] = Reflector(server, Resource("Node"), self.cache, self.clock, _NoWait())

    def _see(self, _: Node | None, node: Node) -> None:
        with self._news:
            self.told.append(node.name)
            self._news.notify_all()

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self.reflector.run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.reflector.stop()
            thread.join(5)
            assert not thread.is_alive()

    def wait(self, probe: Callable[[], object], seconds: float = 5.0) -> None:
        with self._news:
            for _ in range(int(seconds / 0.01)):
                if probe():
                    return
                self._news.wait(0.01)
        pytest.fail("it did not come to pass")

    def names(self) -> list[str]:
        return sorted(node.name for node in self.cache.all())


class _NoWait(Random):
    """Backs off for no time."""

    def uniform(self, a: float, b: float) -> float:  # noqa: ARG002 - the shortest wait
        return a


def make_node(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


@pytest.fixture
def follower(server: ApiServer) -> Follower:
    return Follower(server)


def test_more_than_a_page_is_read_in_pages(server: ApiServer, follower: Follower) -> None:
    for number in range(PAGE + 1):
        server.put(f"{NODES}/n{number}", make_node(f"n{number}"))
    with follower.running():
        follower.wait(lambda: follower.cache.is_synced)
    assert len(follower.cache.all()) == PAGE + 1
    lists = [request for request in server.reads if "watch" not in request.query]
    assert [request.query.get("continue") for request in lists] == [None, str(PAGE)]


def test_a_watch_brings_what_comes_changes_and_goes(server: ApiServer, follower: Follower) -> None:
    server.put(f"{NODES}/a", make_node("a"))
    with follower.running():
        follower.wait(lambda: server.watches)
        server.put(f"{NODES}/b", make_node("b"))
        server.put(f"{NODES}/a", make_node("a", zone="z"))
        server.drop(f"{NODES}/b")
        server.put(f"{NODES}/c", make_node("c"))
        follower.wait(lambda: follower.names() == ["a", "c"])
    assert follower.told == ["a", "b", "a", "c"]
    assert follower.reflector.lists == 1
    changes = follower.cache.take_changes()
    assert {name: node is not None for name, node in changes.items()} == {"a": True, "b": False, "c": True}
    assert not follower.cache.take_changes()


def test_a_change_of_nothing_that_is_read_is_no_change(server: ApiServer, follower: Follower) -> None:
    server.put(f"{NODES}/a", make_node("a"))
    with follower.running():
        follower.wait(lambda: server.watches)
        follower.cache.take_changes()
        server.put(f"{NODES}/a", {**make_node("a"), "status": {"nodeInfo": {"kubeletVersion": "v9"}}})
        server.put(f"{NODES}/b", make_node("b"))
        follower.wait(lambda: "b" in follower.told)
    assert follower.cache.take_changes().keys() == {"b"}


def test_a_watch_that_ends_goes_on_where_it_ended(server: ApiServer, follower: Follower) -> None:
    with follower.running():
        follower.wait(lambda: server.watches)
        server.say(NODES, "BOOKMARK", {"metadata": {"resourceVersion": "150"}})
        server.version = 150
        follower.clock.sleep(60)
        server.cut()
        follower.wait(lambda: server.watches)
        server.put(f"{NODES}/a", make_node("a"))
        follower.wait(lambda: follower.told == ["a"])
    versions = [request.query["resourceVersion"] for request in server.reads if "watch" in request.query]
    assert versions == ["100", "150"]
    assert follower.reflector.lists == 1


@pytest.mark.parametrize("where", ["in the stream", "at the call"])
def test_a_version_that_is_gone_is_listed_anew(server: ApiServer, follower: Follower, where: str) -> None:
    server.put(f"{NODES}/a", make_node("a"))
    server.put(f"{NODES}/old", make_node("old"))
    with follower.running():
        follower.wait(lambda: server.watches)
        del server.objects[f"{NODES}/old"]  # without an event
        if where == "at the call":
            server.watch_faults = [ApiError("too old", status=410)]
            follower.clock.sleep(60)
            server.cut()
        else:
            server.say(NODES, "ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})
        follower.wait(lambda: follower.names() == ["a"])
        follower.wait(lambda: follower.reflector.lists == 2)
    assert follower.cache.take_changes()["old"] is None


def test_pages_that_went_stale_are_read_at_once_as_one(server: ApiServer, follower: Follower) -> None:
    server.put(f"{NODES}/a", make_node("a"))
    server.faults = [ApiError("the continue token is too old", status=410)]
    with follower.running():
        follower.wait(lambda: follower.cache.is_synced)
    assert "limit" not in server.reads[0].query


def test_failures_are_told_and_tried_again(server: ApiServer, follower: Follower) -> None:
    server.put(f"{NODES}/a", make_node("a"))
    server.faults = [
        ApiError("no answer"),
        ApiError("busy", status=429, retry_after=0.01),
        ApiError("oops", status=503),
    ]
    server.watch_faults = [ApiError("no answer")]
    with follower.running():
        follower.wait(lambda: server.watches)
        follower.wait(lambda: follower.cache.is_synced)
        server.put(f"{NODES}/b", make_node("b"))
        follower.wait(lambda: not follower.cache.problem)
    assert not server.faults
    assert follower.names() == ["a", "b"]


def test_what_is_forbidden_is_told_and_never_synced(server: ApiServer, follower: Follower) -> None:
    server.refusals[NODES] = ApiError("nodes is forbidden", status=403)
    with follower.running():
        follower.wait(lambda: "forbidden" in follower.cache.problem)
        assert not follower.cache.is_synced
        del server.refusals[NODES]
        follower.wait(lambda: follower.cache.is_synced)


def test_an_object_that_cannot_be_read_is_named(server: ApiServer, follower: Follower) -> None:
    server.put(f"{NODES}/odd", {"metadata": {"name": "odd"}, "status": {"allocatable": {"cpu": "many"}}})
    with follower.running():
        follower.wait(lambda: follower.cache.problem)
    assert not follower.cache.is_synced
    assert "many" in follower.cache.problem


def test_what_is_no_event_ends_the_watch_and_not_the_thread(server: ApiServer, follower: Follower) -> None:
    with follower.running():
        for broken in ({"metadata": 7}, 7):
            follower.wait(lambda: server.watches)
            server.watches, watches = [], server.watches
            watches[-1][1].queue.put(msgspec.json.encode({"type": "BOOKMARK", "object": broken}))
            follower.wait(lambda: "no bookmark" in follower.cache.problem)
            follower.wait(lambda: server.watches)
        server.put(f"{NODES}/a", make_node("a"))
        follower.wait(lambda: follower.told == ["a"])


def test_the_age_counts_from_the_last_word(server: ApiServer, follower: Follower) -> None:
    with follower.running():
        follower.wait(lambda: server.watches)
        assert follower.cache.heard_at == 1000.0
        follower.clock.sleep(50)
        server.say(NODES, "BOOKMARK", {"metadata": {"resourceVersion": "150"}})
        follower.wait(lambda: follower.cache.heard_at == 1050.0)


def test_a_watch_that_ends_at_once_is_no_success(server: ApiServer, follower: Follower) -> None:
    with follower.running():
        follower.wait(lambda: server.watches)
        server.cut()
        follower.wait(lambda: "ended at once" in follower.cache.problem)


@pytest.mark.parametrize("kind", ["CapacityBuffer", "ResourceClaim"])
def test_a_kind_that_the_api_server_does_not_know_is_empty_until_it_does(server: ApiServer, kind: str) -> None:
    clock = VirtualClock(1000.0)
    came = threading.Event()
    cache: ObjectCache[Any] = ObjectCache(lambda _, __: came.set())
    resource = Resource[Any](kind)
    reflector = Reflector(server, resource, cache, clock, _NoWait())
    collection = resource.path
    server.refusals[collection] = ApiError("no such kind", status=404)
    thread = threading.Thread(target=reflector.run, daemon=True)
    thread.start()
    try:
        assert cache.wait_synced(5)
        assert (cache.all(), cache.heard_at) == ((), 1000.0)
        server.put(f"{collection}/spare", {"metadata": {"name": "spare", "namespace": "shop"}, "spec": {}})
        del server.refusals[collection]
        assert came.wait(5)
        assert [held.key for held in cache.all()] == ["shop/spare"]
    finally:
        reflector.stop()
        thread.join(5)
