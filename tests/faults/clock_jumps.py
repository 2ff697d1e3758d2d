"""Schedules in which the wall clock of the engine's machine is set: by 30 s, 10 min or a day, forward or back.

Half of the pods leave after ten minutes; the nodes without pods go within a bound, independent of the clock. Where the API
server's responses have a date, nodes join before they are Ready, and no machine is bought twice.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

from nodewright.engine.planning import Planning
from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.journal import What
from nodewright_simulator.scenario_file import read_scenario

MINUTE, DAY = 60.0, 86400.0
SIZES = (30.0, 600.0, DAY)
PODS, LEFT = 6, 2
# A clock that is a day back still tells a time after the epoch, before which nothing is.
START = 2 * DAY
LEAVE, DURATION = START + 10 * MINUTE, START + 90 * MINUTE
# The unneeded time, a restart, and removal one after the other; without dates a tenth of the unneeded time.
GONE = LEAVE + 10 * MINUTE + 12 * MINUTE
A_TENTH = 1 * MINUTE
TAINT = "ToBeDeletedByClusterAutoscaler"


@dataclass(frozen=True, kw_only=True)
class Jump:
    """``by`` seconds at a moment, for so long (None: for good), and when the engine starts again, if it does.

    ``has_dates``: the API server's responses tell its time.
    """

    has_dates: bool
    at: float
    by: float
    lasts: float | None
    restart: float | None

    @property
    def timeline(self) -> list[dict[str, Any]]:
        jump: dict[str, Any] = {"do": "jump_clock", "at": self.at, "by": self.by, "date_header": self.has_dates}
        if self.lasts is not None:
            jump["for"] = self.lasts
        restart = [{"do": "restart", "at": self.restart, "down": 5}] if self.restart is not None else []
        return [jump, *restart]


def draw_jumps(seed: int = 0) -> Iterator[Jump]:
    """Every size both ways, for 30 s or for good, without a restart, with one meanwhile and one afterwards; each without and
    with dates."""
    random = Random(seed)
    ways = product((False, True), SIZES, (1, -1), (30.0, 600.0, None), (None, 20.0, 700.0))
    for has_dates, size, sign, lasts, restart in ways:
        at = START + random.randrange(0, 1800, 5)
        starts = None if restart is None else at + restart
        yield Jump(has_dates=has_dates, at=at, by=sign * size, lasts=lasts, restart=starts)


def schedule(jump: Jump | None) -> dict[str, Any]:
    pod = {"cpu": "1", "memory": "64Mi"}
    group: dict[str, Any] = {"name": "a", "cpu": 1, "max_size": 8, "size": 0, "provision_delay": "60s"}
    group |= {"delete_delay": "30s"}
    if jump is not None and jump.has_dates:
        group["ready_delay"] = "90s"
    return {
        "name": "clock jumps",
        "duration": DURATION,
        "providers": {"fake": {"groups": [group]}},
        "deployments": [{"name": "web", "at": START, "replicas": PODS, "pod": pod}],
        "timeline": [
            {"do": "scale", "at": LEAVE, "deployment": "web", "replicas": LEFT},
            *(jump.timeline if jump is not None else []),
        ],
    }


def most_bought(jump: Jump | None) -> int:
    """Return how many machines may be bought.

    An engine without dates that starts with a clock set forward gives up what is on its way.
    """
    starts_later = jump is not None and jump.by > 0 and jump.restart is not None and not jump.has_dates
    return 2 * PODS if starts_later else PODS


def hunt_jumps(seeds: range) -> tuple[int, str]:
    """Return how many schedules were tried until one was broken, and what went wrong; empty: all are sound."""
    tried = 0
    for seed in seeds:
        for jump in draw_jumps(seed):
            tried += 1
            found = find_faults(jump)
            if found:
                return tried, f"{jump}: {'; '.join(found)}"
    return tried, ""


def find_faults(jump: Jump | None) -> list[str]:
    """Run the schedule and say what went wrong, by the true time."""
    scenario = read_scenario(json.dumps(schedule(jump)), "clock jumps")
    simulation = build_simulation(scenario, BuildOptions(planning=Planning(strict=True)))
    result = simulation.run()
    found = [] if result.final.running == LEFT else [f"{result.final.running} pods run, not {LEFT}"]
    if result.increases > most_bought(jump):
        found.append(f"{result.increases} machines were bought for {PODS} pods")
    removed = [fact.at for fact in result.journal if fact.what == What.NODE_REMOVED]
    nodes = [node for _, node in simulation.cluster.live.nodes()]
    if len(nodes) != LEFT:
        found.append(f"{len(nodes)} nodes stay for {LEFT} pods")
    elif removed and removed[-1] > GONE + (A_TENTH if jump is not None and not jump.has_dates else 0):
        found.append(f"the last idle node goes only at {removed[-1]:g} s")
    tainted = [node.name for node in nodes if any(taint.key == TAINT for taint in node.spec.taints)]
    return [*found, *(f"{name} stays tainted" for name in tainted)]
