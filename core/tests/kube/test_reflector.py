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
from nodewright.model.meta import Object, ObjectMeta

NODES = "/api/v1/nodes"


class Follower:
    """A cache and the thread that feeds it; ``told`` are the changes in the order in which they came.

    ``sentences`` are what was said about being forbidden to list the kind.
    """

    def __init__(self, server: ApiServer, kind: str = "Node") -> None:
        self.told: list[str] = []
        self.sentences: list[str] = []
        self.clock = VirtualClock(1000.0)
        self._news = threading.Condition()
        self.cache: ObjectCache[Object] = ObjectCache(self._see)
        resource = Resource[Object](kind)
        self.random = _NoWait()
        self.reflector = Reflector(server, resource, self.cache, self.clock, self.random, self.sentences.append)

    def _see(self, _: Object | None, held: Object) -> None:
        with self._news:
            self.told.append(held.metadata.name)
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
        return sorted(held.metadata.name for held in self.cache.all())


class _NoWait(Random):
    """Backs off for no time; ``asked`` are the waits that were asked for, each from and to how many seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[float, float]] = []

    def uniform(self, a: float, b: float) -> float:
        self.asked.append((a, b))
        return 0.0


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
    changes, unlisted = follower.cache.take()
    assert changes["old"] is None
    assert unlisted == {"old"}
    assert follower.cache.take() == ({}, frozenset())


def test_what_a_list_lacked_and_a_watch_told_of_since_is_not_unlisted() -> None:
    cache = ObjectCache[Object]()
    back, gone = (Object(metadata=ObjectMeta(name=name)) for name in ("back", "gone"))
    cache.replace([back, gone])
    cache.replace([])
    cache.put(back)
    cache.put(gone)
    cache.drop("gone")
    changes, unlisted = cache.take()
    assert changes == {"back": back, "gone": None}
    assert not unlisted


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
            follower.wait(lambda: "not a valid bookmark" in follower.cache.problem)
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
    follower = Follower(server, kind)
    collection = follower.reflector.resource.path
    server.refusals[collection] = ApiError("no such kind", status=404)
    with follower.running():
        follower.wait(lambda: follower.cache.is_synced)
        assert (follower.names(), follower.cache.is_unknown) == ([], True)
        server.put(f"{collection}/spare", {"metadata": {"name": "spare", "namespace": "shop"}, "spec": {}})
        del server.refusals[collection]
        follower.wait(lambda: follower.told == ["spare"])
        follower.wait(lambda: not follower.cache.is_unknown)
    assert not any(follower.sentences)


@pytest.mark.parametrize("status", [403, 500, 0])
def test_a_kind_that_has_come_and_cannot_be_listed_is_not_absent(server: ApiServer, status: int) -> None:
    follower = Follower(server, "CapacityQuota")
    collection = follower.reflector.resource.path
    server.refusals[collection] = ApiError("no such kind", status=404)
    with follower.running():
        follower.wait(lambda: follower.cache.is_unknown)
        server.refusals[collection] = ApiError("not now", status=status)
        follower.wait(lambda: not follower.cache.is_unknown)
        follower.clock.sleep(50)
        follower.wait(lambda: "not now" in follower.cache.problem)
        assert (follower.cache.is_unknown, follower.cache.heard_at) == (False, 1000.0)
        server.refusals[collection] = ApiError("no such kind", status=404)
        follower.wait(lambda: follower.cache.heard_at == 1050.0)
        assert follower.cache.is_unknown


def test_a_kind_that_stays_unknown_is_asked_for_every_ten_minutes(server: ApiServer) -> None:
    follower = Follower(server, "CapacityBuffer")
    server.refusals[follower.reflector.resource.path] = ApiError("no such kind", status=404)
    with follower.running():
        follower.wait(lambda: len(follower.random.asked) > 5)
    assert follower.random.asked[:6] == [(15, 30), (30, 60), (60, 120), (120, 240), (240, 480), (300, 600)]


FORBIDDEN = ApiError("User u cannot list it", status=403)
DEVICES = ["ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "DeviceTaintRule"]


@pytest.mark.parametrize("kind", [*DEVICES, "ProvisioningRequest", "CapacityBuffer"])
def test_a_kind_that_an_older_role_does_not_name_is_empty_until_the_role_does(server: ApiServer, kind: str) -> None:
    follower = Follower(server, kind)
    resource = follower.reflector.resource
    server.put(f"{resource.path}/spare", {"metadata": {"name": "spare"}, "spec": {}})
    server.refusals[resource.path] = FORBIDDEN
    with follower.running():
        follower.wait(lambda: follower.cache.is_synced)
        assert (follower.names(), follower.cache.heard_at) == ([], 1000.0)
        del server.refusals[resource.path]
        follower.wait(lambda: follower.told == ["spare"])
        follower.wait(lambda: follower.sentences[-1] == "")
    for part in ("list and watch", resource.plural, resource.api_group, "ClusterRole", "User u cannot"):
        assert part in follower.sentences[0]


@pytest.mark.parametrize("kind", ["Pod", "PodDisruptionBudget", "CapacityQuota", "ProvisioningClass", "PodTemplate"])
def test_a_kind_that_is_essential_or_a_limit_is_not_taken_as_absent(server: ApiServer, kind: str) -> None:
    follower = Follower(server, kind)
    server.refusals[follower.reflector.resource.path] = FORBIDDEN
    with follower.running():
        follower.wait(lambda: "cannot list" in follower.cache.problem)
        assert not follower.cache.is_synced
    assert not follower.sentences


def test_known_objects_do_not_vanish_when_their_kind_is_forbidden(server: ApiServer) -> None:
    """An API server that has just started refuses what it allows later; the devices of forgotten claims would look free."""
    follower = Follower(server, "ResourceClaim")
    collection = follower.reflector.resource.path
    server.put(f"{collection}/held", {"metadata": {"name": "held"}, "spec": {}})
    with follower.running():
        follower.wait(lambda: server.watches)
        server.refusals[collection] = FORBIDDEN
        server.say(collection, "ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})
        follower.wait(lambda: "cannot list" in follower.cache.problem)
        assert follower.names() == ["held"]
    assert not any(follower.sentences)
