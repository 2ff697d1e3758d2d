"""A small run to report on, with names that try to break out of the page."""

from typing import Any

import pytest

from nodewright.actuation.ports import Event
from nodewright_simulator.result import (
    Decision,
    FinalState,
    LeastCost,
    NodeHours,
    Series,
    SimulationResult,
    TimedEvent,
    WaitingTimes,
)

EVIL = "</script><img src=x onerror=alert(1)><b>&\u202e"


def make(title: str = "A run", group: str = "fake/small", *, cost: float | None = 1.5) -> SimulationResult:
    series = Series(
        times=(0.0, 60.0, 120.0, 3600.0),
        pending=(5, 2, 0, 0),
        running=(0, 3, 5, 5),
        nodes={group: (0, 1, 2, 2), "fake/large": (0, 0, 1, 1)},
        utilisation={"cpu": (None, 0.9, 0.5, 0.5), group: (None, 0.1, 0.2, 0.3)},
        cost=(0.0, 0.0, 0.1, 1.5),
        rate=(0.0, 1.0, 2.0, 2.0),
        bound=(None, 0.5, 1.0, 1.0),
    )
    message = f"Failed adding 1 nodes to group {group}"
    event = Event(kind="ConfigMap", name="s", reason="ScaleUpFailed", message=message, type="Warning")
    return SimulationResult(
        title=title,
        start=0.0,
        end=3600.0,
        loops=9,
        happenings=12,
        increases=3,
        series=series,
        waiting=WaitingTimes.of([0.0, 10.0, 70.0]),
        node_hours=NodeHours(used=2.5, busy=2.0, oracle=3.0),
        cost=cost,
        least_cost=LeastCost(0.75, 2.0) if cost is not None else None,
        price_sources=("assumed list prices",),
        final=FinalState(pending=0, running=5, nodes={group: 2, "fake/large": 1}, ready_nodes=3),
        decisions=(
            Decision(at=60.0, what="increase", group=group, before=0, after=2, pods=3, outcome="done"),
            Decision(at=70.0, what="delete", group=group, before=2, after=1, pods=0, outcome="done", message=group),
        ),
        events=(TimedEvent(at=65.0, event=event),),
        violations=(f"{group}: a rule",),
        problems=(f"{group} cannot be read",),
    )


@pytest.fixture
def run() -> SimulationResult:
    return make()


@pytest.fixture
def evil_run() -> SimulationResult:
    return make(EVIL, EVIL)


@pytest.fixture
def make_run() -> Any:
    return make
