"""A month of pods that come and go: no move is undone within an hour (slow tier)."""

import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pytest

from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.planning import Planning
from nodewright.model.action import IncreaseSize
from nodewright.model.move import Move, MoveStage
from nodewright.model.plan import Plan
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.scenario_file import read_scenario

HOUR = 3600.0
STEP = 0.02
DAYS = 30
# By day there are many pods, by night few, and never quite as many as the day before.
BASE = {"web": (4, 14), "api": (2, 8), "batch": (0, 6)}
CPU = {"web": "900m", "api": "1800m", "batch": "3500m"}
GROUPS = [
    {"name": "small", "cpu": 2, "memory": "8Gi", "price_per_hour": 0.1, "max_size": 40},
    {"name": "mid", "cpu": 4, "memory": "16Gi", "price_per_hour": 0.19, "max_size": 40},
    {"name": "large", "cpu": 16, "memory": "64Gi", "price_per_hour": 0.7, "max_size": 40, "size": 1},
]


class Month:
    """One run. ``begun`` and ``done``: the moves and when. ``grown``: when each group grew for pods. ``gone``: when nodes went."""

    def __init__(self, scheduler: str, days: int = DAYS) -> None:
        random = Random(7)
        self.wanted: dict[str, list[tuple[float, int]]] = {}
        steps: list[dict[str, Any]] = []
        for name, (least, most) in BASE.items():
            for half in range(2 * days):
                at = half * 12 * HOUR + random.uniform(1, 5) * HOUR
                pods = (
                    random.randint((least + most) // 2, most)
                    if half % 2 == 0
                    else random.randint(least, (least + most) // 2)
                )
                self.wanted.setdefault(name, []).append((at, pods))
                steps.append({"do": "scale", "at": round(at), "deployment": name, "replicas": pods})
        deployments = [
            {"name": name, "at": 0, "replicas": least, "pod": {"cpu": CPU[name], "memory": "500Mi"}}
            for name, (least, _) in BASE.items()
        ]
        scenario = {
            "name": "churn",
            "duration": f"{days * 24}h",
            "scheduler": scheduler,
            "settings": {"consolidation-policy": "balanced", "scan-interval": "1m", "expander": "least-cost"},
            "providers": {"fake": {"groups": GROUPS}},
            "deployments": deployments,
            "timeline": steps,
        }
        self.begun: list[Move] = []
        self.ended: list[tuple[float, Move]] = []
        self.grown: list[tuple[float, str]] = []
        self.removed: list[tuple[float, str]] = []
        self.created: dict[str, tuple[float, str]] = {}
        planning = Planning(make_plan=self._plan, strict=True)
        build = BuildOptions(planning=planning, meters_costs=False)
        self.result = build_simulation(read_scenario(json.dumps(scenario), "churn"), build).run()

    def _plan(self, state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
        steps = count()
        # The simulated clock stands still while planning: each look at it counts as some time, or no search would end early.
        plan, memory = make_plan(replace(state, elapsed=lambda: next(steps) * STEP), settings, random)
        for node in state.observation.snapshot.live_nodes():
            ref = state.group_of_node.get(node.name)
            if ref is not None:
                self.created.setdefault(node.name, (node.created, ref.group_id))
        self.begun += [move for move in plan.moves if move.stage == MoveStage.PROPOSED]
        self.ended += [(state.now, move) for move in plan.moves if move.stage.is_over]
        self.grown += [
            (state.now, action.group.group_id)
            for action in plan.actions
            if isinstance(action, IncreaseSize) and not action.move
        ]
        self.removed += [(state.now, removal.node) for removal in plan.scale_down.removals]
        return plan, memory

    def has_changed(self, since: float, until: float) -> bool:
        """Return whether a deployment was scaled between two moments."""
        return any(bisect_right(times, until) > bisect_right(times, since) for times in self._times().values())

    def _times(self) -> Mapping[str, list[float]]:
        return {name: [at for at, _ in steps] for name, steps in self.wanted.items()}


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["least-allocated", "most-allocated"])
def test_no_move_is_undone_within_an_hour(scheduler: str) -> None:
    month = Month(scheduler)
    done = [(at, move) for at, move in month.ended if move.stage == MoveStage.DONE]
    assert len(done) >= DAYS // 2
    for at, move in done:
        groups = {one.group.group_id for one in move.added}
        fresh = {
            name
            for name, (created, group) in month.created.items()
            if group in groups and move.started <= created <= at
        }
        sources = {month.created[name][1] for name in move.sources}
        undone = [
            *(name for moment, name in month.removed if name in fresh and at <= moment < at + HOUR),
            *(group for moment, group in month.grown if group in sources and at <= moment < at + HOUR),
        ]
        assert not undone or month.has_changed(move.started, at + HOUR), (at, move, undone)
    assert month.result.final.pending == 0
