"""Keeps one cache current: lists all objects in pages, then watches; lists again if a watch cannot continue."""

import math
import threading
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_when_event_set

from nodewright.adapters.kube.api import Api, ApiError, Lines, Request, read_answer, read_status
from nodewright.adapters.kube.resources import PAGE, ListMeta, Resource, read_pages
from nodewright.model.clock import Clock
from nodewright.model.meta import Object

T = TypeVar("T", bound=Object)


class ObjectCache(Generic[T]):
    """The objects of one kind, written by one thread and read by another.

    Only the last change of each key is kept, which bounds their number. ``heard_at`` (epoch
    seconds) is when the API server last sent anything; ``is_unknown``: it does not know the kind. ``on_change`` is called in
    the writing thread when an object came or changed, with what was known of it (None: nothing), and with the object.
    """

    def __init__(self, on_change: Callable[[T | None, T], None] = lambda _, __: None) -> None:
        self.heard_at = -math.inf
        self.is_unknown = False
        self.problem = ""
        self._on_change = on_change
        self._lock = threading.Lock()
        self._objects: dict[str, T] = {}
        self._changes: dict[str, T | None] = {}
        self._unlisted = set[str]()
        self._synced = threading.Event()

    @property
    def is_synced(self) -> bool:
        """Return whether everything has been listed once."""
        return self._synced.is_set()

    def wait_synced(self, seconds: float) -> bool:
        return self._synced.wait(seconds)

    def heard(self, now: float) -> None:
        self.heard_at, self.problem = now, ""

    def replace(self, objects: Iterable[T]) -> None:
        """Replace the content: objects that are not given are gone."""
        fresh = {held.key: held for held in objects}
        with self._lock:
            before = self._objects
            gone: dict[str, T | None] = dict.fromkeys(before.keys() - fresh.keys())
            changed = {key: held for key, held in fresh.items() if not is_same(before.get(key), held)}
            self._objects = fresh
            self._changes |= gone | changed
            self._unlisted = (self._unlisted - fresh.keys()) | gone.keys()
        for key, held in changed.items():
            self._on_change(before.get(key), held)
        self._synced.set()

    def put(self, held: T) -> None:
        with self._lock:
            known = self._objects.get(held.key)
            self._objects[held.key] = held
            if is_same(known, held):
                return
            self._changes[held.key] = held
            self._unlisted.discard(held.key)
        self._on_change(known, held)

    def drop(self, key: str) -> None:
        with self._lock:
            if self._objects.pop(key, None) is not None:
                self._changes[key] = None
                self._unlisted.discard(key)

    def take_changes(self) -> Mapping[str, T | None]:
        """Return by key the objects that came, changed or were deleted (None) since the last call."""
        return self.take()[0]

    def take(self) -> tuple[Mapping[str, T | None], frozenset[str]]:
        """Return the changes since the last call, and which of these keys a later list lacked.

        No watch told that those were deleted. Both are taken at one moment: the other thread may list everything again
        at any time.
        """
        with self._lock:
            taken, self._changes = self._changes, {}
            unlisted, self._unlisted = self._unlisted, set()
        return taken, frozenset(unlisted)

    def get(self, key: str) -> T | None:
        return self._objects.get(key)

    def all(self) -> tuple[T, ...]:
        with self._lock:
            return tuple(self._objects.values())


def is_same(known: T | None, held: T) -> bool:
    """Return whether no field that nodewright reads has changed. Most updates change only other fields."""
    return known is not None and _bare(known) == _bare(held)


def _bare(held: T) -> T:
    return msgspec.structs.replace(held, metadata=msgspec.structs.replace(held.metadata, resource_version=""))


# Bookmarks come about once a minute: a watch that says nothing for longer is dead.
SILENCE_SECONDS = 100.0
_WATCH_SECONDS = (300.0, 600.0)
_LONGEST_WAIT = 30.0
_FIRST_WAIT = 0.5
# Seconds. The longest wait for a kind that the API server does not know: it learns kinds by an upgrade or a new CRD.
_LONGEST_ABSENCE = 600.0
# Seconds. A watch that ends sooner without an event is a failure, so that watches are not opened in a tight loop.
_SHORT_WATCH = 1.0


class _WatchEvent(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    object: Raw


class _Bookmark(msgspec.Struct, frozen=True, kw_only=True):
    metadata: ListMeta = ListMeta()


_EVENT = msgspec.json.Decoder(_WatchEvent)


class Reflector(Generic[T]):
    """Keep a cache current: ``run`` in a thread of its own until ``stop``.

    After a failure, which the cache shows as ``problem``, it tries again: after a random wait that grows to 30 s, or to
    10 min for a kind that the API server does not know. ``on_forbidden`` is called with a sentence when the kind is taken to be absent
    because the API server refuses to list it, and with "" when that is over.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource[T],
        cache: ObjectCache[T],
        clock: Clock,
        random: Random,
        on_forbidden: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.resource = resource
        self.cache = cache
        self.lists = 0
        self._api = api
        self._clock = clock
        self._random = random
        self._on_forbidden = on_forbidden
        self._stop = threading.Event()
        self._lines: Lines | None = None
        self._version = ""
        # How often in a row the API server did not know the kind.
        self._absences = 0

    def run(self) -> None:
        while not self._stop.is_set():
            try:
                self._patiently(self._list)
                while not self._stop.is_set():
                    self._patiently(self._watch)
            except ApiError as error:  # expired, or not retryable: list again after a pause
                self.cache.problem = str(error)
                self._absences = self._absences + 1 if self._is_absence(error) else 0
                self._pause(self._relist_delay(error))

    def stop(self) -> None:
        """Stop. Another thread may call this; an open watch ends at once."""
        self._stop.set()
        lines = self._lines
        if lines is not None:
            lines.abandon()

    def _patiently(self, step: Callable[[], None]) -> None:
        """Retry until the step succeeds, fails permanently, or ``stop()`` is called."""
        retrying = Retrying(
            retry=retry_if_exception(self._is_retryable),
            wait=self._wait,
            stop=stop_when_event_set(self._stop),
            sleep=self._pause,
            reraise=True,
        )
        retrying(step)

    def _relist_delay(self, error: ApiError) -> float:
        """Return how many seconds to wait before everything is listed again."""
        if self._absences:
            longest = min(_LONGEST_ABSENCE, _LONGEST_WAIT * 2.0 ** min(self._absences - 1, 10))
            return self._random.uniform(longest / 2, longest)
        return self._random.uniform(0, _FIRST_WAIT if error.is_expired else _LONGEST_WAIT)

    def _is_absence(self, error: ApiError) -> bool:
        """Return whether the API server does not know the kind, and need not know it."""
        return error.is_missing and self.resource.may_be_absent

    def _pause(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def _is_retryable(self, error: BaseException) -> bool:
        if isinstance(error, ApiError):
            self.cache.problem = str(error)
            return error.retryable
        return False

    def _wait(self, state: RetryCallState) -> float:
        ceiling = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(state.attempt_number, 10))
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.retry_after if isinstance(error, ApiError) else 0.0
        return max(asked, self._random.uniform(0, ceiling))

    def _list(self) -> None:
        try:
            found, version = self._pages()
        except ApiError as error:
            # A kind that appeared but cannot be listed is not absent: its age counts from when it was last known to be absent.
            self.cache.is_unknown = self._is_absence(error)
            if self.cache.is_unknown:
                self._take_as_absent("")
            elif error.is_forbidden and self.resource.may_be_forbidden and not self.cache.all():
                self._take_as_absent(_describe_forbidden(self.resource, error))
            if not error.is_expired:
                raise
            found, version = self._pages(0)  # the continue token expired: read all in one page
        self.lists += 1
        self._absences = 0
        self.cache.is_unknown = False
        self._version = version
        self.cache.replace(found)
        self.cache.heard(self._clock.now())
        self._on_forbidden("")

    def _take_as_absent(self, forbidden: str) -> None:
        """Empty the cache: the API server does not know the kind (yet), or does not list it for this user (yet)."""
        self.cache.replace(())
        self.cache.heard(self._clock.now())
        self._on_forbidden(forbidden)

    def _pages(self, limit: int = PAGE) -> tuple[list[T], str]:
        """Return all objects, and the resource version of the list."""
        found: list[T] = []
        version = ""
        for page in read_pages(self._api, self.resource, limit):
            found.extend(page.items)
            version = page.version
            if self._stop.is_set():
                break
        return found, version

    def _watch(self) -> None:
        """Watch until the watch ends by itself; the next watch continues there."""
        query = {
            **self.resource.query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(int(self._random.uniform(*_WATCH_SECONDS))),
        }
        began, before = self._clock.now(), self._version
        try:
            request = Request(method="GET", path=self.resource.path, query=query, timeout=SILENCE_SECONDS)
            with self._api.follow(request) as lines:
                self._lines = lines
                if self._stop.is_set():  # ``stop`` was called before it could see these lines
                    return
                for line in lines:
                    self._take(line)
                    if self._stop.is_set():
                        return
        finally:
            self._lines = None
        if self._version == before and self._clock.now() - began < _SHORT_WATCH and not self._stop.is_set():
            raise ApiError(f"the watch of {self.resource} ended at once")

    def _take(self, line: bytes) -> None:
        event = _decode_event(line)
        match event.type:
            case "BOOKMARK":
                self._version = read_answer(event.object, _Bookmark, "bookmark").metadata.resource_version
            case "ADDED" | "MODIFIED":
                held = self.resource.decode(event.object)
                self._version = held.metadata.resource_version
                self.cache.put(held)
            case "DELETED":
                held = self.resource.decode(event.object)
                self._version = held.metadata.resource_version
                self.cache.drop(held.key)
            case _:
                raise read_status(event.object, f"the watch of {self.resource}", 0)
        self.cache.heard(self._clock.now())


def _describe_forbidden(resource: Resource[Any], error: ApiError) -> str:
    return (
        f"nodewright may not list it, and plans as if there were none; allow the verbs list and watch of {resource} "
        f"(API group {resource.api_group}) in the ClusterRole of its service account, and it is read within "
        f"{_LONGEST_WAIT:g} s, without a restart ({error})"
    )


def _decode_event(line: bytes) -> _WatchEvent:
    try:
        return _EVENT.decode(line)
    except (msgspec.DecodeError, ValueError) as error:
        raise ApiError(f"the watch sent a line that is not an event: {error}") from None
