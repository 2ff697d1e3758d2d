"""The API server's time, taken from the dates of its responses, and node times that lie in the future.

The API server's clock or a kubelet's may be ahead of ours (docs/adr/0026-steady-time.md, docs/adr/0028-server-time.md).
"""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from msgspec.structs import replace

from nodewright.model.clock import Clock
from nodewright.model.duration import format_duration, format_moment
from nodewright.model.node import Node

DAY = 86400.0
# 2026-01-01: this version was written later, so a date before it is wrong.
OLDEST = 1767225600.0
# Seconds. A date further ahead than this was set by something other than the API server.
FARTHEST_AHEAD = 30 * DAY
# Seconds. A smaller difference between the two clocks is usual.
_APART = 5.0


class ServerTime:
    """Implements Clock: the API server's time; the machine's time until a response has a usable date. For any thread.

    ``machine`` is the machine's wall clock, which an operator or NTP may set. ``elapsed`` (seconds) is monotonic. No correct
    clock shows a time before ``oldest``.

    A ``Date`` header has whole seconds and a response takes time to arrive, so each response gives a range in which the API
    server's time lies. A response moves the estimate only as far as into that range: no response makes it less exact.
    """

    def __init__(self, machine: Clock, elapsed: Callable[[], float], *, oldest: float = OLDEST) -> None:
        self._machine = machine
        self._elapsed = elapsed
        self._oldest = oldest
        self._lock = threading.Lock()
        # The API server's time minus ``elapsed``; None until a response had a usable date.
        self._apart: float | None = None
        self._is_dateless = False
        # The last date that was not believed.
        self._absurd: float | None = None

    def now(self) -> float:
        """Return the seconds since the Unix epoch."""
        apart = self._apart
        return self._machine.now() if apart is None else self._elapsed() + apart

    def sleep(self, seconds: float) -> None:
        self._machine.sleep(seconds)

    @property
    def is_heard(self) -> bool:
        """Return whether a response has had a usable date."""
        return self._apart is not None

    def elapsed(self) -> float:
        """Return the monotonic time: take it before a request, and pass it to ``hear`` as ``asked``."""
        return self._elapsed()

    def hear(self, date: float | None, asked: float) -> None:
        """Use the date of a response that has just arrived (whole seconds since the epoch; None: it had none)."""
        came = self._elapsed()
        with self._lock:
            if date is None:
                self._is_dateless = True
                return
            if not self._is_believable(date):
                self._absurd = date
                return
            self._absurd = None
            earliest, latest = date - came, date + 1.0 - asked
            if self._apart is None:
                by_machine = self._machine.now() - came
                middle = (earliest + latest) / 2
                self._apart = by_machine if earliest <= by_machine <= latest else middle
            self._apart = min(latest, max(earliest, self._apart))

    def _is_believable(self, date: float) -> bool:
        """Return whether the API server's clock may have shown that date."""
        if date < self._oldest:
            return False
        now = self.now()
        # If this machine's clock was never set, the date may be any number of years ahead of it.
        return date - now <= FARTHEST_AHEAD or (self._apart is None and now < self._oldest)

    def problem(self) -> str:
        """Return what an operator should know about the clocks; empty: they agree, or nothing was heard yet."""
        if self._absurd is not None:
            used = "its earlier responses are" if self.is_heard else "this machine's clock is"
            return f"the API server dates a response {format_moment(self._absurd)}, which cannot be: {used} used"
        if self._apart is None:
            unchecked = "the API server's responses have no Date header: this machine's clock is used, unchecked"
            return unchecked if self._is_dateless else ""
        ahead = self._machine.now() - self.now()
        if abs(ahead) < _APART:
            return ""
        way = "ahead of" if ahead > 0 else "behind"
        return f"this machine's clock is {format_duration(round(abs(ahead)))} {way} the API server's, whose time is used instead"


class JumpWatch:
    """Detects jumps of a clock, by comparison with ``elapsed``, which is monotonic.

    The dates of several API servers whose clocks differ look like one clock that is set forwards and back. So a jump to a
    time is reported at most twice.
    """

    # Smaller corrections are normal and not reported.
    LEAST = 2.0
    # How often a jump to one time is reported, and how many such times are remembered.
    OFTEN, REMEMBERED = 2, 10

    def __init__(self, clock: Callable[[], float], elapsed: Callable[[], float]) -> None:
        self._clock = clock
        self._elapsed = elapsed
        self._apart = clock() - elapsed()
        # Times (as differences from ``elapsed``) that a jump led to, and how often; the latest one last.
        self._visits: list[tuple[float, int]] = []

    def take(self) -> float:
        """Return by how many seconds the clock jumped since the last call; 0: no jump to report."""
        apart = self._clock() - self._elapsed()
        jump, self._apart = apart - self._apart, apart
        if abs(jump) < self.LEAST:
            return 0.0
        visits = sum(count for at, count in self._visits if abs(at - apart) < self.LEAST)
        others = [visit for visit in self._visits if abs(visit[0] - apart) >= self.LEAST]
        self._visits = [*others, (apart, visits + 1)][-self.REMEMBERED :]
        return jump if visits < self.OFTEN else 0.0


class FutureTimes:
    """Replaces each time of a node that lies in the future by when it was first seen, so that ages grow from then on."""

    def __init__(self) -> None:
        # By node: each moment that lay in the future, and when it was first seen.
        self._first_seen: dict[str, dict[datetime, datetime]] = {}

    def clamp(self, node: Node, now: float) -> Node:
        """Return the node as of ``now`` (epoch seconds); the same object where nothing lies in the future."""
        known = self._first_seen.get(node.name, {})
        early = {moment for moment in _times(node) if moment in known or moment.timestamp() > now}
        if not early:
            self.forget(node.name)
            return node
        today = datetime.fromtimestamp(now, tz=UTC)
        self._first_seen[node.name] = seen = {moment: known.get(moment, today) for moment in early}
        return _dated(node, seen)

    def forget(self, name: str) -> None:
        """Drop what is known of a node that is gone."""
        self._first_seen.pop(name, None)


def _times(node: Node) -> Iterator[datetime]:
    moments = (
        node.metadata.creation_timestamp,
        *(condition.last_transition_time for condition in node.status.conditions),
        *(taint.time_added for taint in node.spec.taints),
    )
    return (moment for moment in moments if moment is not None)


def _dated(node: Node, seen: dict[datetime, datetime]) -> Node:
    def date(moment: datetime | None) -> datetime | None:
        return seen.get(moment, moment) if moment is not None else None

    conditions = tuple(
        replace(condition, last_transition_time=date(condition.last_transition_time))
        for condition in node.status.conditions
    )
    taints = tuple(replace(taint, time_added=date(taint.time_added)) for taint in node.spec.taints)
    return replace(
        node,
        metadata=replace(node.metadata, creation_timestamp=date(node.metadata.creation_timestamp)),
        spec=replace(node.spec, taints=taints),
        status=replace(node.status, conditions=conditions),
    )
