"""Kubernetes events, written by a thread of their own. An event that is repeated is counted up instead of written again.

Many events that differ only in their message become one, as in Kubernetes' own components.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from nodewright.actuation.ports import STATUS_KIND, STATUS_NAME, Event, EventSink
from nodewright.adapters.kube.api import MERGE_PATCH, Api, ApiError, Request
from nodewright.adapters.kube.resources import collection_path
from nodewright.model.clock import Clock
from nodewright.model.duration import format_moment
from nodewright.model.objects import KINDS

# Dashboards and alerts look for events of this component.
COMPONENT = "cluster-autoscaler"
_MOST_WAITING = 1000
_MOST_KNOWN = 4096
# So many messages about one object and reason get events of their own; later ones are combined, until so many seconds
# have passed without any.
_MOST_SIMILAR, _SIMILAR_SECONDS = 10, 600.0
_COMBINED = "(combined from similar events): "
_MOST_TEXT = 1024
# How many characters of the object's name begin the event's name, which may have 253.
_MOST_STEM = 200

FindUid = Callable[[str, str], str]


@dataclass
class _Similar:
    """The messages that have events of their own, and when the last event of this object and reason came (epoch seconds)."""

    messages: set[str]
    last: float


class KubeEvents:
    """Implements EventSink: writes Kubernetes events in a thread of its own.

    After ten messages about one object and reason, later ones are combined into one event, until ten minutes pass without
    any. If events arrive faster than the API server takes them, the oldest are dropped and counted. ``problem`` says why
    the last write failed; empty: it succeeded. ``find_uid`` returns the uid of an object by kind and name, or an empty text:
    kubectl describe finds events by uid.
    """

    def __init__(self, api: Api, clock: Clock, find_uid: FindUid = lambda _kind, _name: "") -> None:
        self.dropped = 0
        self.problem = ""
        self._api = api
        self._clock = clock
        self._find_uid = find_uid
        self._waiting: deque[Event] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._known: OrderedDict[Event, tuple[str, int]] = OrderedDict()
        self._similar: OrderedDict[Event, _Similar] = OrderedDict()
        self._numbers = count()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """Write the waiting events, for at most ``seconds``."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def record(self, event: Event) -> None:
        with self._changed:
            if len(self._waiting) >= _MOST_WAITING:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append(event)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopping)
                if not self._waiting:
                    return
                event = self._waiting.popleft()
            try:
                self._write(event)
                self.problem = ""
            except ApiError as error:
                self.problem = str(error)
                self.dropped += 1

    def _write(self, event: Event) -> None:
        kind, event = self._combined(event)
        known = self._known.pop(kind, None)
        if known is not None and self._count_up(kind, event, *known):
            return
        namespace, name = _place(event)
        at = format_moment(self._clock.now())
        stem = name[:_MOST_STEM].rstrip(".-")
        name = f"{stem}.{int(self._clock.now() * 1e6):x}.{next(self._numbers):x}"
        body = msgspec.json.encode(self._body(event, namespace, name, at))
        self._api.send(Request(method="POST", path=collection_path("", "events", namespace), body=body))
        self._remember(kind, name, 1)

    def _combined(self, event: Event) -> tuple[Event, Event]:
        """Return the event under which it is counted, and the event to write: one for all similar ones once there are many."""
        alike, now = msgspec.structs.replace(event, message=""), self._clock.now()
        held = self._similar.pop(alike, None)
        if held is None or held.last + _SIMILAR_SECONDS < now:
            held = _Similar(set(), now)
        self._similar[alike] = held
        if len(self._similar) > _MOST_KNOWN:
            self._similar.popitem(last=False)
        held.last = now
        if event.message in held.messages or len(held.messages) < _MOST_SIMILAR:
            held.messages.add(event.message)
            return event, event
        return alike, msgspec.structs.replace(event, message=f"{_COMBINED}{event.message}")

    def _count_up(self, kind: Event, event: Event, name: str, times: int) -> bool:
        """Count the event up; return whether it still existed."""
        namespace, _ = _place(event)
        patch = {"count": times + 1, "lastTimestamp": format_moment(self._clock.now()), **_new_message(kind, event)}
        path = f"{collection_path('', 'events', namespace)}/{name}"
        try:
            body = msgspec.json.encode(patch)
            self._api.send(Request(method="PATCH", path=path, body=body, content_type=MERGE_PATCH))
        except ApiError as error:
            if error.is_missing:
                return False
            raise
        self._remember(kind, name, times + 1)
        return True

    def _remember(self, kind: Event, name: str, times: int) -> None:
        self._known[kind] = (name, times)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    def _body(self, event: Event, namespace: str, name: str, at: str) -> dict[str, Any]:
        of = {
            "apiVersion": event.api_version or _api_version(event.kind),
            "kind": event.kind,
            "name": event.name.rpartition("/")[2],
        }
        if "/" in event.name:
            of["namespace"] = namespace
        uid = event.uid or self._find_uid(event.kind, event.name)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {**of, "uid": uid} if uid else of,
            "reason": event.reason,
            "message": event.message[:_MOST_TEXT],
            "type": event.type,
            "source": {"component": COMPONENT},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }


class OwnMaps:
    """Implements EventSink: events about our ConfigMaps get their real names.

    The engine uses the default names. ``beyond`` receives the ``namespace`` of this daemon and, for the status ConfigMap,
    the name ``status``.
    """

    def __init__(self, beyond: EventSink, namespace: str, status: str) -> None:
        self._beyond = beyond
        self._namespace = namespace
        self._status = status

    def record(self, event: Event) -> None:
        if event.kind == STATUS_KIND:
            name = self._status if event.name == STATUS_NAME else event.name.rpartition("/")[2]
            event = msgspec.structs.replace(event, name=f"{self._namespace}/{name}")
        self._beyond.record(event)


def _new_message(kind: Event, event: Event) -> dict[str, str]:
    """Return the message to change when an event is counted up: a combined event shows the last message."""
    return {"message": event.message[:_MOST_TEXT]} if kind.message != event.message else {}


def _api_version(kind: str) -> str:
    known = KINDS[kind]
    return f"{known.api_group}/{known.version}" if known.api_group else known.version


def _place(event: Event) -> tuple[str, str]:
    """Return namespace and bare name. Events about objects without a namespace are kept in ``default``."""
    namespace, _, name = event.name.rpartition("/")
    return namespace or "default", name
