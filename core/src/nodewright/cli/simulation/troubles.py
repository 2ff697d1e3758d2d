"""What went wrong in a simulation beside failed scale-ups: events, refused deletions, pauses, an engine that died."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from nodewright.adapters.simulated.journal import Fact, What
from nodewright.adapters.simulated.result import OTHER_TROUBLES, SimulationResult

_PAUSED = "Paused"
# What is told of the world around the engine, in the words of the table.
_INTERRUPTIONS = {
    What.ENGINE_CRASHED: "the engine died",
    What.ENGINE_STOPPED: "the engine's pod was moved",
}


@dataclass(frozen=True, kw_only=True)
class Interruptions:
    """How often the engine was kept from its work; ``refused_deletions`` counts calls, those without answer too."""

    refused_deletions: int
    pauses: int
    crashes: int
    stops: int
    restarts: int


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """One kind of trouble: when it was first met (epoch seconds), how often, and what was said then."""

    at: float
    what: str
    times: int
    message: str


def sum_interruptions(result: SimulationResult) -> Interruptions:
    """Totals of the run."""
    facts = Counter(fact.what for fact in result.journal)
    refused = sum(d.what == "delete" and d.outcome in ("refused", "unknown") for d in result.decisions)
    return Interruptions(
        refused_deletions=refused,
        pauses=facts[What.PAUSED],
        crashes=facts[What.ENGINE_CRASHED],
        stops=facts[What.ENGINE_STOPPED],
        restarts=max(0, facts[What.ENGINE_STARTED] - 1),
    )


def find_troubles(result: SimulationResult) -> Iterator[Trouble]:
    """Each kind once, in order of when it was first met. What was planned in a pause is told by the engine's events."""
    met = [(held.at, held.event.reason, held.event.message) for held in result.events if held.event.reason in _TOLD]
    met += [(fact.at, _INTERRUPTIONS[fact.what], _back(result, fact.at)) for fact in _deaths(result)]
    times = Counter(what for _, what, _ in met)
    first: dict[str, tuple[float, str]] = {}
    for at, what, message in sorted(met, key=lambda one: one[0]):
        first.setdefault(what, (at, message))
    for what, (at, message) in first.items():
        yield Trouble(at=at, what=what, times=times[what], message=message)


def _deaths(result: SimulationResult) -> Iterator[Fact]:
    return (fact for fact in result.journal if fact.what in _INTERRUPTIONS)


def _back(result: SimulationResult, died: float) -> str:
    """When an engine that is gone was there again."""
    starts = (fact.at for fact in result.journal if fact.what == What.ENGINE_STARTED and fact.at >= died)
    back = next(starts, None)
    return f"there again {back - died:,.0f} s later" if back is not None else "not there again"


_TOLD = frozenset({*OTHER_TROUBLES, _PAUSED})
