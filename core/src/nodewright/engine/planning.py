"""Planning, and the independent check of its decisions. In a dry run plans are reported and not carried out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Self

from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.model.plan import Plan, PlannedAction, ScaleDownReport
from nodewright.model.removal import NodeRemoval
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright.snapshot.observation import Observation
from nodewright.validate import PlanViolation, check_actions, check_moves, check_removals

MakePlan = Callable[[ClusterState, Settings, Random], tuple[Plan, PlanMemory]]
CheckRemovals = Callable[[Observation, Sequence[NodeRemoval], Mapping[str, str], Settings], tuple[PlanViolation, ...]]
CheckActions = Callable[[Observation, Sequence[PlannedAction], Settings], tuple[PlanViolation, ...]]
Withheld = PlannedAction | NodeRemoval


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

    @classmethod
    def timed(cls, clock: Callable[[], float]) -> Self:
        """Return the usual planning with time limits measured by ``clock`` (seconds). Without it time stands still."""

        def plan_in_time(state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
            begun = clock()
            return make_plan(replace(state, elapsed=lambda: clock() - begun), settings, random)

        return cls(make_plan=plan_in_time)

    def check(self, seen: Observation, plan: Plan, memory: PlanMemory, settings: Settings) -> tuple[PlanViolation, ...]:
        """Return which cloud writes and removals of a plan break a rule."""
        removals = plan.scale_down.removals
        violations = self.check_actions(seen, plan.actions, settings)
        violations += check_moves(seen, plan.moves, plan.actions, removals) if plan.moves else ()
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


class DryRunPlanning:
    """Plans and checks as usual, and withholds the actions from the engine."""

    def __init__(self) -> None:
        self.planning = Planning(make_plan=self._plan, check_actions=self._check)
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
        memory = replace(memory, moves=state.memory.moves)
        self._planned, self._whole = (plan, memory), plan
        self._withheld = (*plan.actions, *plan.scale_down.removals)
        return withhold(plan), memory

    def _check(self, seen: Observation, _: Sequence[PlannedAction], settings: Settings) -> tuple[PlanViolation, ...]:
        return Planning().check(seen, *self._planned, settings) if self._planned is not None else ()


def withhold(plan: Plan) -> Plan:
    """Return the plan that a dry run continues with: no writes to clouds and nodes, and the other reports of ``plan``.

    It starts from ``Plan.without_writes``, so that a new kind of write is withheld unless its field is added here. The
    reports contain statuses of custom resources and calls of provisioning classes; the cluster and providers of a dry run do
    not write them.
    """
    down = plan.scale_down
    return replace(
        plan.without_writes(),
        scale_down=ScaleDownReport(
            result=down.result,
            unneeded=down.unneeded,
            unremovable=down.unremovable,
            passed_over=down.passed_over,
            utilization=down.utilization,
            cooldown_until=down.cooldown_until,
            next_change=down.next_change,
            partial=down.partial,
            missing_pods=down.missing_pods,
        ),
        provisioning=plan.provisioning,
        buffers=plan.buffers,
        quotas=plan.quotas,
        misfits=plan.misfits,
        leaving=plan.leaving,
        moves=plan.moves,
        rejected_move=plan.rejected_move,
        outdated=plan.outdated,
        search_at=plan.search_at,
        renew_at=plan.renew_at,
    )
