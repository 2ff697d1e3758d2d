"""A brain whose plans are told and not carried out."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from nodewright.engine.autoscaler import Brain
from nodewright.model.removal import NodeRemoval
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright.planner.plan import Plan, PlannedAction, ScaleDownReport
from nodewright.registry.state import ClusterState
from nodewright.snapshot.observation import Observation
from nodewright.validate import Violation

Withheld = PlannedAction | NodeRemoval


class DryBrain:
    """Plans as ever, checks what it planned, and keeps the actions for itself."""

    def __init__(self) -> None:
        self.brain = Brain(make_plan=self._plan, check_actions=self._check)
        self._withheld: tuple[Withheld, ...] = ()
        self._down = ScaleDownReport()
        self._planned: tuple[PlannedAction, ...] = ()

    def take_withheld(self) -> tuple[Withheld, ...]:
        """What the last plan would have done."""
        taken, self._withheld = self._withheld, ()
        return taken

    def _plan(self, state: ClusterState, settings: Settings, random: Random) -> Plan:
        plan = make_plan(state, settings, random)
        self._planned = plan.actions
        self._withheld = (*plan.actions, *plan.scale_down.removals)
        self._down = plan.scale_down
        idle = replace(plan.scale_down, removals=(), mark=(), unmark=())
        return replace(plan, actions=(), scale_down=idle)

    def _check(self, seen: Observation, _: Sequence[PlannedAction], settings: Settings) -> tuple[Violation, ...]:
        return Brain().check(seen, self._planned, self._down, settings)
