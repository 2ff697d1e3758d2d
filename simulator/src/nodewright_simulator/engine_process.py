"""One process of the simulated engine after another: crashes, restarts, the end of its pod, and its clocks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from nodewright.adapters.clocks import SteadyClock, VirtualClock
from nodewright.adapters.server_time import ServerTime
from nodewright.engine.autoscaler import Autoscaler
from nodewright.model.clock import Clock
from nodewright_simulator.agenda import Agenda
from nodewright_simulator.crash import Boundary, EngineCrashed, Tripwire
from nodewright_simulator.journal import Journal, What
from nodewright_simulator.store import MemoryStore

T = TypeVar("T")

# From when the engine's pod runs until the engine does.
_START_SECONDS = 5.0


class EngineHost(Protocol):
    """Builds each engine, and is called when it starts and ends."""

    def make_engine(self) -> Autoscaler: ...
    def started(self, at: float) -> None: ...

    def broke_off(self, engine: Autoscaler, answer: object) -> None:
        """Record that the engine died in the middle of its work; ``answer`` is the result of its last call, or None."""

    def stopped(self, engine: Autoscaler | None, at: float) -> None:
        """Record that no engine runs until the next call of ``started``; None: none ran before either."""


@dataclass(frozen=True, kw_only=True)
class _Death:
    """For how long the engine is down after it died, and what happens to its memory."""

    down_seconds: float = 0.0
    keeps_memory: bool = True
    saved: str = "kept"


class EngineLife:
    """One engine after the other; ``alive`` is the one that runs, None while there is none.

    Every write of the engine crosses ``wire``, where it may die. ``store`` holds its memory.
    """

    def __init__(self, host: EngineHost, clock: Clock, agenda: Agenda, journal: Journal) -> None:
        self._host, self._clock, self._agenda, self._journal = host, clock, agenda, journal
        self.wire = Tripwire()
        self.store = MemoryStore(self.wire)
        self.alive: Autoscaler | None = None
        self._death = _Death()
        self._is_working = self._is_leaving = self._is_homeless = False

    # Crashes and restarts that are scheduled

    def crash(
        self, at: float, *, write: int = 1, after_effect: bool = False, down_seconds: float, keeps_memory: bool
    ) -> None:
        """Kill the engine at its ``write``-th write after ``at``, before the write or right after it took effect.

        It starts again ``down_seconds`` later, with or without its saved state.
        """

        def arm(_: float) -> None:
            self._death = _Death(down_seconds=down_seconds, keeps_memory=keeps_memory)
            self.wire.arm(write, after_effect=after_effect)

        self._agenda.at(at, arm)

    def kill(self, boundary: int, *, down_seconds: float, keeps_memory: bool) -> None:
        """Do as ``crash`` does, at the boundary of that number from the beginning, counted from 1."""
        self._death = _Death(down_seconds=down_seconds, keeps_memory=keeps_memory)
        self.wire.arm_boundary(boundary)

    def kill_after(self, at: float, step: int, *, down_seconds: float, keeps_memory: bool) -> None:
        """Do as ``kill`` does, at the boundary of that number from ``at``."""
        self._agenda.at(at, lambda _: self.kill(step, down_seconds=down_seconds, keeps_memory=keeps_memory))

    def restart(self, at: float, *, down_seconds: float = 0.0, keeps_memory: bool = True, saved: str = "kept") -> None:
        """Kill the engine ``at``, between two loops, and start it again; ``saved`` says what became of its state."""

        def die(_: float) -> None:
            self._death = _Death(down_seconds=down_seconds, keeps_memory=keeps_memory, saved=saved)
            self._die()

        self._agenda.at(at, die)

    @property
    def boundaries(self) -> Sequence[Boundary]:
        """Where it could have died so far."""
        return self.wire.passed

    # Its life

    def start(self, at: float) -> None:
        self.alive = self._host.make_engine()
        self._journal.note(at, What.ENGINE_STARTED, "engine")
        self._host.started(at)

    def work(self, call: Callable[[Autoscaler], T]) -> T | None:
        """Call the engine and return its result; None if none runs, or if it died in the call."""
        if self.alive is None:
            return None
        self._is_working = True
        try:
            return call(self.alive)
        except EngineCrashed:
            self._host.broke_off(self.alive, self.wire.answer)
            self._die()
            return None
        finally:
            self._is_working = False

    def move_in(self, at: float) -> None:
        """Give the engine's pod a node. If it waited for one, it starts."""
        if self._is_homeless:
            self._is_homeless = False
            self._agenda.at(at + _START_SECONDS, self.start)

    def move_out(self, at: float) -> None:
        """Evict the engine's pod: it ends at once between two loops, else after the current one."""
        self._is_leaving = True
        if not self._is_working:
            self.end_if_leaving(at)

    def end_if_leaving(self, at: float) -> None:
        """Stop the engine if its pod is terminating: it has finished what it was doing."""
        if self._is_leaving and self.alive is not None:
            self.alive.end()
            self._is_homeless = True
            self._stop(at, What.ENGINE_STOPPED)
        self._is_leaving = False

    def _die(self) -> None:
        now = self._clock.now()
        self._stop(now, What.ENGINE_CRASHED)
        if not self._death.keeps_memory:
            self.store.lose()
        self.store.damage(self._death.saved)
        self._agenda.at(now + self._death.down_seconds, self.start)

    def _stop(self, at: float, how: What) -> None:
        self._journal.note(at, how, "engine")
        ended, self.alive = self.alive, None
        self._host.stopped(ended, at)


# If the engine's clock runs slower than the true time, the simulation looks again after at least so many seconds.
_STEP_SECONDS = 0.01


class _MachineClock:
    """Implements Clock: the wall clock of the engine's machine, ``ahead`` of the true time."""

    def __init__(self, true: VirtualClock) -> None:
        self._true = true
        self.ahead = 0.0

    def now(self) -> float:
        return self._true.now() + self.ahead

    def sleep(self, seconds: float) -> None:
        self._true.sleep(seconds)


class EngineClock:
    """What time it is for the engine, beside the ``true`` time, which is that of the clouds and the cluster.

    The API server's responses tell the true time, unless they have no date.
    """

    def __init__(self, true: VirtualClock) -> None:
        self._true = true
        self._machine = _MachineClock(true)
        self._server = self._meet_server()
        self._jumps, self._has_dates = False, True
        self._ours: Clock = true

    def expect_jumps(self, *, has_dates: bool) -> None:
        """Prepare for clock jumps, before the first engine starts. Without jumps its time is exactly the true one."""
        self._jumps = True
        self._has_dates &= has_dates

    def jump(self, seconds: float) -> None:
        """Set the wall clock."""
        self._machine.ahead += seconds

    def start(self) -> Clock:
        """Return the clock of an engine that starts now, and has read its state from the API server."""
        if self._jumps:
            self._server = self._meet_server()
            self.hear()
            self._ours = SteadyClock(self._server.now, self._true.now, self._true.sleep)
        return self._ours

    def _meet_server(self) -> ServerTime:
        # Simulations begin in 1970.
        return ServerTime(self._machine, self._true.now, oldest=-math.inf)

    def hear(self) -> None:
        """Let the API server respond to the engine."""
        # A header tells whole seconds: this one holds for the second around now, of which now is the best guess.
        self._server.hear(self._true.now() - 0.5 if self._has_dates else None, self._true.now())

    def true_time(self, when: float) -> float:
        """Return the true time at which the engine's clock will show ``when``, as far as its pace is known."""
        if not self._jumps or math.isinf(when):
            return when
        wait = when - self._ours.now()
        return self._true.now() + (max(wait, _STEP_SECONDS) if wait > 0 else 0.0)
