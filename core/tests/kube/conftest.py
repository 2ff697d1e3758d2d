"""An API server in memory: lists, watches, versions, conflicts, and faults on request."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from queue import SimpleQueue
from random import Random
from typing import Any

import msgspec
import pytest

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.kube.api import ApiError, Lines, Request
from nodewright.adapters.kube.caches import CacheOptions, Caches, optional_kinds
from nodewright.adapters.kube.resources import Resource
from nodewright.expander import CONFIG_MAP
from nodewright.model.objects import KINDS
from nodewright.testkit.world import settings_with

NOW = 1_800_000_000.0
Stored = dict[str, Any]
COLLECTIONS = frozenset(Resource[Any](kind).plural for kind in KINDS)


class Watch:
    """Implements Lines. ``name``: the one object that it is about; empty: about all."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.queue: SimpleQueue[bytes | None] = SimpleQueue()

    def __iter__(self) -> Iterator[bytes]:
        while (line := self.queue.get()) is not None:
            yield line

    def abandon(self) -> None:
        self.queue.put(None)


class ApiServer:
    """Implements Api. ``objects`` by path; ``faults`` are raised by the next calls of any kind.

    ``writes`` are all that changed something. ``after_read`` is called once after the next read of a single object.
    """

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, Stored] = {}
        self.writes: list[Request] = []
        self.reads: list[Request] = []
        self.watches: list[tuple[str, Watch]] = []
        self.faults: list[ApiError] = []
        self.watch_faults: list[ApiError] = []
        self.refusals: dict[str, ApiError] = {}
        self.after_read: Any = None
        self._lock = threading.RLock()

    # As a client sees it

    def send(self, request: Request) -> bytes:
        with self._lock:
            if self.faults:
                raise self.faults.pop(0)
            if request.path in self.refusals:
                raise self.refusals[request.path]
            if request.method == "GET":
                self.reads.append(request)
                return self._get(request)
            answer = self._write(request)
            self.writes.append(request)
            return answer

    def follow(self, request: Request) -> AbstractContextManager[Lines]:
        return self._follow(request)

    @contextmanager
    def _follow(self, request: Request) -> Iterator[Lines]:
        with self._lock:
            if self.watch_faults:
                raise self.watch_faults.pop(0)
            self.reads.append(request)
            watch = Watch(_selected_name(request))
            for path, held in self.objects.items():
                if (
                    path.startswith(request.path)
                    and _is_selected(path, watch.name)
                    and int(held["metadata"]["resourceVersion"]) > int(request.query["resourceVersion"])
                ):
                    watch.queue.put(_event("ADDED", held))
            self.watches.append((request.path, watch))
        yield watch

    # As others see it

    def put(self, path: str, held: Stored) -> None:
        """An operator creates or changes an object."""
        with self._lock:
            kind = "MODIFIED" if path in self.objects else "ADDED"
            self._store(path, held)
            self._tell(path, _event(kind, self.objects[path]))

    def drop(self, path: str) -> None:
        with self._lock:
            self.version += 1
            held = self.objects.pop(path)
            held["metadata"]["resourceVersion"] = str(self.version)
            self._tell(path, _event("DELETED", held))

    def say(self, collection: str, kind: str, held: Stored) -> None:
        """An event that is about no stored object."""
        with self._lock:
            self._tell(f"{collection}/", _event(kind, held))

    def cut(self) -> None:
        """Every watch ends."""
        with self._lock:
            watches, self.watches = self.watches, []
        for _, watch in watches:
            watch.abandon()

    def written(self) -> Stored:
        """The body of the last write."""
        body = self.writes[-1].body
        assert body is not None
        found: Stored = msgspec.json.decode(body)
        return found

    # Within

    def _tell(self, path: str, event: bytes) -> None:
        for collection, watch in self.watches:
            if path.startswith(f"{collection}/") and _is_selected(path, watch.name):
                watch.queue.put(event)

    def _store(self, path: str, held: Stored) -> None:
        self.version += 1
        metadata = {**held.get("metadata", {}), "resourceVersion": str(self.version)}
        known = self.objects.get(path, {"metadata": {"uid": f"uid-{self.version}"}})
        metadata.setdefault("uid", known["metadata"]["uid"])
        metadata.setdefault("name", path.rpartition("/")[2])
        self.objects[path] = {**held, "metadata": metadata}

    def _get(self, request: Request) -> bytes:
        if request.path in self.objects:
            answer = msgspec.json.encode(self.objects[request.path])
            if self.after_read is not None:
                happens, self.after_read = self.after_read, None
                happens()
            return answer
        if request.path.rpartition("/")[2] in COLLECTIONS:
            return self._list(request)
        raise ApiError(f"{request}: not found", status=404)

    def _list(self, request: Request) -> bytes:
        found = [held for path, held in sorted(self.objects.items()) if path.startswith(f"{request.path}/")]
        found = [held for held in found if _is_selected(held["metadata"]["name"], _selected_name(request))]
        begin, limit = int(request.query.get("continue", "0")), int(request.query.get("limit", "0"))
        page = found[begin : begin + limit] if limit else found
        rest = str(begin + limit) if limit and begin + limit < len(found) else ""
        return msgspec.json.encode(
            {"items": page, "metadata": {"resourceVersion": str(self.version), "continue": rest}}
        )

    def _write(self, request: Request) -> bytes:
        body: Stored = msgspec.json.decode(request.body) if request.body else {}
        match request.method:
            case "POST" if request.path.endswith("/eviction"):
                return b"{}"
            case "POST":
                path = f"{request.path}/{body['metadata']['name']}"
                if path in self.objects:
                    raise ApiError(f"{request}: already exists", status=409)
                self._store(path, body)
                return msgspec.json.encode(self.objects[path])
            case "DELETE":
                if self.objects.pop(request.path, None) is None:
                    raise ApiError(f"{request}: not found", status=404)
                return b"{}"
            case _:
                return self._replace(request, body)

    def _replace(self, request: Request, body: Stored) -> bytes:
        if request.path not in self.objects:
            raise ApiError(f"{request}: not found", status=404)
        held = self.objects[request.path]
        version = body.get("metadata", {}).get("resourceVersion")
        if version is not None and version != held["metadata"]["resourceVersion"]:
            raise ApiError(f"{request}: the object has been modified", status=409)
        self._store(request.path, merged(held, body) if request.method == "PATCH" else body)
        return msgspec.json.encode(self.objects[request.path])


def _selected_name(request: Request) -> str:
    """Return the name of the one object that the request is about; empty: it is about all."""
    return request.query.get("fieldSelector", "").partition("metadata.name=")[2]


def _is_selected(path: str, name: str) -> bool:
    return not name or path.rpartition("/")[2] == name


def merged(held: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(held) if isinstance(held, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def _event(kind: str, held: Stored) -> bytes:
    return msgspec.json.encode({"type": kind, "object": held})


@pytest.fixture
def server() -> ApiServer:
    return ApiServer()


@contextmanager
def followed(server: ApiServer, **on: bool) -> Iterator[Caches]:
    """Caches of what is followed under these settings, everything listed."""
    options = CacheOptions(config_maps=(CONFIG_MAP,), optional=optional_kinds(settings_with(**on)))
    caches = Caches(server, VirtualClock(NOW), Random(1), options)
    caches.start()
    try:
        assert caches.wait_synced(20.0), caches.missing()
        yield caches
    finally:
        caches.stop()
