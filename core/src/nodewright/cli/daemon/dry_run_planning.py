"""Planning for dry runs: plans are reported and not carried out."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.brain import Planning
from nodewright.model.plan import Plan, PlannedAction
from nodewright.model.removal import NodeRemoval
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright.snapshot.observation import Observation
from nodewright.validate import PlanViolation

Withheld = PlannedAction | NodeRemoval


class DryRunPlanning:
    """Plan and check as usual, and withhold the actions from the engine."""

    def __init__(self) -> None:
        self.brain = Planning(make_plan=self._plan, check_actions=self._check)
        self._withheld: tuple[Withheld, ...] = ()
        self._planned: tuple[Plan, PlanMemory] | None = None
        self._whole: Plan | None = None

    def take_withheld(self) -> tuple[Plan | None, tuple[Withheld, ...]]:
        """Return the last full plan and its actions, once; then None and no actions."""
        taken, self._withheld = self._withheld, ()
        whole, self._whole = self._whole, None
        return whole, taken

    def _plan(self, state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
        plan, memory = make_plan(state, settings, random)
        self._planned, self._whole = (plan, memory), plan
        self._withheld = (*plan.actions, *plan.scale_down.removals)
        idle = replace(plan.scale_down, removals=(), mark=(), unmark=())
        return replace(plan, actions=(), scale_down=idle), memory

    def _check(self, seen: Observation, _: Sequence[PlannedAction], settings: Settings) -> tuple[PlanViolation, ...]:
        return Planning().check(seen, *self._planned, settings) if self._planned is not None else ()
