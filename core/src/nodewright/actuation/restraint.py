"""What of a plan is done now, and what waits although it was planned (design.md §6)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodewright.actuation.budget import DeletionBudget, Machine, deletion_limits, empty_deletion_limits
from nodewright.actuation.removals.deleter import as_deletion
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import DeleteInstances
from nodewright.model.reason import ScaleDownResult
from nodewright.model.removal import NodeRemoval, RemovalReason
from nodewright.model.settings import SafetySettings
from nodewright.planner.plan import HeldBack, Plan, PlannedAction, ScaleDownReport

SECOND_LOOK = "an engine that has just started looks twice before it deletes a machine for its age"


@dataclass(frozen=True, kw_only=True)
class ChargedDeletions:
    """When each machine was asked to be deleted that still counts (epoch seconds): ``empty`` are nodes without pods."""

    deletions: Mapping[Machine, float]
    empty: Mapping[Machine, float]


@dataclass(frozen=True, kw_only=True)
class WriteGate:
    """``paused`` says why nothing may be written now, empty otherwise.

    ``has_looked`` is false in the first loop of an engine. How long a machine has been without a node is then known
    from saved memory alone, which by itself never authorises a deletion.
    """

    settings: SafetySettings = field(default_factory=SafetySettings)
    paused: str = ""
    paused_until: float = 0.0
    has_looked: bool = True

    def apply(self, plan: Plan, state: ClusterState) -> tuple[Plan, ChargedDeletions]:
        """The plan with only what may be done, and the deletions that must be remembered."""
        charged = ChargedDeletions(deletions=state.memory.deletions, empty=state.memory.empty_deletions)
        if self.paused:
            writes = (*plan.actions, *(_as_planned([removal], state) for removal in plan.scale_down.removals))
            held = tuple(HeldBack(action=action, reason=self.paused, until=self.paused_until) for action in writes)
            report = _reduced(plan.scale_down, ())
            unasked = replace(plan.provisioning, questions=())
            plan = replace(plan, actions=(), scale_down=report, provisioning=unasked, held_back=held)
            return replace(plan, paused=self.paused), charged
        if not plan.scale_down.removals and not any(isinstance(action, DeleteInstances) for action in plan.actions):
            return plan, charged
        budget = DeletionBudget(state, deletion_limits(state, self.settings), charged.deletions)
        empty_budget = DeletionBudget(state, empty_deletion_limits(state, self.settings), charged.empty)
        allowed: list[PlannedAction] = []
        waiting: list[HeldBack] = []
        for action in plan.actions:
            now, later = self._split(action, budget, state)
            allowed += [now] if now is not None else []
            waiting += [later] if later is not None else []
        empty = [removal for removal in plan.scale_down.removals if removal.reason == RemovalReason.EMPTY]
        others = [removal for removal in plan.scale_down.removals if removal.reason != RemovalReason.EMPTY]
        going: set[str] = set()
        for own, removals in ((empty_budget, empty), (budget, others)):
            within, later_removals = _within(own, removals, state)
            going.update(removal.node for removal in within)
            waiting += later_removals
        report = _reduced(plan.scale_down, tuple(r for r in plan.scale_down.removals if r.node in going))
        plan = replace(plan, actions=tuple(allowed), scale_down=report, held_back=tuple(waiting))
        return plan, ChargedDeletions(deletions=budget.charged, empty=empty_budget.charged)

    def _split(
        self, action: PlannedAction, budget: DeletionBudget, state: ClusterState
    ) -> tuple[PlannedAction | None, HeldBack | None]:
        if not isinstance(action, DeleteInstances):
            return action, None
        if not self.has_looked and not action.failure_ids:
            return None, HeldBack(action=action, reason=SECOND_LOOK, until=state.now)
        return budget.take(action)


def _as_planned(removals: Sequence[NodeRemoval], state: ClusterState) -> DeleteInstances:
    """What removals of one group will ask of the cloud in the end."""
    return as_deletion(removals, state.groups[removals[0].group].seen.target or 0)


def _reduced(report: ScaleDownReport, removals: tuple[NodeRemoval, ...]) -> ScaleDownReport:
    """The report with only these removals; its result says whether any is left."""
    none_left = report.removals and not removals
    return replace(report, removals=removals, result=ScaleDownResult.NO_NODE_DELETED if none_left else report.result)


def _within(
    budget: DeletionBudget, removals: Sequence[NodeRemoval], state: ClusterState
) -> tuple[tuple[NodeRemoval, ...], list[HeldBack]]:
    """The removals that the budget allows, and the rest; a zero-or-max group goes as a whole or not at all."""
    waiting: list[HeldBack] = []
    refused: set[str] = set()
    for group in dict.fromkeys(removal.group for removal in removals):
        own = [removal for removal in removals if removal.group == group]
        action = _as_planned(own, state)
        held = budget.take_whole(action) if own[0].batch > 1 else budget.take(action)[1]
        if held is not None and isinstance(held.action, DeleteInstances):
            waiting.append(held)
            refused.update(held.action.instance_ids)
    return tuple(removal for removal in removals if removal.instance_id not in refused), waiting
