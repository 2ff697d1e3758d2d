"""What a benchmark is, and one turn of the loop as all benchmarks of whole loops time it."""

import atexit
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np

from nodewright.adapters.store.file_store import FileStore
from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.memory import Memory
from nodewright.engine.intent import with_intent
from nodewright.engine.planning import Planning
from nodewright.model.plan import Plan
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import Observation

Result = Mapping[str, int]
Run = Callable[[], Result]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """``run`` is timed, and must answer ``expected``; ``notes`` are what else was measured meanwhile."""

    run: Run
    expected: Result
    notes: Callable[[], Mapping[str, float]] = dict


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One workload. ``prepare`` makes its input at a share of its size, untimed.

    ``start`` is what is there when the clock starts: raw bytes, decoded pods, prepared groups or a warm snapshot.
    ``go`` is the row of the Go figures that it divides by with its seconds, ``wanted`` how many times as fast it is
    to be; where there is no such row, ``limit`` is the most seconds that it may take. ``beyond`` names another benchmark
    and how many seconds more than it this one may take. ``by_wall`` times what waits.
    """

    workload: str
    start: str
    prepare: Callable[[float], Prepared]
    go: tuple[str, float] | None = None
    wanted: float | None = None
    limit: float | None = None
    beyond: tuple[str, float] | None = None
    by_wall: bool = False
    peak_limit_mib: float | None = None


def reference() -> float:
    """Processor seconds of a fixed piece of work, half Python and half numpy: how fast this machine is just now."""
    began, found, column = time.process_time(), dict[int, int](), np.arange(2000)
    for number in range(300_000):
        found[number] = found.get(number - 1, 0) + 1
    for number in range(20_000):
        (column >= number).any()
    return time.process_time() - began


def scaled(number: int, share: float) -> int:
    """So much of a number, but not nothing."""
    return max(1, round(number * share))


def make_store() -> FileStore:
    """Return a store for what a loop saves, in a folder that goes with the process."""
    folder = TemporaryDirectory(prefix="bench-")
    atexit.register(folder.cleanup)
    return FileStore(Path(folder.name) / "state")


@dataclass
class Loop:
    """Turns of the engine's loop without reads, events and writes: fold, plan, check, save."""

    settings: Settings
    memory: Memory = field(default_factory=Memory)
    planning: Planning = field(default_factory=Planning)
    random: Random = field(default_factory=lambda: Random(1))
    store: FileStore = field(default_factory=make_store)

    def turn(self, seen: Observation) -> Plan:
        state = fold(self.memory, seen, [], self.settings)
        plan, after = self.planning.make_plan(state, self.settings, self.random)
        violations = self.planning.check(seen, plan, after, self.settings)
        if violations:
            raise AssertionError(f"the plan breaks its rules: {violations}")
        self.memory = replace(state.memory, scale_down=after.scale_down)
        self.store.save_if_changed(with_intent(self.memory, state, plan.actions))
        return plan
