"""The openb trace, replayed on virtual time: loops per second of a whole engine."""

from functools import partial
from importlib.resources import files

from measure import Benchmark, Prepared, Result
from nodewright.adapters.simulated.build import BuildOptions, build_simulation
from nodewright.adapters.simulated.demo import trace_scenario

_CUT = f"{files('nodewright.adapters.traces')}/data"


def prepare_replay(compression: float, share: float) -> Prepared:
    """The packaged cut of the trace; a share of its size is the same with time compressed further."""
    scenario = trace_scenario(_CUT, compression=compression / share)
    simulation = build_simulation(scenario, BuildOptions())

    def run() -> Result:
        result = simulation.run()
        return {"violations": len(result.violations), "pending": result.final.pending, "loops": int(result.loops > 0)}

    return Prepared(run=run, expected={"violations": 0, "pending": 0, "loops": 1})


REPLAYS: dict[str, Benchmark] = {
    "replay": Benchmark(
        workload="the openb trace (packaged cut) in real time: 1,557 loops",
        start="decoded pods",
        prepare=partial(prepare_replay, 1),
    ),
    "replay-compressed": Benchmark(
        workload="the same compressed by 100",
        start="decoded pods",
        prepare=partial(prepare_replay, 100),
    ),
}
