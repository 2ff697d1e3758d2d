"""When the loop runs in real time: one scan interval after the other, and at once when somebody rings."""

import math
from collections.abc import Callable
from typing import Protocol

from nodewright.engine.report import LoopReport
from nodewright.model.clock import Clock


class Engine(Protocol):
    """As Autoscaler."""

    def run_once(self) -> LoopReport: ...
    def next_loop_at(self, report: LoopReport) -> float: ...
    def next_step_at(self) -> float: ...
    def step_removals(self) -> object: ...


class Alarm(Protocol):
    """Waits, and is woken by other threads."""

    def wait(self, seconds: float) -> bool:
        """Returns after so long, or at once when somebody rings or has rung since: then True."""


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
        while self._may_go_on():
            self._rest(self._engine.next_loop_at(self._loop()))

    def run_one(self) -> None:
        """One loop, and the removals that are under way after it: nobody comes back for nodes that were tainted."""
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

    def _rest(self, until: float) -> None:
        """Until the next loop is due or somebody rings; steps of removals are taken when they are due."""
        while self._may_go_on():
            now, step_at = self._clock.now(), self._engine.next_step_at()
            if step_at <= now:
                self._engine.step_removals()
                continue
            if until <= now or self._alarm.wait(min(until, step_at) - now):
                return
