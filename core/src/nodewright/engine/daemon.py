"""When the loop runs in real time.

Every scan interval, soon after pods arrive or a group grew, and at once after a refusal or when a deadline passes.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

from nodewright.engine.report import LoopReport
from nodewright.model.clock import Clock


class BatchWindow(NamedTuple):
    """How long a loop that pending pods start waits for more of them, in seconds.

    It waits until no pod arrived for ``idle``, and at most for ``longest`` after the first.
    """

    idle: float
    longest: float


class Engine(Protocol):
    """As Autoscaler."""

    def run_once(self, *, known_pods_only: bool = False) -> LoopReport: ...
    def next_loop_at(self, report: LoopReport) -> float: ...
    def next_step_at(self) -> float: ...
    def step_removals(self) -> object: ...
    def batch_window(self) -> BatchWindow: ...


class Alarm(Protocol):
    """Waits, and is woken by other threads."""

    def wait(self, seconds: float) -> bool:
        """Return after so long, or at once when another thread rings or has rung since: then True."""


class Daemon:
    """Loops while ``may_go_on`` says so, with the steps of removals in between; it is asked before each of them."""

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
        # The batch that was open when the loop at hand started: when the next loop is due, and at the latest.
        self._open_batch: tuple[float, float] | None = None

    def run(self) -> None:
        """Loop until ``may_go_on`` says no."""
        known_pods_only = False
        while self._may_go_on():
            report = self._loop(known_pods_only=known_pods_only)
            known_pods_only = self._rest(self._engine.next_loop_at(report), report.wake_at, grew=report.grew)

    def run_one(self) -> None:
        """Run one loop, and the removals that are under way after it: no later loop would finish tainted nodes."""
        if self._may_go_on():
            self._loop()
        while self._may_go_on() and (step_at := self._engine.next_step_at()) < math.inf:
            if step_at <= self._clock.now():
                self._engine.step_removals()
            else:
                self._alarm.wait(step_at - self._clock.now())

    def _loop(self, *, known_pods_only: bool = False) -> LoopReport:
        self._before_loop()
        report = self._engine.run_once(known_pods_only=known_pods_only)
        self._on_report(report)
        return report

    def _rest(self, until: float, wake_at: float, *, grew: bool) -> bool:
        """Wait until the next loop is due; take the steps of removals that fall due meanwhile.

        A ring opens a batch: the loop is then due when arrivals pause, also where the scan interval ends before. A loop that
        is due at once (``until`` is over) does not wait for a batch, and neither does one at ``wake_at`` (epoch seconds).

        When a group grew, a loop is due after the idle time of a batch, since many clouds report within a second that they
        have no machines. Return True if a batch is open then: that loop leaves the new pods to the loop that ends the batch.
        Without a window growth starts no loop.
        """
        until, open_batch, self._open_batch = min(until, wake_at), self._open_batch, None
        if until <= self._clock.now():
            return False
        batch, latest = self._engine.batch_window(), wake_at
        look_at = self._clock.now() + batch.idle if grew and batch.longest > 0 else math.inf
        if open_batch is not None:
            until, latest = (min(at, wake_at) for at in open_batch)
            if self._alarm.wait(0):  # during the loop
                until = min(self._clock.now() + batch.idle, latest)
        while self._may_go_on():
            now, step_at = self._clock.now(), self._engine.next_step_at()
            if step_at <= now:
                self._engine.step_removals()
            elif until <= now:
                return False
            elif look_at <= now:
                self._open_batch = open_batch
                return open_batch is not None
            elif self._alarm.wait(min(until, step_at, look_at) - now):
                rung = self._clock.now()
                latest = min(latest, rung + batch.longest)
                until = min(rung + batch.idle, latest)
                open_batch = until, latest
        return False
