"""The openb trace, replayed on virtual time: a whole engine, and how long pods wait for what is planned for them."""

import time
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from random import Random

from measure import Benchmark, Prepared, Result
from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.planning import Planning
from nodewright.model.plan import Plan
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.openb import trace_scenario
from nodewright_simulator.result import WaitingTimes

_WHOLE = str(Path(__file__).parents[1] / "tests" / "data" / "openb")
_CUT = f"{files('nodewright_simulator')}/data"


class Waits:
    """From the loop that first sees a pod to the one that asks for its machine: how many loops, and how much planning."""

    def __init__(self) -> None:
        self.planning = Planning(make_plan=self._plan)
        self._seen: dict[str, tuple[int, float]] = {}
        self._loop, self._spent = 0, 0.0
        self.loops_a_second = 0.0
        self._loops: list[float] = []
        self._milliseconds: list[float] = []

    def notes(self) -> Mapping[str, float]:
        loops, milliseconds = WaitingTimes.of(self._loops), WaitingTimes.of(self._milliseconds)
        return {
            "loops a second": round(self.loops_a_second, 1),
            "planned loops": self._loop,
            "ms a plan": round(1000 * self._spent / max(1, self._loop), 2),
            "p50 loops": loops.p50,
            "p99 loops": loops.p99,
            "p50 ms": round(milliseconds.p50, 2),
            "p99 ms": round(milliseconds.p99, 2),
        }

    def _plan(self, state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
        began = time.process_time()
        plan, after = make_plan(state, settings, random)
        for pod in state.observation.pending:
            self._seen.setdefault(pod.key, (self._loop, self._spent))
        self._loop, self._spent = self._loop + 1, self._spent + time.process_time() - began
        for report in (plan.scale_up, *plan.salvo):
            for pod in report.triggered:
                loop, spent = self._seen.pop(pod.key, (self._loop - 1, self._spent))
                self._loops.append(self._loop - loop)
                self._milliseconds.append(1000 * (self._spent - spent))
        return plan, after


def prepare_replay(compression: float, share: float) -> Prepared:
    """Prepare a replay of the trace; a share of its size is a share of the time of the packaged part."""
    scenario = trace_scenario(_WHOLE if share == 1 else _CUT, compression=compression / share)
    waits = Waits()
    simulation = build_simulation(scenario, BuildOptions(planning=waits.planning))

    def run() -> Result:
        began = time.process_time()
        result = simulation.run()
        waits.loops_a_second = result.loops / (time.process_time() - began)
        return {
            "violations": len(result.violations),
            "pending": result.final.pending,
            "refused": sum(decision.outcome != "done" for decision in result.decisions),
            "loops": int(result.loops > 0),
        }

    expected = {"violations": 0, "pending": 0, "refused": 0, "loops": 1}
    return Prepared(run=run, expected=expected, notes=waits.notes)


REPLAYS: dict[str, Benchmark] = {
    "replay": Benchmark(
        workload="the openb trace, 8,152 pods in 149 days, in real time",
        start="decoded pods",
        prepare=partial(prepare_replay, 1),
    ),
    "replay-compressed": Benchmark(
        workload="the same compressed by 100",
        start="decoded pods",
        prepare=partial(prepare_replay, 100),
    ),
}
