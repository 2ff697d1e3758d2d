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

    def run_once(self) -> LoopReport: ...
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

    def run(self) -> None:
        """Loop until ``may_go_on`` says no."""
        while self._may_go_on():
            report = self._loop()
            self._rest(self._engine.next_loop_at(report), report.wake_at, grew=report.grew)

    def run_one(self) -> None:
        """Run one loop, and the removals that are under way after it: no later loop would finish tainted nodes."""
        if self._may_go_on():
            self._loop()
        while self._may_go_on() and (step_at := self._engine.next_step_at()) < math.inf:
            if step_at <= self._clock.now():
                self._engine.step_removals()
            else:
                self._alarm.wait(step_at - self._clock.now())

    def _loop(self) -> LoopReport:
        self._before_loop()
        report = self._engine.run_once()
        self._on_report(report)
        return report

    def _rest(self, until: float, wake_at: float, *, grew: bool) -> None:
        """Wait until the next loop is due; take the steps of removals that fall due meanwhile.

        A ring opens a batch: the loop is then due when arrivals pause, also where the scan interval ends before. So does
        the growth of a group, since many clouds tell within a moment that they have no machines. A loop that is due
        at once (``until`` is over) does not wait for a batch, and neither does one at ``wake_at`` (epoch seconds). Without
        a window growth opens none.
        """
        until = min(until, wake_at)
        if until <= self._clock.now():
            return
        batch, latest = self._engine.batch_window(), wake_at
        if grew and batch.longest > 0:
            latest = min(latest, self._clock.now() + batch.longest)
            until = min(until, self._clock.now() + batch.idle)
        while self._may_go_on():
            now, step_at = self._clock.now(), self._engine.next_step_at()
            if step_at <= now:
                self._engine.step_removals()
            elif until <= now:
                return
            elif self._alarm.wait(min(until, step_at) - now):
                rung = self._clock.now()
                latest = min(latest, rung + batch.longest)
                until = min(rung + batch.idle, latest)
