"""Run the loop in real time.

It runs every scan interval, soon after pods arrive, and at once after a refusal, after a group grew or when a deadline
passes.
"""

import math
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

from nodewright.engine.report import LoopReport
from nodewright.model.clock import Clock

# Seconds after a group grew until its cloud is read for the first time.
_FIRST_LOOK = 0.1
# While pods keep arriving, each request for machines delays the next batch by these seconds: some 15 requests a minute.
_SECONDS_PER_WRITE = 4.0
# To keep that pace a batch may last up to this many times as long as otherwise.
_LONGER = 2.0


class BatchWindow(NamedTuple):
    """The time that a loop which pending pods start waits for more pods, in seconds.

    It waits until no pod arrived for ``idle`` seconds, and at most for ``longest`` seconds after the first; up to twice
    as long if earlier loops requested machines often.
    """

    idle: float
    longest: float


class Scope(Enum):
    """For which pods a loop plans. A ``LOOK`` also makes no writes unless a group has failed."""

    ALL = "all pods"
    KNOWN = "pods that were pending in the last loop"
    LOOK = "pods that were pending in the last loop, where a group has failed"


class Engine(Protocol):
    """The part of Autoscaler that the daemon uses."""

    def run_once(self, scope: Scope = Scope.ALL) -> LoopReport: ...
    def next_loop_at(self, report: LoopReport) -> float: ...
    def next_step_at(self) -> float: ...
    def step_removals(self) -> object: ...
    def batch_window(self) -> BatchWindow: ...


class Alarm(Protocol):
    """Waits, and is woken by other threads."""

    def wait(self, seconds: float) -> bool:
        """Wait for so many seconds. Return True at once if another thread rings, or has rung since the last call."""

    def take_urgent(self) -> bool:
        """Return whether a notice that cannot wait for a batch came since the last call: a cloud takes a machine."""


class Daemon:
    """Runs loops, and the steps of removals between them. It stops when ``may_go_on``, asked before each, returns False."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        alarm: Alarm,
        *,
        may_go_on: Callable[[], bool],
        on_report: Callable[[LoopReport], None],
        before_loop: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._alarm = alarm
        self._may_go_on = may_go_on
        self._on_report = on_report
        self._before_loop = before_loop
        # The batch that was open when the current loop started: when the next loop is due, and when at the latest.
        self._open_batch: tuple[float, float] | None = None
        # When to read the cloud after a group grew.
        self._looks: list[float] = []
        # Until when a batch stays open while pods keep arriving: clouds throttle frequent writes.
        self._paced_until = 0.0

    def run(self) -> None:
        """Loop until ``may_go_on`` returns False."""
        scope = Scope.ALL
        while self._may_go_on():
            report = self._loop(scope)
            scope = self._rest(report, self._engine.next_loop_at(report))

    def run_one(self) -> None:
        """Run one loop, and the removals that are under way after it: no later loop would finish tainted nodes."""
        if self._may_go_on():
            self._loop(Scope.ALL)
        while self._may_go_on() and (step_at := self._engine.next_step_at()) < math.inf:
            if step_at <= self._clock.now():
                self._engine.step_removals()
            else:
                self._alarm.wait(step_at - self._clock.now())

    def _loop(self, scope: Scope) -> LoopReport:
        self._before_loop()
        report = self._engine.run_once(scope)
        self._on_report(report)
        return report

    def _rest(self, report: LoopReport, until: float) -> Scope:
        """Wait until the next loop is due; take the steps of removals that become due meanwhile. Return that loop's scope.

        A notice of an interruption makes the loop due at once. Arriving pods open a batch: the loop is then due when
        arrivals pause, even if the scan interval ends before. A loop that is due at once (``until`` has passed) does not
        wait for a batch, and neither does a loop that a deadline starts.

        After a group grew, one loop is due at once and another after the idle time of a batch, since many clouds report
        within a second that they have no machines. If a batch is open then, that loop leaves the new pods to the loop that
        ends the batch. So does a loop that plans again for pods of the last loop. Without a batch window growth starts no
        loop.
        """
        now, batch, latest = self._clock.now(), self._engine.batch_window(), report.wake_at
        paced = max(self._paced_until, report.started) + _SECONDS_PER_WRITE * report.increases
        self._paced_until = min(paced, now + _LONGER * batch.longest)  # a burst of requests delays no later batch
        until, open_batch, self._open_batch = min(until, latest), self._open_batch, None
        self._looks = [at for at in self._looks if at > report.started]
        if report.grew and batch.longest > 0:
            self._looks = [now + min(_FIRST_LOOK, batch.idle), now + batch.idle]
        plans_anew = until <= now and report.plans_anew and batch.longest > 0
        if until <= now and not plans_anew:
            return Scope.ALL
        look_at, scope = min(self._looks, default=math.inf), Scope.LOOK
        if plans_anew:
            look_at, scope, until, latest = now, Scope.KNOWN, math.inf, math.inf
        if open_batch is not None:
            until, latest = (min(at, latest) for at in open_batch)
        has_rung = self._alarm.wait(0)  # during the loop
        while self._may_go_on() and not self._alarm.take_urgent():
            now, step_at = self._clock.now(), self._engine.next_step_at()
            if has_rung:
                longest = min(max(batch.longest, self._paced_until - now), _LONGER * batch.longest)
                latest = min(latest, now + longest)
                until, has_rung = min(now + batch.idle, latest), False
                open_batch = until, latest
            elif step_at <= now:
                self._engine.step_removals()
            elif until <= now:
                return Scope.ALL
            elif look_at <= now:
                self._open_batch = open_batch
                is_last = look_at >= max(self._looks, default=look_at)
                return scope if plans_anew or open_batch is not None or not is_last else Scope.ALL
            else:
                has_rung = self._alarm.wait(min(until, step_at, look_at) - now)
        return Scope.ALL
