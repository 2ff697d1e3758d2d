"""The last hours, in memory only: samples of the loops, and the events of the engine."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from nodewright.actuation import Event, EventSink
from nodewright.engine.report import LoopReport
from nodewright.model.clock import Clock
from nodewright.planner.cost import machines_now
from nodewright.snapshot.observation import hourly_cost

# Events of pods are left out: the page itself says why each pending pod waits.
_WITHOUT = frozenset({"Pod"})
_MOST_EVENTS, _MOST_SAMPLES = 1000, 2000
# Seconds between two samples: the samples cover some eight hours.
_APART = 15.0


class LoopSample(NamedTuple):
    """The number of nodes, upcoming machines and pending pods at one time (epoch seconds), and USD an hour."""

    at: float
    nodes: int
    upcoming: int
    pending: int
    cost: float


class PastEvent(NamedTuple):
    """An event, when it last came (epoch seconds), and how many ``times`` in a row."""

    at: float
    event: Event
    times: int = 1


class History:
    """Implements EventSink: keeps each event, then passes it on to ``beyond``. For any thread."""

    def __init__(self, clock: Clock, beyond: EventSink | None = None) -> None:
        self._clock = clock
        self._beyond = beyond
        self._lock = threading.Lock()
        self._events: deque[PastEvent] = deque(maxlen=_MOST_EVENTS)
        self._samples: deque[LoopSample] = deque(maxlen=_MOST_SAMPLES)

    def record(self, event: Event) -> None:
        if event.kind not in _WITHOUT:
            with self._lock:
                self._keep(event)
        if self._beyond is not None:
            self._beyond.record(event)

    def _keep(self, event: Event) -> None:
        last = self._events[-1] if self._events else None
        is_same = last is not None and last.event == event
        if last is not None and is_same:
            self._events.pop()
        self._events.append(PastEvent(self._clock.now(), event, last.times + 1 if last is not None and is_same else 1))

    def take(self, report: LoopReport) -> None:
        """Keep a sample of a loop that has ended, if the last one is old enough."""
        state = report.state
        if state is None or (self._samples and report.finished - self._samples[-1].at < _APART):
            return
        groups = [group.seen for group in state.groups.values()]
        sample = LoopSample(
            at=report.finished,
            nodes=int(state.observation.snapshot.alive.sum()),
            upcoming=report.upcoming_machines,
            pending=len(state.observation.pending),
            cost=hourly_cost(groups, machines_now(groups)).total,
        )
        with self._lock:
            self._samples.append(sample)

    def events(self) -> Sequence[PastEvent]:
        """Return the events, the newest first."""
        with self._lock:
            return tuple(reversed(self._events))

    def samples(self) -> Sequence[LoopSample]:
        """Return the samples, the oldest first."""
        with self._lock:
            return tuple(self._samples)
