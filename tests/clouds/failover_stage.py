"""The failover table through a vendor's server: what a vendor's adapter gives, and what is measured of a play on it.

An adapter is a module ``<vendor>cloud.failover`` with ``open_stage(settings, tells=…)``.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from engine_play import CHEAP, DEAR, PODS_AT, EnginePlay
from nodewright_simulator.journal import What
from nodewright_simulator.result import SimulationResult

END = 4 * 3600.0
MINUTE = 60.0


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A play on a cloud: ``shortage(machines)`` lets the cheap group sell out beyond so many, ``quota()`` refuses all of
    it for want of quota, ``calls()`` counts the calls to the cloud's API so far.
    """

    play: EnginePlay
    shortage: Callable[[int], object]
    quota: Callable[[], object]
    calls: Callable[[], int]


class OpenStage(Protocol):
    def __call__(self, settings: Mapping[str, Any], *, tells: bool) -> AbstractContextManager[Stage]:
        """``tells``: the plugin may find out what failed."""


CASES: Mapping[str, tuple[str, Callable[[Stage], object]]] = {
    "stock-out": ("Three machines are asked of a group that is sold out for good", lambda stage: stage.shortage(0)),
    "partial": ("Three machines are asked for, one is left", lambda stage: stage.shortage(1)),
    "quota": ("The quota of the group's machines is used up", lambda stage: stage.quota()),
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Minutes count from the loop that sees the pods; None: never within four hours. ``killed`` ran, and are gone."""

    minutes_to_next_group: float | None
    minutes_to_all_running: float | None
    scale_ups: int
    killed: int
    api_calls: int


def open_stage(vendor: str) -> OpenStage:
    """The adapter of that vendor."""
    found: OpenStage = import_module(f"{vendor}cloud.failover").open_stage
    return found


def measure(vendor: str, case: str, settings: Mapping[str, Any], *, tells: bool) -> Measured:
    """One case on a cloud of its own."""
    with open_stage(vendor)(settings, tells=tells) as stage:
        CASES[case][1](stage)
        result = stage.play.run()
        calls = stage.calls()
    grown = list(_increases(result))
    seen = grown[0][0] if grown else PODS_AT
    next_group = (at for at, group in grown if group == stage.play.names[DEAR])
    started = [fact.at for fact in result.journal if fact.what == What.POD_STARTED]
    gone = [fact for fact in result.journal if fact.what == What.MACHINE_GONE]
    return Measured(
        minutes_to_next_group=_minutes(next(next_group, None), seen),
        minutes_to_all_running=_minutes(max(started) if len(started) >= 3 else None, seen),
        scale_ups=len(grown),
        killed=len(gone),
        api_calls=calls,
    )


def _increases(result: SimulationResult) -> Iterator[tuple[float, str]]:
    for made in result.decisions:
        if made.what == "increase" and made.after > made.before:
            yield made.at, made.group.partition("/")[2]


def _minutes(at: float | None, seen: float) -> float | None:
    return None if at is None else round((at - seen) / MINUTE, 2)


__all__ = ["CASES", "CHEAP", "END", "Measured", "Stage", "measure", "open_stage"]
