"""Notices of AWS that it takes instances: EventBridge's events in a queue of SQS, and the scheduled events of EC2.

A message stays in the queue until its instance is gone, so that a process that starts after a crash reads it again.
"""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime

import msgspec

from nodewright.spec import Clock, FailureScope, Interruption, InterruptionKind
from nodewright.spec.cache import attempt
from nodewright_aws.api import Api
from nodewright_aws.options import Options
from nodewright_aws.shapes import Message, ScheduledEvent

_RECLAIM, _MAINTENANCE = InterruptionKind.RECLAIM, InterruptionKind.MAINTENANCE
# AWS interrupts a spot instance so long after it has said so.
_SPOT_SECONDS = 120.0
# An instance that stops or shuts down has about so much time left.
_STOP_SECONDS = 30.0
_STOPPING = ("stopping", "shutting-down")
_STATUS_SECONDS = 60.0
# A message is hidden from other readers for so long: one with a near deadline, and any other one.
_HIDDEN_SECONDS, _LONG_HIDDEN_SECONDS = 30, 600
# A message about an instance of no known group is kept for so long: the group may have just started it.
_UNKNOWN_SECONDS = 300.0
_LONGEST_POLL = 20
_MOST_MESSAGES = 10


@dataclass
class _Held:
    """What is known of one message: its notices, its latest receipt, and when it was first read."""

    notices: tuple[Interruption, ...]
    receipt: str
    since: float


@dataclass
class Notices:
    """Reads the queue and the scheduled events. ``wait`` runs in a thread of its own, beside all other methods.

    Without ``reads_queue`` the messages of the queue are left to the process that manages the groups.
    """

    api: Api
    options: Options
    clock: Clock
    reads_queue: bool = True
    _held: dict[str, _Held] = field(default_factory=dict)
    _scheduled: tuple[Interruption, ...] = ()
    _scheduled_at: float = float("-inf")
    _url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds for a message; return whether there is a new notice."""
        longest = min(timeout, _LONGEST_POLL, max(0.0, self.options.read_timeout - 5.0))
        return self._receive(int(longest))

    def refresh(self, machines: Mapping[str, str]) -> None:
        """Read what is new, and delete the messages about instances that are gone.

        ``machines`` are the provider ids of the instances that live, by instance id.
        """
        if self.reads_queue:
            self._receive(0)
        now = self.clock.now()
        if now >= self._scheduled_at + _STATUS_SECONDS:
            events = self.api.scheduled_events()
            self._scheduled = tuple(notice for event in events for notice in _of_event(event))
            self._scheduled_at = now
        with self._lock:
            over = {key: held.receipt for key, held in self._held.items() if self._is_over(held, machines, now)}
        if over:
            self.api.delete_messages(self._queue(), list(over.values()))
            with self._lock:
                for key in over:
                    self._held.pop(key, None)

    def told(self, machines: Mapping[str, str]) -> tuple[Interruption, ...]:
        """Return the notices about instances that live, with their provider ids."""
        with self._lock:
            notices = [notice for held in self._held.values() for notice in held.notices]
        known = {notice.id: notice for notice in (*notices, *self._scheduled) if notice.instance_id in machines}
        return tuple(
            msgspec.structs.replace(notice, instance_id=machines[notice.instance_id]) for notice in known.values()
        )

    def _receive(self, wait_seconds: int) -> bool:
        """Read messages until there are no more; return whether one of them was not known."""
        is_new = False
        while True:
            messages = self.api.receive_messages(self._queue(), wait_seconds, _HIDDEN_SECONDS)
            for message in messages:
                is_new |= self._take(message)
            if len(messages) < _MOST_MESSAGES:
                return is_new
            wait_seconds = 0

    def _take(self, message: Message) -> bool:
        """Remember a message; return whether it has a notice that was not known."""
        notices = read_event(message.body)
        if not any(notice.kind == _RECLAIM for notice in notices):
            queue = self._queue()
            # If AWS refuses, the message is read again soon. The other messages must be read in any case.
            attempt(lambda: self.api.hide_message(queue, message.receipt_handle, _LONG_HIDDEN_SECONDS))
        with self._lock:
            before = self._held.get(message.message_id)
            since = before.since if before is not None else self.clock.now()
            self._held[message.message_id] = _Held(notices, message.receipt_handle, since)
        return before is None and bool(notices)

    def _is_over(self, held: _Held, machines: Collection[str], now: float) -> bool:
        """Return whether the message is of no use any more."""
        if any(notice.instance_id in machines for notice in held.notices):
            return False
        return not held.notices or now >= held.since + _UNKNOWN_SECONDS

    def _queue(self) -> str:
        if not self._url:
            self._url = self.api.queue_url(self.options.interruption_queue)
        return self._url


def read_event(body: str) -> tuple[Interruption, ...]:
    """Return the notices of an event of EventBridge, with instance ids of EC2; none if it is another event."""
    try:
        event = msgspec.json.decode(body, type=_Event)
        return tuple(_notices(event))
    except (msgspec.DecodeError, ValueError, TypeError):
        return ()


class _Entity(msgspec.Struct, frozen=True, rename="camel"):
    entity_value: str = ""


class _Detail(msgspec.Struct, frozen=True, kw_only=True):
    instance_id: str = msgspec.field(default="", name="instance-id")
    state: str = ""
    service: str = ""
    category: str = msgspec.field(default="", name="eventTypeCategory")
    start_time: str = msgspec.field(default="", name="startTime")
    entities: tuple[_Entity, ...] = msgspec.field(default=(), name="affectedEntities")


class _Event(msgspec.Struct, frozen=True, kw_only=True):
    id: str = ""
    kind: str = msgspec.field(default="", name="detail-type")
    time: str = ""
    detail: _Detail = _Detail()


def _notices(event: _Event) -> Sequence[Interruption]:
    detail, at = event.detail, datetime.fromisoformat(event.time).timestamp() if event.time else 0.0
    about, pool = detail.instance_id, FailureScope.GROUP
    match event.kind:
        case "EC2 Spot Instance Interruption Warning":
            deadline = at + _SPOT_SECONDS
            return [Interruption(id=event.id, instance_id=about, kind=_RECLAIM, deadline=deadline, scope=pool)]
        case "EC2 Instance Rebalance Recommendation":
            return [Interruption(id=event.id, instance_id=about, kind=InterruptionKind.REBALANCE, scope=pool)]
        case "EC2 Instance State-change Notification" if detail.state in _STOPPING:
            return [Interruption(id=event.id, instance_id=about, kind=_RECLAIM, deadline=at + _STOP_SECONDS)]
        case "AWS Health Event" if detail.service == "EC2" and detail.category == "scheduledChange":
            starts = parsedate_to_datetime(detail.start_time).timestamp() if detail.start_time else None
            names = [entity.entity_value for entity in detail.entities]
            return [
                Interruption(id=f"{event.id}/{name}", instance_id=name, kind=_MAINTENANCE, deadline=starts)
                for name in names
            ]
    return []


def _of_event(event: ScheduledEvent) -> Sequence[Interruption]:
    """Return the notice of a scheduled event that is neither completed nor cancelled."""
    if event.description.startswith(("[Completed]", "[Canceled]")):
        return []
    deadline = event.not_before.timestamp() if event.not_before is not None else None
    notice_id = event.instance_event_id or f"{event.instance_id}/{event.code}"
    return [Interruption(id=notice_id, instance_id=event.instance_id, kind=_MAINTENANCE, deadline=deadline)]
