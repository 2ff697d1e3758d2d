"""Planning, and the independent check of its decisions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.model.plan import Plan, PlannedAction
from nodewright.model.removal import NodeRemoval
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright.snapshot.observation import Observation
from nodewright.validate import PlanViolation, check_actions, check_removals

MakePlan = Callable[[ClusterState, Settings, Random], tuple[Plan, PlanMemory]]
CheckRemovals = Callable[[Observation, Sequence[NodeRemoval], Mapping[str, str], Settings], tuple[PlanViolation, ...]]
CheckActions = Callable[[Observation, Sequence[PlannedAction], Settings], tuple[PlanViolation, ...]]


@dataclass(frozen=True, kw_only=True)
class Planning:
    """The functions that plan a loop and check the plan independently.

    A planned action that breaks a rule is always a bug. ``strict`` ends the process with InvariantError, for
    tests; otherwise that action alone is dropped, with an alert.
    """

    make_plan: MakePlan = make_plan
    check_actions: CheckActions = check_actions
    check_removals: CheckRemovals = check_removals
    strict: bool = False

    def check(self, seen: Observation, plan: Plan, memory: PlanMemory, settings: Settings) -> tuple[PlanViolation, ...]:
        """Return which cloud writes and removals of a plan break a rule."""
        violations = self.check_actions(seen, plan.actions, settings)
        removals = plan.scale_down.removals
        if not removals:
            return violations
        return violations + self.check_removals(seen, removals, memory.scale_down.hints, settings)


def without_violations(plan: Plan, violations: tuple[PlanViolation, ...]) -> Plan:
    """Return the plan without the actions and removals that the independent check refused."""
    refused = {id(violation.action) for violation in violations}
    if not refused:
        return plan
    removals = tuple(removal for removal in plan.scale_down.removals if id(removal) not in refused)
    return replace(
        plan,
        actions=tuple(action for action in plan.actions if id(action) not in refused),
        scale_down=replace(plan.scale_down, removals=removals),
    )
