"""What of a plan is done now, and what waits although it was planned (design.md §6)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodewright.act.budget import DeletionBudget, Machine
from nodewright.model.action import DeleteInstances
from nodewright.model.settings import SafetySettings
from nodewright.planner.plan import HeldBack, Plan, PlannedAction
from nodewright.registry.state import ClusterState

SECOND_LOOK = "an engine that has just started looks twice before it deletes a machine for its age"


@dataclass(frozen=True, kw_only=True)
class Restraint:
    """``paused`` says why nothing may be written now, empty otherwise.

    ``has_looked`` is false in the first loop of an engine. How long a machine has been without a node is then known
    from saved memory alone, which by itself never authorises a deletion.
    """

    settings: SafetySettings = field(default_factory=SafetySettings)
    paused: str = ""
    paused_until: float = 0.0
    has_looked: bool = True

    def apply(self, plan: Plan, state: ClusterState) -> tuple[Plan, Mapping[Machine, float]]:
        """The plan with only what may be done, and the deletions that must be remembered."""
        if self.paused:
            held = tuple(
                HeldBack(action=action, reason=self.paused, until=self.paused_until) for action in plan.actions
            )
            return replace(plan, actions=(), held_back=held, paused=self.paused), state.memory.deletions
        if not any(isinstance(action, DeleteInstances) for action in plan.actions):
            return plan, state.memory.deletions
        budget = DeletionBudget(state, self.settings)
        allowed: list[PlannedAction] = []
        waiting: list[HeldBack] = []
        for action in plan.actions:
            now, later = self._split(action, budget, state)
            allowed += [now] if now is not None else []
            waiting += [later] if later is not None else []
        return replace(plan, actions=tuple(allowed), held_back=tuple(waiting)), budget.charged

    def _split(
        self, action: PlannedAction, budget: DeletionBudget, state: ClusterState
    ) -> tuple[PlannedAction | None, HeldBack | None]:
        if not isinstance(action, DeleteInstances):
            return action, None
        if not self.has_looked and not action.failure_ids:
            return None, HeldBack(action=action, reason=SECOND_LOOK, until=state.now)
        return budget.take(action)
