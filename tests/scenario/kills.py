"""One scenario, with the engine killed at every point where that could matter."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nodewright_simulator.crash import Boundary
from nodewright_simulator.journal import What
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.simulation import Simulation


@dataclass(frozen=True, kw_only=True)
class Kill:
    """What came of a run in which the engine died at its ``number``-th boundary, counted from 1."""

    number: int
    boundary: Boundary
    result: SimulationResult

    def __str__(self) -> str:
        return f"killed {self.boundary.side} {self.boundary.call} (boundary {self.number})"


def kill_everywhere(
    make: Callable[[], Simulation], *, down_seconds: float, keeps_memory: bool = True
) -> Iterator[Kill]:
    """``make`` answers the same simulation each time. Each engine that is killed comes back after ``down_seconds``,
    with what it had saved or with nothing.
    """
    untroubled = make()
    untroubled.run()
    for number, boundary in enumerate(tuple(untroubled.engine.boundaries), start=1):
        simulation = make()
        simulation.engine.kill(number, down_seconds=down_seconds, keeps_memory=keeps_memory)
        yield Kill(number=number, boundary=boundary, result=simulation.run())


def check_nothing_twice(kill: Kill, group: str, *, machines: int, evictions: int) -> None:
    """Check that so many machines of a group started, that no more pods were evicted, and that all pods run at the end."""
    journal = kill.result.journal
    made = [fact for fact in journal if fact.what == What.MACHINE_STARTED and fact.where == f"fake/{group}"]
    evicted = [fact.name for fact in journal if fact.what == What.POD_EVICTED]
    assert len(made) == machines, str(kill)
    assert len(evicted) == len(set(evicted)) <= evictions, str(kill)
    assert kill.result.final.pending == 0, str(kill)
    assert not kill.result.problems, str(kill)
