"""Choose which events of a loop to write: none twice within minutes, and one for many pods of the same controller."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from nodewright.actuation.ports import POD_KIND, STATUS_KIND, STATUS_NAME, Event
from nodewright.model.meta import OwnerReference

# The most pods of one controller that get an event of their own in one loop.
MOST_APART = 30


class _Alike(NamedTuple):
    """The common part of pods' events that are written as one. Without a controller ``namespace`` is empty."""

    reason: str
    message: str
    type: str
    namespace: str
    controller: OwnerReference | None


class EventFilter:
    """Lets an event through once per ``seconds`` for each reason, kind and object name.

    Events on the status object are distinguished by message. The filter remembers the last ``capacity`` events.
    """

    def __init__(self, seconds: float = 300.0, capacity: int = 65_536) -> None:
        self._seconds = seconds
        self._capacity = capacity
        # When each event was let through (epoch seconds), the oldest first.
        self._last: dict[tuple[str, ...], float] = {}

    def pass_through(self, events: Iterable[Event], now: float) -> Iterator[Event]:
        """Yield a loop's events that were not let through within the last ``seconds``; ``now`` in epoch seconds.

        Each event is a request to the API server. If many pods of one controller get the same event, only the first 30 get
        it; one event on the controller says how many more there are. For pods without a controller that event is on the
        status object. Events that are left out in this way count as let through.
        """
        self._forget(now)
        alike = Counter[_Alike]()
        for event in events:
            if not self._is_new(event, now):
                continue
            if event.kind != POD_KIND:
                yield event
                continue
            kind = _kind_of(event)
            alike[kind] += 1
            if alike[kind] <= MOST_APART:
                yield event
        for kind, count in alike.items():
            if count > MOST_APART:
                yield _event_of_others(kind, count - MOST_APART)

    def _is_new(self, event: Event, now: float) -> bool:
        """Return whether the event was not let through recently; it counts as let through from now on."""
        key = (event.message,) if event.name == STATUS_NAME else (event.reason, event.kind, event.name)
        last = self._last.get(key)
        if last is not None and last + self._seconds > now:
            return False
        self._last.pop(key, None)
        self._last[key] = now
        if len(self._last) > self._capacity:
            del self._last[next(iter(self._last))]
        return True

    def _forget(self, now: float) -> None:
        """Forget the events that may be let through again."""
        while self._last:
            key, last = next(iter(self._last.items()))
            if last + self._seconds > now:
                return
            del self._last[key]


def _kind_of(event: Event) -> _Alike:
    namespace = event.name.partition("/")[0] if event.controller is not None else ""
    return _Alike(event.reason, event.message, event.type, namespace, event.controller)


def _event_of_others(alike: _Alike, count: int) -> Event:
    """Return one event for ``count`` pods that get no event of their own."""
    pods, owner = "pod" if count == 1 else "pods", alike.controller
    if owner is None:
        message = f"{alike.message} ({count} more {pods} without a controller)"
        return Event(kind=STATUS_KIND, name=STATUS_NAME, reason=alike.reason, message=message, type=alike.type)
    return Event(
        kind=owner.kind,
        name=f"{alike.namespace}/{owner.name}",
        reason=alike.reason,
        message=f"{alike.message} ({count} more {pods} of this {owner.kind})",
        type=alike.type,
        api_version=owner.api_version,
        uid=owner.uid,
    )
