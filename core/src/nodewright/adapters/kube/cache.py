"""The objects of one kind as the API server last told them, and what changed since somebody asked."""

import math
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

import msgspec

from nodewright.model.meta import Object

T = TypeVar("T", bound=Object)


class ObjectCache(Generic[T]):
    """Fed by one thread, read by another. Changes are kept by key, the last one of each: a reader that is away for
    long finds no more of them than there are objects.

    ``heard_at`` (epoch seconds) is when the API server last said anything. ``on_change`` is told of every object that
    came or changed, in the feeding thread.
    """

    def __init__(self, on_change: Callable[[T], None] = lambda _: None) -> None:
        self.heard_at = -math.inf
        self.problem = ""
        self._on_change = on_change
        self._lock = threading.Lock()
        self._objects: dict[str, T] = {}
        self._changes: dict[str, T | None] = {}
        self._synced = threading.Event()

    @property
    def is_synced(self) -> bool:
        """Whether everything has been listed once."""
        return self._synced.is_set()

    def wait_synced(self, seconds: float) -> bool:
        return self._synced.wait(seconds)

    def heard(self, now: float) -> None:
        self.heard_at, self.problem = now, ""

    def replace(self, objects: Iterable[T]) -> None:
        """This is all there is."""
        fresh = {held.key: held for held in objects}
        with self._lock:
            gone: dict[str, T | None] = dict.fromkeys(self._objects.keys() - fresh.keys())
            changed = {key: held for key, held in fresh.items() if not is_same(self._objects.get(key), held)}
            self._objects = fresh
            self._changes |= gone
            self._changes |= changed
        for held in changed.values():
            self._on_change(held)
        self._synced.set()

    def put(self, held: T) -> None:
        with self._lock:
            known = self._objects.get(held.key)
            self._objects[held.key] = held
            if is_same(known, held):
                return
            self._changes[held.key] = held
        self._on_change(held)

    def drop(self, key: str) -> None:
        with self._lock:
            if self._objects.pop(key, None) is not None:
                self._changes[key] = None

    def take_changes(self) -> Mapping[str, T | None]:
        """What came, changed or went (None) since the last time, by key."""
        with self._lock:
            taken, self._changes = self._changes, {}
        return taken

    def get(self, key: str) -> T | None:
        return self._objects.get(key)

    def all(self) -> tuple[T, ...]:
        with self._lock:
            return tuple(self._objects.values())


def is_same(known: T | None, held: T) -> bool:
    """Whether nothing that nodewright reads has changed: most updates are about something else."""
    return known is not None and _bare(known) == _bare(held)


def _bare(held: T) -> T:
    return msgspec.structs.replace(held, metadata=msgspec.structs.replace(held.metadata, resource_version=""))
