"""A loop in which time alone changes nothing may be left out: also where nodes come and go all the time."""

from functools import cache
from importlib.resources import files

from msgspec.structs import replace

from nodewright.engine.planning import Planning
from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.openb import trace_scenario
from nodewright_simulator.result import SimulationResult

CUT = str(files("nodewright_simulator")) + "/data"
EAGER = {
    "scale-down-unneeded-time": "30s",
    "scale-down-delay-after-add": "20s",
    "scale-down-utilization-threshold": 0.7,
    "consolidation-policy": "off",  # its searches may fall on other ticks (Pacing)
}


@cache
def replay(*, every_tick: bool = False) -> SimulationResult:
    scenario = trace_scenario(CUT, compression=50.0)
    scenario = replace(scenario, settings={**scenario.settings, **EAGER})
    return build_simulation(scenario, BuildOptions(every_tick=every_tick, planning=Planning(strict=True))).run()


def test_removals_come_at_the_same_moments_at_every_tick() -> None:
    quick, full = replay(), replay(every_tick=True)
    assert len(quick.removals) > 10
    assert quick.removals == full.removals
    assert quick.decisions == full.decisions
    assert quick.pod_waits == full.pod_waits
    assert quick.final == full.final
    assert quick.loops < full.loops
